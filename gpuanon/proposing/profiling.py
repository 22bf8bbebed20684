"""What the values of a column look like: counts and shapes, looked at once, for proposals."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each
from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.formats.csv.csv_dialect import WORDS
from gpuanon.tables.table import Table
from gpuanon.tables.values import Family, distinct, family, floats, null_mask, plain

if TYPE_CHECKING:
    import pyarrow as pa


SAMPLE = 400
"""Different values of a column whose text is looked at."""
NINES = (9.0, 99.0, 999.0, 9999.0, 99999.0, 98.0, 998.0, 9998.0, 88.0, 888.0, 8888.0, 97.0, 997.0)
NEGATIVE = (-1.0, -2.0, -3.0, -4.0, -5.0, -6.0, -7.0, -8.0, -9.0, -99.0, -999.0, -9999.0)
"""Numbers that stand for a missing value by convention."""


@dataclass(frozen=True, repr=False)
class Profile:
    """A column in figures.  `values`, `lowest`, `highest` and `rare` are private: they are of cells.

    holds    : family of its type
    rows     : of the table
    nulls    : rows without a value
    distinct : different values
    alone    : values that occur once
    whole    : numbers: all are whole
    zeros    : rows that hold a zero
    mean, spread, skewness : of numbers, missing-value codes left out
    gaps     : whole numbers: share of those between the lowest and the highest that do not occur
    peaks    : whole numbers: values that are clearly more frequent than both neighbours
    codes    : missing-value codes that it seems to hold: conventional numbers far from all others
    certain  : whether a code is far enough from all other values to be sure
    length   : text: mean characters of a value
    spaces   : text: share of values with a space inside
    rare     : rows of the rarest value
    label    : what a codebook, or the file, calls it
    values   : some different values as text, spread over all
    """

    name: str
    holds: Family
    rows: int
    nulls: int = 0
    label: str = ""
    distinct: int = 0
    alone: int = 0
    whole: bool = False
    zeros: int = 0
    lowest: float = float("nan")
    highest: float = float("nan")
    mean: float = 0.0
    spread: float = 0.0
    skewness: float = 0.0
    gaps: float = 0.0
    peaks: int = 0
    codes: tuple[float, ...] = ()
    certain: bool = True
    length: float = 0.0
    spaces: float = 0.0
    rare: int = 0
    consecutive: bool = False
    values: tuple[str, ...] = field(default=(), compare=False)

    def without_cells(self) -> Profile:
        """The figures without what is of single cells."""
        return replace(self, values=(), lowest=float("nan"), highest=float("nan"), rare=0)

    @property
    def present(self) -> int:
        """Rows with a value."""
        return self.rows - self.nulls

    @property
    def share_alone(self) -> float:
        """Share of the rows with a value of their own."""
        return self.alone / max(self.present, 1)

    @property
    def share_distinct(self) -> float:
        """Different values per row that has one."""
        return self.distinct / max(self.present, 1)


def profiles(table: Table) -> list[Profile]:
    """The profile of every column.  Cost: the values of each column are counted once."""
    return each(lambda name: _profile(name, table), list(table.names))


def _profile(name: str, table: Table) -> Profile:
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.arrow(name)
    holds, rows = family(column.type), len(column)
    if holds in ("other", "nothing") or rows == 0:
        return Profile(name, holds, rows, rows if holds == "nothing" else column.null_count)
    nulls = int(null_mask(column).sum())
    counted = pc.value_counts(plain(column).drop_null())
    values, counts = counted.field("values"), numpy_array(counted.field("counts"))
    if pa.types.is_floating(values.type):
        there = numpy_array(pc.is_finite(values))
        values, counts = values.filter(arrow_array(there)), counts[there]
    if len(counts) == 0:
        return Profile(name, "nothing", rows, nulls)
    found: dict[str, Any] = {
        "nulls": nulls,
        "distinct": len(counts),
        "alone": int((counts == 1).sum()),
        "rare": int(counts.min()),
        "values": _texts(values),
    }
    if holds == "number":
        found |= _of_numbers(floats(pa.chunked_array([values])), counts)
    elif holds in ("text", "levels"):
        texts = values.cast(pa.string())
        found["length"] = float(pc.mean(pc.utf8_length(texts)).as_py())
        found["spaces"] = float(pc.mean(pc.match_substring(texts, " ").cast(pa.int8())).as_py())
    return Profile(name, holds, rows, **found)


def _texts(values: pa.Array) -> tuple[str, ...]:
    """Some of the values as text, spread evenly over all."""

    at = np.unique(np.linspace(0, len(values) - 1, min(SAMPLE, len(values))).astype(np.int64))
    return tuple(str(value) for value in values.take(arrow_array(at)).to_pylist())


def _of_numbers(values: Host, counts: Host) -> dict[str, Any]:
    """What only numbers have.  values : different ones; counts : how often each occurs."""
    order = np.argsort(values)
    values, counts = values[order], counts[order]
    whole = bool((values == np.round(values)).all())
    codes, certain = missing_codes(values, counts) if whole else ((), True)
    inside = ~np.isin(values, codes)
    x, w = values[inside], counts[inside].astype(float)
    mean = np.average(x, weights=w) if len(x) else 0.0
    spread = np.sqrt(np.average((x - mean) ** 2, weights=w)) if len(x) else 0.0
    skewness = float(np.average(((x - mean) / spread) ** 3, weights=w)) if spread > 0 else 0.0
    return {
        "whole": whole,
        "zeros": int(counts[values == 0].sum()),
        "lowest": float(x.min()) if len(x) else float(values[0]),
        "highest": float(x.max()) if len(x) else float(values[-1]),
        "mean": float(mean),
        "spread": float(spread),
        "skewness": skewness,
        "gaps": 1 - len(x) / (x[-1] - x[0] + 1) if whole and len(x) else 0.0,
        "peaks": _peaks(w) if whole else 0,
        "codes": codes,
        "certain": certain,
        "consecutive": whole and values[-1] - values[0] + 1 == len(values),
    }


def _peaks(counts: Host) -> int:
    """Values that are more frequent than both neighbours, beyond what a sample of so many rows shows by chance."""
    room = np.pad(counts, 1)
    error = 3 * np.sqrt(room)
    above = room[1:-1] - error[1:-1]
    return int(((above > room[:-2] + error[:-2]) & (above > room[2:] + error[2:])).sum())


def missing_codes(values: Host, counts: Host) -> tuple[tuple[float, ...], bool]:
    """Conventional numbers for a missing value that a column of whole numbers seems to hold, and whether it is certain.

    values : different ones, ascending; counts : how often each occurs

    A negative one counts where no other value is negative; it is certain.  One of nines or eights counts where it lies
    beyond all others and is much more frequent than the value next to it; it is certain where it is farther from the
    others than they are from each other.
    """
    negative = np.isin(values, NEGATIVE)
    if negative.any() and (values[~negative] >= 0).all() and (~negative).sum() >= 2 and negative.sum() <= 3:
        return tuple(values[negative].tolist()), True
    top = len(values)
    while top > 2 and values[top - 1] in NINES and counts[top - 1] >= 5 * counts[: top - 1][-1]:
        top -= 1
    if top == len(values) or top < 3:
        return (), True
    rest = values[:top]
    gap = float(values[top] - rest[-1])
    if gap < 2:
        return (), True
    return tuple(values[top:].tolist()), gap > float(rest[-1] - rest[0])


_BAND = re.compile(
    r"\s*(?P<before>[^\d\s-][^\d-]*?)?\s*[\[(]?\s*(?P<low>-?\d+(?:[.,]\d+)*)"
    r"(?P<between>\s*(?:[-–—:;,/]|\.\.\.?|to|bis|à|a|and|und|et|y|<)+\s*)?[^\d-]{0,6}(?P<high>-?\d+(?:[.,]\d+)*)?(?P<after>[^\d]*)"
)
_OPENING = re.compile(r"(?i)[\[(\]$€£]*|from|von|de|desde|age[ds]?|alter|edad|usd|eur|gbp")
_BELOW = re.compile(r"(?i)<|≤|under|below|less|up to|unter|bis|weniger|moins|jusqu|menos|hasta|inferior")
_ABOVE = re.compile(r"(?i)>|≥|over|above|more|über|ueber|mehr|ab\b|plus|más|mas\b|superior|\+|older|and up")


@dataclass(frozen=True)
class Bands:
    """Ordered levels that a column of text holds.

    levels  : lowest first
    sorted  : whether that is their alphabetical order
    numbers : whether they are whole numbers, and no bands
    words   : for no value, beside them
    """

    levels: tuple[str, ...]
    sorted: bool
    numbers: bool
    words: tuple[str, ...] = ()


def ordered_texts(table: Table, name: str, most: int) -> Bands | None:
    """The values of a text column that are bands (``0-9``, ``[10-20)``, ``<30``, ``65+``) or numbers, beside words for
    no value, in the order of their numbers; None for other columns."""
    held = [str(value) for value in distinct([plain(table.arrow(name))]).to_pylist()]
    values = [value for value in held if value.strip().lower() not in WORDS]
    if not 3 <= len(values) <= most:
        return None
    places = [_place_of_band(value) for value in values]
    known = [place for place in places if place is not None]
    if len(known) < len(values) or len(set(known)) < len(known):
        return None
    order = tuple(value for _, value in sorted(zip(known, values, strict=True)))
    words = tuple(value for value in held if value not in order)
    return Bands(order, list(order) == values, all(re.fullmatch(r"\d+", value) for value in order), words)


def _place_of_band(value: str) -> tuple[float, float, float] | None:
    """Where a band stands among others: its lower end, open ones before or after closed ones, its upper end."""
    found = _BAND.fullmatch(value)
    if found is None:
        return None
    low, high = (None if found[end] is None else _number(found[end]) for end in ("low", "high"))
    before = found["before"] or ""
    if low is None or not (_OPENING.fullmatch(before) or _BELOW.search(before) or _ABOVE.search(before)):
        return None  # a letter before a number makes a code
    said = f"{before} {found['after'] if high is None else ''}"
    side = -1.0 if high is None and _BELOW.search(said) else 1.0 if high is None and _ABOVE.search(said) else 0.0
    return low, side, low if high is None else high


def _number(text: str) -> float | None:
    """A number in a label, with separators of thousands or a decimal sign."""
    plain_text = re.sub(r"[.,](?=\d{3}(?:\D|$))", "", text).replace(",", ".")
    try:
        return float(plain_text)
    except ValueError:
        return None
