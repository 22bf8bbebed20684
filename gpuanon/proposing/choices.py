"""What each column of a table may be: a proposal with its reason, from its name and its values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuanon.proposing.codebook import Codebook, Entry
from gpuanon.proposing.content import content, dates_as_text
from gpuanon.proposing.profiling import Profile, ordered_texts
from gpuanon.proposing.words import Subject, subjects, subjects_of_label, tokens
from gpuanon.tables.native import column_type
from gpuanon.tables.schema import Kind, Role, Transform
from gpuanon.tables.table import Table

FEW = 12
"""Different whole numbers that look like codes of categories."""
MOST_LEVELS = 250
"""Levels of a text column that is masked; each becomes a coordinate."""
_ROWS_PER_LEVEL = 20  # that a column of many levels has to have, to be masked
_LEVELS = 100  # that are masked whatever the number of rows
NAMED_LEVELS = 20
RARE = 10
"""Rows that every level has to have so that its name is written into a recipe."""
_SKEWED = 2.0
_UNIQUE = 0.95


@dataclass(frozen=True, repr=False)
class Choice:
    """What is proposed for a column.

    reason   : why, without a value of the table
    doubtful : whether somebody who knows the table should be asked
    levels   : order of an ordinal column's levels, where it has to be written
    hipaa    : number in HIPAA's list of identifiers, or 0
    unknown  : whether nothing is known of it but its values
    missing  : words or numbers for no value, which are read as nulls and come back
    hierarchy : how values are recoded before the mask, as a recipe has it; None: they are not
    """

    profile: Profile
    role: Role
    reason: str
    kind: Kind | None = None
    transform: Transform = "none"
    doubtful: bool = False
    levels: tuple[str, ...] | None = None
    hipaa: int = 0
    unknown: bool = False
    missing: tuple[str | int, ...] = ()
    hierarchy: Mapping[str, Any] | None = None

    @property
    def name(self) -> str:
        """Of the column."""
        return self.profile.name

    @property
    def released(self) -> bool:
        """Whether the column is in the release, masked or not."""
        return self.role in ("quasi", "sensitive", "other", "weight")

    def spec(self) -> dict[str, Any]:
        """The column in a recipe."""
        said: dict[str, Any] = {"role": self.role}
        if self.role in ("quasi", "sensitive"):  # a column that is kept stays as it is, in a CSV text for text
            if self.kind is not None:
                said["kind"] = self.kind
            if self.transform != "none":
                said["transform"] = self.transform
            if self.levels is not None:
                said["levels"] = list(self.levels)
            if self.hierarchy is not None:
                said["hierarchy"] = dict(self.hierarchy)
            if self.missing and self.kind != "categorical":
                said["missing"] = list(self.missing)
        return said

    def because(self, reason: str, **changes: Any) -> Choice:
        """Another role or kind, for this reason."""
        return replace(self, reason=reason, **changes)


def choices(table: Table, profiles: Sequence[Profile], codebook: Codebook | None = None) -> list[Choice]:
    """A proposal for every column by itself; what nothing is known of is masked, and what a codebook says wins."""
    replicates = replicate_weights(profiles)
    found = []
    for profile in profiles:
        entry = (codebook or {}).get(profile.name, Entry())
        profile = replace(profile, label=entry.label)
        choice = _with_kind(table, _said(_choose(profile, profile.name in replicates), entry))
        found.append(_as_coded(choice, entry))
    return found


def _said(choice: Choice, entry: Entry) -> Choice:
    """The choice with the role of a codebook."""
    if entry.role is None or entry.role == choice.role:
        return choice
    return choice.because("by the codebook", role=entry.role, doubtful=False, unknown=False)


def _as_coded(choice: Choice, entry: Entry) -> Choice:
    """The choice with the type, the levels and the missing codes of a codebook."""
    profile = choice.profile
    if choice.role not in ("quasi", "sensitive") or not (entry.kind or entry.levels or entry.missing):
        return choice
    kind = entry.kind
    codes = [code for code in entry.levels if code not in entry.missing]
    if kind is None and codes:
        ordered = any(subject.group == "ordinal" for subject in about(profile))
        kind = "ordinal" if ordered else "categorical"
    fits = {"number": ("numeric", "ordinal", "categorical"), "text": ("ordinal", "categorical"), "time": ("date",)}
    if kind is not None and kind not in fits.get(profile.holds, ("categorical", "ordinal")):
        reason = f"{choice.reason}; the codebook says {kind}, and its values are not"
        return choice.because(reason, doubtful=True)
    levels = choice.levels
    if kind == "ordinal" and profile.holds == "text" and codes and set(profile.values) <= {*codes, *entry.missing}:
        levels = tuple(codes)
    transform = choice.transform if kind in (None, "numeric") else "none"
    missing = tuple(dict.fromkeys((*choice.missing, *entry.missing)))
    reason = f"{choice.reason}; by the codebook" if kind not in (None, choice.kind) else choice.reason
    return choice.because(reason, kind=kind or choice.kind, levels=levels, transform=transform, missing=missing)


_ROLES = frozenset(("identifier", "quasi", "sensitive", "weight", "household", "income"))


def about(profile: Profile) -> list[Subject]:
    """What a column is about: by its label where that says it, else by its name."""
    named, labelled = subjects(profile.name), subjects_of_label(profile.label)
    roles = [subject for subject in labelled if subject.group in _ROLES]
    if not roles:
        return [*labelled, *named]
    both = [subject for subject in roles if subject in named] or roles
    others = [subject for subject in (*labelled, *named) if subject.group not in _ROLES]
    return [*both, *others, *(subject for subject in named if subject.group == "weight")]


def _choose(profile: Profile, replicate: bool = False) -> Choice:
    """Role and reason."""
    known = about(profile)
    if replicate:
        return Choice(profile, "weight", "replicate weight, by its number and its mean: masked like the others")
    if profile.distinct > 1 and (reason := _weight(profile, known)) is not None:
        return Choice(profile, "weight", reason)
    direct = _direct(profile, known)
    if direct is not None:
        return direct
    if profile.holds == "nothing" or profile.distinct <= 1:
        return Choice(profile, "other", "one value only, or none")
    if profile.holds == "other":
        return Choice(profile, "dropped", "lists, structures or binary values cannot be masked", doubtful=True)
    if _is_text_date(profile):
        reason = "dates as text, which cannot be masked as dates: write YYYY-MM-DD in a CSV file, or convert the column"
        return Choice(profile, "dropped", reason, doubtful=True, hipaa=3)
    if profile.holds == "text" and profile.length >= 30 and profile.spaces > 0.5 and profile.distinct > 50:
        return Choice(profile, "dropped", "free text, which may name people", doubtful=True)
    return _indirect(profile, known)


_WEIGHT = re.compile(r"(?:p|h|hh|per|fnl|final|samp|smp|s|f)?w(?:g|gh)?ts?(?:p|mec|int|adj|ssall|ss|f|x)?")
_BODY = frozenset(("weight", "gewicht", "poids", "peso", "wt"))
_REPLICATES = 8  # columns of one name and consecutive numbers


def _weight(profile: Profile, subjects_: Sequence[Subject]) -> str | None:
    """Why a column is a sample weight; None for another.  What people weigh is told by its mean and spread."""
    if profile.holds != "number" or profile.nulls or profile.lowest < 0 or profile.distinct <= FEW:
        return None
    words = set(tokens(profile.name))
    if re.search(r"(?i)(sampl|survey|design|person|expansion|replicate)\w*[ -]+weight", profile.label):
        return "sample weight, by its label: masked, totals are kept"
    named = any(subject.group == "weight" for subject in subjects_) or any(map(_WEIGHT.fullmatch, words))
    if not named and not words & _BODY:
        return None
    body = 30 <= profile.mean <= 250 and profile.spread < 0.4 * profile.mean and profile.highest < 700
    newborn = 1500 <= profile.mean <= 5000 and profile.spread < 0.4 * profile.mean
    if words & _BODY:
        normed = not profile.whole and 0.5 <= profile.mean <= 2 and profile.highest > 2
        expands = profile.mean > 400 and not newborn and profile.spread > 0.2 * profile.mean
        if body or newborn or not (normed or expands):
            return None
    return "sample weight, by its name" + (" and its size" if words & _BODY else "") + ": masked, totals are kept"


def replicate_weights(profiles: Sequence[Profile]) -> frozenset[str]:
    """Columns of one name and consecutive numbers whose means are nearly equal: a weight for each of many samples."""
    found: dict[str, list[tuple[int, Profile]]] = {}
    for profile in profiles:
        parts = re.fullmatch(r"(.*\D)0*(\d+)", profile.name)
        usable = profile.holds == "number" and not profile.nulls and profile.distinct > FEW and profile.mean > 0
        if parts is not None and usable:
            found.setdefault(parts[1], []).append((int(parts[2]), profile))
    names: set[str] = set()
    for numbered in found.values():
        numbers = sorted(number for number, _ in numbered)
        means = [profile.mean for _, profile in numbered]
        consecutive = len(numbers) >= _REPLICATES and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if consecutive and max(means) < 1.1 * min(means) and _is_weight_stem(numbered[0][1].name):
            names |= {profile.name for _, profile in numbered}
    return frozenset(names)


def _is_weight_stem(name: str) -> bool:
    """Whether the name of numbered columns is one of weights; equal means alone are those of repeated measurements."""
    words = tokens(name)
    return (
        any(map(_WEIGHT.fullmatch, words))
        or bool({"rep", "repl", "replicate", "brr", "jk", "jkn", "bsw", "bootstrap", "weight", "gewicht"} & set(words))
        or any(word.startswith(("repw", "brr", "pwgtp", "wgtp", "bsw")) for word in words)
    )


def _direct(profile: Profile, subjects_: Sequence[Subject]) -> Choice | None:
    """A direct identifier: by its name, by its values, or because every value is different."""
    named = next((subject for subject in subjects_ if subject.group == "identifier"), None)
    seen = content(profile)
    if named is not None and (seen is not None or _plausible(profile, named)):
        hipaa = seen.hipaa if seen is not None and named.hipaa == 18 else named.hipaa
        by = "by name and content" if seen is not None else "by its name"
        return Choice(profile, "identifier", f"{named.label}, {by}", hipaa=hipaa)
    if named is not None and profile.holds == "other":
        return Choice(profile, "identifier", f"{named.label}, by its name", hipaa=named.hipaa)
    household = next((subject for subject in subjects_ if subject.group == "household"), None)
    if household is not None and profile.nulls == 0 and profile.share_distinct > 0.02 and _is_code(profile):
        return Choice(profile, "household", "household, by its name", doubtful=profile.alone == profile.present)
    if seen is not None:
        return Choice(profile, "identifier", f"{seen.label}, by its content", hipaa=seen.hipaa, doubtful=True)
    return _unique_code(profile, subjects_)


def _plausible(profile: Profile, named: Subject) -> bool:
    """Whether a column can be what its name says: many different values, and no measurement."""
    if profile.holds in ("flag", "time", "nothing", "other") or profile.distinct < 5:
        return False
    if profile.holds == "number" and not profile.whole:
        return named.hipaa == 2  # coordinates
    if named.hipaa == 18:
        return profile.share_distinct >= 0.2 or (profile.distinct >= 1000 and profile.share_distinct >= 0.02)
    return profile.share_distinct >= 0.05 or profile.distinct >= 200


def _is_code(profile: Profile) -> bool:
    """Whether values may be codes: text or whole numbers."""
    return profile.holds == "text" or (profile.holds == "number" and profile.whole)


def _unique_code(profile: Profile, subjects_: Sequence[Subject]) -> Choice | None:
    """A column in which every record has a value of its own, and that is no measurement."""
    known = any(subject.group in ("quasi", "sensitive", "weight", "count") for subject in subjects_)
    if profile.present < 20 or profile.share_distinct < _UNIQUE or not _is_code(profile) or _is_text_date(profile):
        return None
    if profile.holds == "text":
        if profile.length >= 25 and profile.spaces > 0.5:
            return None  # free text
        reason = f"unique code: {profile.share_distinct:.0%} of its values are different"
        return Choice(profile, "identifier", reason, hipaa=18, doubtful=known)
    if known or profile.share_distinct < 1:
        return None
    if profile.consecutive or profile.lowest >= 10_000:
        reason = "unique code: whole numbers, all of them different"
        return Choice(profile, "identifier", reason, hipaa=18, doubtful=not profile.consecutive)
    return None


def _indirect(profile: Profile, subjects_: Sequence[Subject]) -> Choice:
    """Quasi-identifiers, sensitive columns, weights and others, by name."""
    groups = {subject.group: subject for subject in reversed(subjects_)}
    if "quasi" in groups or profile.holds == "time":
        subject = groups.get("quasi")
        label, hipaa = (subject.label, subject.hipaa) if subject is not None else ("date", 3)
        return Choice(profile, "quasi", f"{label}: others may know it", hipaa=hipaa)
    if "income" in groups:
        if profile.distinct > 50:
            return Choice(
                profile, "quasi", f"{groups['income'].label}: fine enough to tell people apart", doubtful=True
            )
        return Choice(profile, "sensitive", f"{groups['income'].label}, in few levels")
    if "sensitive" in groups:
        return Choice(profile, "sensitive", f"{groups['sensitive'].label}: to be protected, not known to others")
    if _is_year(profile):
        return Choice(profile, "quasi", "years: others may know them", doubtful=True, hipaa=3)
    apart = f"; {profile.share_alone:.0%} of the records have a value of their own" if profile.share_alone > 0.5 else ""
    return Choice(profile, "quasi", f"nothing is known of it: masked{apart}", unknown=True)


def _is_year(profile: Profile) -> bool:
    return profile.whole and profile.distinct > 5 and profile.lowest >= 1850 and profile.highest <= 2100


def _is_text_date(profile: Profile) -> bool:
    """Whether a text column holds dates."""
    return profile.holds == "text" and dates_as_text(profile.values)


def _with_kind(table: Table, choice: Choice) -> Choice:
    """The choice with kind, transform and levels; what cannot be masked as it is, is dropped."""
    profile = choice.profile
    if choice.role not in ("quasi", "sensitive", "other") or profile.holds in ("nothing", "other"):
        return choice
    if profile.holds == "time":
        return replace(choice, kind="date")
    if profile.holds in ("text", "levels"):
        return _with_levels(table, choice)
    if profile.holds == "flag":
        return replace(choice, kind="categorical")
    return _numeric(choice)


def _with_levels(table: Table, choice: Choice) -> Choice:
    """A column of text: bands in their order, categories, or too many levels to be masked."""
    profile = choice.profile
    series = table.series(profile.name)
    if column_type(series)[1] is not None and not series.implementation.is_polars():  # an Enum is a set, not an order
        return choice.because(f"{choice.reason}; categories with an order", kind="ordinal")
    nominal = any(subject.group == "nominal" for subject in about(profile))
    bands = None if nominal or profile.holds != "text" else ordered_texts(table, profile.name, MOST_LEVELS)
    ordinal = any(subject.group == "ordinal" for subject in about(profile))
    if bands is not None and (ordinal or not bands.numbers):
        choice = replace(choice, missing=bands.words)
        if bands.numbers:
            reason = f"{choice.reason}; {len(bands.levels)} whole numbers: ordered levels"
            return choice.because(reason, kind="ordinal")
        if bands.sorted:
            return choice.because(f"{choice.reason}; bands in alphabetical order", kind="ordinal")
        if len(bands.levels) <= NAMED_LEVELS and profile.rare >= RARE:
            return choice.because(
                f"{choice.reason}; bands, in this order", kind="ordinal", levels=bands.levels, doubtful=True
            )
        choice = replace(choice, missing=())
    if choice.role in ("quasi", "sensitive") and profile.distinct > _most_levels(profile):
        reason = (
            f"{choice.reason}; {profile.distinct} levels are too many to mask: a hierarchy and recode would keep it"
        )
        return choice.because(reason, role="dropped", doubtful=True)
    return replace(choice, kind="categorical")


def _numeric(choice: Choice) -> Choice:
    """A column of numbers: amounts, ordered levels, or codes of categories."""
    profile = choice.profile
    groups = {subject.group for subject in about(profile)}
    values = profile.distinct - len(profile.codes)
    if profile.whole and values <= 2:
        return choice.because(f"{choice.reason}; two whole numbers: categories", kind="categorical")
    if profile.whole and values <= min(FEW, profile.present // 2) and "count" not in groups:
        if "ordinal" in groups:
            return choice.because(f"{choice.reason}; {values} whole numbers: ordered levels", kind="ordinal")
        if "nominal" in groups:
            return choice.because(f"{choice.reason}; {values} whole numbers: codes of categories", kind="categorical")
        if profile.gaps > 0:
            reason = f"{choice.reason}; {values} whole numbers with gaps: codes of categories"
            return choice.because(reason, kind="categorical")
        if profile.peaks > 1:
            reason = f"{choice.reason}; {values} whole numbers, frequent and rare ones in turn: codes of categories"
            return choice.because(reason, kind="categorical")
        reason = f"{choice.reason}; {values} whole numbers: ordered levels, or codes of categories?"
        return choice.because(reason, kind="ordinal", doubtful=choice.doubtful or choice.role == "quasi")
    if profile.whole and "nominal" in groups and not groups & {"count", "ordinal"} and values > FEW:
        return _code_list(choice, values)
    transform: Transform = "none"
    if profile.skewness > _SKEWED and profile.lowest >= 0:
        transform = "log1p" if profile.zeros or profile.lowest < 1 else "log"
    reason = f"{choice.reason}; skewed" if transform != "none" else choice.reason
    return choice.because(reason, kind="numeric", transform=transform)


def _most_levels(profile: Profile) -> int:
    """Levels that a column of so many rows may have to be masked."""
    return max(_LEVELS, min(MOST_LEVELS, profile.present // _ROWS_PER_LEVEL))


def _code_list(choice: Choice, values: int) -> Choice:
    """Many whole numbers under a name of categories: codes, which have no mean."""
    profile = choice.profile
    if values <= _most_levels(profile):
        return choice.because(f"{choice.reason}; {values} whole numbers: codes of categories", kind="categorical")
    reason = f"{choice.reason}; {values} codes are too many to mask: a hierarchy and recode would keep them"
    return choice.because(reason, role="dropped", doubtful=True)
