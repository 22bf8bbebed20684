"""Direct identifiers by content: patterns, and check digits where a number has them (python-stdnum)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from gpuanon.proposing.profiling import Profile

MOST = 0.9
"""Share of the values that have to be of a kind: entries have errors, and chance must not reach it."""
_FEW = 30  # values that rule a kind out before all are looked at
_OWN = 0.05  # different values per row from which on numbers may be of one person each


@dataclass(frozen=True)
class Content:
    """A kind of direct identifier that values show.

    label : for reasons
    hipaa : number in HIPAA's list
    """

    label: str
    hipaa: int


_ADDRESS = Content("address", 2)
_PATTERNS: tuple[tuple[Content, str], ...] = (
    (Content("e-mail address", 6), r"[^@\s]+@[^@\s]+\.[A-Za-z]{2,}"),
    (Content("web address", 14), r"(?i)(?:https?|ftp)://\S+|www\.\S+\.\S+"),
    (Content("IP address", 15), r"(?:(?:25[0-5]|2[0-4]\d|1?\d?\d)\.){3}(?:25[0-5]|2[0-4]\d|1?\d?\d)"),
    (Content("IP address", 15), r"(?i)(?=.*::|(?:[0-9a-f]{1,4}:){7})[0-9a-f:]{3,39}"),
    (Content("device number", 13), r"(?i)(?:[0-9a-f]{2}[:-]){5}[0-9a-f]{2}"),
    (Content("photograph", 17), r"(?i).*\.(?:jpe?g|png|tiff?|gif|bmp|heic|dcm)"),
    (Content("biometric identifier", 16), r"(?i).*\.(?:wav|mp3|wsq|fpt|iso19794)"),
    (Content("unique code", 18), r"(?i)\{?[0-9a-f]{8}-?(?:[0-9a-f]{4}-?){3}[0-9a-f]{12}\}?"),
    (Content("unique code", 18), r"(?i)(?=.*[a-f])(?=.*\d)(?:[0-9a-f]{32}|[0-9a-f]{40}|[0-9a-f]{64})"),
    (Content("national identification number", 7), r"\d{3}-\d{2}-\d{4}"),
    (Content("telephone number", 4), r"(?:\+|00)\d{1,3}[\s./()-]*\d(?:[\s./()-]*\d){5,12}"),
    (Content("telephone number", 4), r"(?=.*[\s./()-])\(?0?\d{2,5}\)?[\s./-]*\d{2,4}(?:[\s./-]?\d{2,4}){1,4}"),
    (_ADDRESS, r"(?i)\d{1,5}(?:[ ,]+(?:bis|ter|[a-d]))?[ ,]+(?:[\w.'’-]+ ){0,4}(?:street|st\.?|avenue|ave\.?|road|"
     r"rd\.?|lane|drive|blvd\.?|way|court|rue|place|chemin|allée|impasse|quai|boulevard)\b.*"),
    (_ADDRESS, r"(?i)(?:rue|avenue|calle|c/|avda\.?|avenida|plaza|paseo|via|camino|boulevard|place) .*\d.*"),
    (_ADDRESS, r"(?i)[\w.'’ -]*(?:straße|strasse|str\.|weg|gasse|platz|allee|damm|ufer|ring) ?\d+ ?[a-z]?\b.*"),
    (_ADDRESS, r"-?\d{1,2}\.\d{4,}\s*[,;]\s*-?\d{1,3}\.\d{4,}"),
)  # fmt: skip

_CHECKED: tuple[tuple[Content, tuple[str, ...]], ...] = (
    (Content("account number", 10), ("iban", "luhn:13-19", "es.ccc")),
    (Content("national identification number", 7), (
        "de.idnr", "fr.nir", "es.dni", "es.nie", "es.nif", "ch.ssn", "at.vnr", "be.nn", "nl.bsn", "it.codicefiscale",
        "pl.pesel", "se.personnummer", "fi.hetu", "dk.cpr", "no.fodselsnummer", "pt.cc", "ie.pps", "cz.rc", "ro.cnp",
        "ee.ik", "bg.egn", "gr.amka", "br.cpf", "mx.curp", "ca.sin", "in_.aadhaar", "cn.ric", "kr.rrn", "za.idnr",
        "tr.tckimlik",
    )),
    (Content("health plan number", 9), ("gb.nhs",)),
)  # fmt: skip

_TEXT_DATE = re.compile(
    r"(?:0?[1-9]|[12]\d|3[01])[./-](?:0?[1-9]|[12]\d|3[01])[./-](?:\d{4}|\d{2})(?:[ T]\d{1,2}:\d{2}.*)?"
    r"|(?:18|19|20)\d\d[./-]\d{1,2}[./-]\d{1,2}(?:\D.*)?"
)
_LONG = re.compile(r"[A-Za-z]{0,4}[-_/ ]?\d{6,}(?:[-_/ ]\d+)?[A-Za-z]?")
_TOKEN = re.compile(r"(?=.*\d)(?=.*[A-Za-z])[A-Za-z0-9+/=_-]{16,}")  # hashes, templates, keys
_VIN = re.compile(r"(?=.*\d)(?=.*[A-HJ-NPR-Z])[A-HJ-NPR-Z0-9]{17}")
_PLATE = re.compile(
    r"[A-ZÄÖÜ]{1,3}[- ][A-Z]{1,2}[- ]?\d{1,4}[EH]?|[A-Z]{2}-\d{3}-[A-Z]{2}|\d{4}[ -]?[BCDFGHJKLMNPRSTVWXYZ]{3}"
)
_PERSON = re.compile(
    r"(?:[A-ZÀ-Þ][\w'’.-]*)(?:,? (?:(?:von|van|de|der|del|la|le|el|y|di|da|zu) )*[A-ZÀ-Þ][\w'’.-]*){1,4}"
)


def content(profile: Profile) -> Content | None:
    """The kind of direct identifier that the values of a column are; None for none."""
    if profile.holds not in ("text", "number") or profile.distinct < 5:
        return None
    values = [value.strip() for value in profile.values]
    if profile.holds == "number":
        if not profile.whole or max(map(len, values)) < 8:
            return None
        return _with_check_digit([value.removesuffix(".0") for value in values])
    if dates_as_text(values):
        return None
    for kind, pattern in _PATTERNS:
        if kind.hipaa == 4 and profile.share_distinct < _OWN:
            continue  # people share the codes of regions, and have telephones of their own
        if _mostly(re.compile(pattern).fullmatch, values):
            return kind
    if _mostly(_VIN.fullmatch, values) or (profile.share_distinct > 0.5 and _mostly(_PLATE.fullmatch, values)):
        return Content("vehicle number", 12)
    found = _with_check_digit(values) if any(any(map(str.isdigit, value)) for value in values) else None
    many = profile.share_distinct > 0.05 and profile.distinct >= 50
    if found is None and many and any(_mostly(code.fullmatch, values) for code in (_LONG, _TOKEN)):
        return Content("unique code", 18)
    if found is None and profile.share_distinct > 0.3 and profile.length < 40 and _mostly(_PERSON.fullmatch, values):
        return Content("name", 1)
    return found


def dates_as_text(values: Sequence[str]) -> bool:
    """Whether texts are dates; of a CSV file those that are not written as YYYY-MM-DD."""
    return bool(values) and _mostly(_TEXT_DATE.fullmatch, values)


def _with_check_digit(values: Sequence[str]) -> Content | None:
    """The kind of number whose check digits the values keep."""
    if sum(map(len, values[:_FEW])) / len(values[:_FEW]) < 8:
        return None
    for kind, names in _CHECKED:
        for name in names:
            if _mostly(_validator(name), values):
                return kind
    return None


@cache
def _validator(name: str) -> Callable[[str], bool]:
    """python-stdnum's check of a number; ``luhn:13-19`` is Luhn's, for so many digits."""
    module, _, lengths = name.partition(":")
    valid: Callable[[str], bool] = import_module(f"stdnum.{module}").is_valid
    if not lengths:
        return valid
    low, high = map(int, lengths.split("-"))

    def of_length(value: str) -> bool:
        digits = re.sub(r"[ -]", "", value)
        return low <= len(digits) <= high and digits.isdigit() and valid(digits)

    return of_length


def _mostly(matches: Callable[[str], object], values: Sequence[str]) -> bool:
    """Whether most of the values match."""
    first = values[:: max(1, len(values) // _FEW)]
    if sum(bool(matches(value)) for value in first) < MOST * len(first) - 1:
        return False
    return sum(bool(matches(value)) for value in values) >= MOST * len(values)
