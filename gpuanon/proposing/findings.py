"""What is found in a table: a choice for every column, whose records they are, codes for missing values, the risk."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.engine.combinations import RISK_ROWS, Risk, risk_of
from gpuanon.proposing.choices import Choice, about, choices
from gpuanon.proposing.codebook import Codebook, unknown_columns
from gpuanon.proposing.dependencies import PAIRED, KeptColumns, determinations, unmasked
from gpuanon.proposing.profiling import profiles
from gpuanon.proposing.purposes import Purpose
from gpuanon.proposing.trials_of_masks import TriedMask
from gpuanon.tables.codes import level_codes
from gpuanon.tables.formats.csv.csv_dialect import Missing
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.schema import Role, Unit
from gpuanon.tables.table import Table

PERSON_ROWS = 50_000
_KEYS = 20
"""Columns that may say whose records they are, at most: the first."""
_CONSTANT = 0.995  # of the repeated values of a person column, another column is constant in so many
_CHANCE = 0.9
_NUMBERS = (7, 8, 9, 18)  # kinds of HIPAA's list that are given to one person each: national, record, plan, other codes


@dataclass(frozen=True, repr=False)
class Findings:
    """What was found in a table.

    source  : its name, or None
    csv     : how it was read
    trials  : masks that were tried on a sample
    unmasked : who is singled out by the columns that stay as they are
    instead : the mask that was found to be better than the purpose's; None: the purpose's is proposed
    """

    choices: tuple[Choice, ...]
    purpose: Purpose
    rows: int
    risk: Risk | None = None
    determined: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    source: str | None = None
    csv: CsvOptions = field(default_factory=CsvOptions)
    notes: tuple[str, ...] = ()
    trials: tuple[TriedMask, ...] = ()
    instead: Mapping[str, Any] | None = None
    unmasked: KeptColumns | None = None

    @property
    def recoding(self) -> list[dict[str, Any]]:
        """The mask that recodes columns before the other one, where any is to be."""
        names = [one.name for one in self.choices if one.hierarchy is not None and one.role in ("quasi", "sensitive")]
        return [{"method": "recode", "levels": 1, "columns": names}] if names else []

    @property
    def masked(self) -> tuple[str, ...]:
        """The columns that the mask changes."""
        columns = self.mask_and_limits[0].get("columns", "quasi")
        roles = ("quasi", "sensitive", "other") if columns == "all" else ("quasi",)
        return (
            tuple(columns)
            if isinstance(columns, list)
            else tuple(choice.name for choice in self.choices if choice.role in roles)
        )

    @property
    def mask_and_limits(self) -> tuple[dict[str, Any], dict[str, float]]:
        """Of the purpose, as far as the table has the rows and the columns for them."""
        if self.instead is not None:
            return self._on_columns(dict(self.instead)), {}
        mask, limits = self._on_columns(dict(self.purpose.mask)), dict(self.purpose.limits)
        if "k" in mask and mask["k"] > max(2, self.rows // 2):
            mask["k"] = max(2, self.rows // 2)
            limits = {name: min(value, mask["k"]) if name == "k_anonymity" else value for name, value in limits.items()}
        if not any(choice.role == "quasi" for choice in self.choices):
            limits = {}  # measures of risk are of quasi-identifiers
        if "bins" in mask and not any(one.released and one.kind in ("numeric", "date") for one in self.choices):
            mask = {"method": "microaggregation", "k": mask["k"], "columns": mask["columns"]}  # categories have no bins
        return mask, limits

    def _on_columns(self, mask: dict[str, Any]) -> dict[str, Any]:
        """The mask on all columns but those that somebody decided to keep; weights are masked where they are named."""
        kept = any(choice.role == "other" and choice.profile.distinct > 1 for choice in self.choices)
        weights = any(choice.role == "weight" for choice in self.choices)
        if (kept or weights) and mask.get("columns") == "all":
            mask["columns"] = [one.name for one in self.choices if one.role in ("quasi", "sensitive", "weight")]
        return mask


def examine(
    table: Table,
    purpose: Purpose,
    *,
    source: str | None = None,
    csv: CsvOptions | None = None,
    missing: Missing | None = None,
    codebook: Codebook | None = None,
    strict: bool = False,
) -> Findings:
    """What is found in a table: a choice for every column, the risk, columns that determine each other.

    csv, missing : how it was read, and the words for no value of its columns; None if it was not a CSV
    codebook : what is known of its columns beforehand
    strict   : whether columns of which nothing is known are dropped, and not masked
    """
    with progress.stage("columns"):
        seen = profiles(table)
        found = choices(table, seen, codebook)
        found = _with_person(table, found)
    if purpose.safe_harbor:
        found = [_safe_harbor(one) for one in found]
    if strict:
        found = [
            one.because("nothing is known of it: dropped", role="dropped") if one.unknown else one for one in found
        ]
    found = _with_missing(found, csv is not None, missing or {})
    with progress.stage("combinations"):
        determined = determinations(table, [choice for choice in found if choice.released])
    notes = (*table.notes, *unknown_columns(codebook or {}, table.names))
    found = [replace(choice, profile=choice.profile.without_cells()) for choice in found]
    findings = Findings(tuple(found), purpose, table.n_rows, None, determined, source, csv or CsvOptions(), notes)
    return with_risk(table, findings)


FEW_PEOPLE = ("036", "059", "063", "102", "203", "556", "692", "790", "821", "823", "830", "831", "878", "879", "884",
              "890", "893")  # fmt: skip
"""First three digits of ZIP codes of at most 20 000 people: guidance to 45 CFR 164.514(b)(2)(i)(B), census of 2000."""


def _safe_harbor(choice: Choice) -> Choice:
    """The choice with the recoding that HIPAA's safe harbor asks for: ZIP codes, ages above 89, dates."""
    profile = choice.profile
    groups = {subject.label for subject in about(profile)}
    zips = bool(profile.values) and all(re.fullmatch(r"\d{5}(-?\d{4})?", value) for value in profile.values)
    if "place" in groups and zips and profile.holds == "text":
        prefix = {"build": "prefix", "lengths": [3], "zeros": list(FEW_PEOPLE)}
        reason = "ZIP code: its first three digits, 000 where they are of at most 20 000 people"
        return choice.because(reason, role="quasi", kind="categorical", hierarchy=prefix, doubtful=False)
    if choice.role not in ("quasi", "sensitive"):
        return choice
    if choice.kind == "date":
        years = {"build": "dates", "units": ["year"]}
        return choice.because(f"{choice.reason}; by its year", hierarchy=years)
    if "age" in groups and choice.kind == "numeric" and profile.highest > 89:
        top = {"build": "tails", "ends": "top", "above": 89}
        return choice.because(f"{choice.reason}; above 89 one class", hierarchy=top, transform="none")
    return choice


def with_risk(table: Table, findings: Findings) -> Findings:
    """The findings with the risk of the quasi-identifiers, and of what no mask changes, as they are chosen now."""
    quasi = [choice.name for choice in findings.choices if choice.role == "quasi"]
    person = next((choice.name for choice in findings.choices if choice.role == "person"), None)
    unit: Unit = "record" if person is None else "person"
    left = unmasked(table, findings.choices, findings.masked)
    return replace(findings, risk=risk_of(table, quasi, person, unit, rows=RISK_ROWS), unmasked=left)


def _with_person(table: Table, chosen: list[Choice]) -> list[Choice]:
    """The choices with the column that says whose records they are, where records repeat.

    A code whose values repeat is a person's where its name says that it is an identifier, or where at least two other
    columns are constant inside of its values, though by chance they would not be.  Where the sex differs inside of its
    values it is a household's.
    """
    best: tuple[tuple[str, ...], Choice] | None = None
    likely = sorted(chosen, key=lambda choice: (choice.role != "identifier", -choice.profile.distinct))
    for choice in [one for one in likely if one.profile.distinct >= 30][:_KEYS]:
        profile = choice.profile
        repeats = profile.present - profile.distinct
        code = profile.holds == "text" or (profile.holds == "number" and profile.whole)
        if profile.nulls or not code or profile.distinct < 30 or repeats < 0.01 * profile.present:
            continue
        named = choice.role == "identifier" and choice.hipaa in _NUMBERS
        if not (choice.role == "identifier" or (choice.unknown and 0.01 <= profile.share_distinct <= 0.98)):
            continue
        constant = constant_columns(table, choice.name, chosen)
        if (named or len(constant) >= 2) and (best is None or len(constant) > len(best[0])):
            best = constant, choice
    if best is None:
        return chosen
    constant, person = best
    sexes = [choice.name for choice in chosen if any(subject.label == "sex" for subject in about(choice.profile))]
    family = bool(sexes) and len(constant) >= 2 and not set(sexes) & set(constant)
    role: Role = "household" if family else "person"
    reason = ("household" if family else "whose records they are") + ": its values repeat"
    if constant:
        reason += f", {len(constant)} columns are constant in each" + (", and sex is not" if family else "")
    changed = person.because(
        reason, role=role, hipaa=person.hipaa or 18, kind=None, transform="none", doubtful=not constant or family
    )
    if family and any(choice.role == "household" for choice in chosen):
        changed = person.because(reason, role="dropped", kind=None, transform="none", doubtful=True)
    return [changed if choice is person else choice for choice in chosen]


def constant_columns(table: Table, key: str, chosen: Sequence[Choice]) -> tuple[str, ...]:
    """Columns of few values that are constant inside nearly every repeated value of `key`, beyond chance."""
    (codes,) = level_codes([table.select([key])], [key])
    labels = codes[:, 0]
    step = max(1, table.n_rows // PERSON_ROWS)
    rows = np.flatnonzero(labels % step == 0)  # all rows of some persons
    others = [c.name for c in chosen if c.name != key and 2 <= c.profile.distinct <= 100 and c.profile.holds != "other"]
    others = others[:PAIRED]
    if len(rows) == 0 or not others:
        return ()
    rows = rows[np.argsort(labels[rows], kind="stable")]
    starts = np.flatnonzero(np.concatenate([[True], np.diff(labels[rows]) != 0]))
    repeated = np.diff(np.append(starts, len(rows))) > 1
    if repeated.sum() < 30:
        return ()
    (values,) = level_codes([table.select(others).take(rows)], others)
    same = np.maximum.reduceat(values, starts, axis=0) == np.minimum.reduceat(values, starts, axis=0)
    share = same[repeated].mean(axis=0)
    chance = [float(((np.bincount(values[:, at] + 1) / len(rows)) ** 2).sum()) for at in range(len(others))]
    return tuple(
        name
        for name, held, by_chance in zip(others, share, chance, strict=True)
        if held >= _CONSTANT and by_chance < _CHANCE
    )


def _with_missing(chosen: list[Choice], csv: bool, words: Missing) -> list[Choice]:
    """The choices with words and numbers for no value; those of a CSV are read as nulls and come back.

    csv : whether the table was read from a CSV; of another table they are pointed out
    """
    changed = []
    for choice in chosen:
        profile = choice.profile
        codes = profile.codes if choice.kind in ("numeric", "ordinal") and choice.role in ("quasi", "sensitive") else ()
        known: tuple[str | int, ...] = tuple(dict.fromkeys((*choice.missing, *words.get(choice.name, ()))))
        if codes:
            read = csv and profile.certain
            listed = ", ".join(f"{code:g}" for code in codes)
            note = f"{listed} read as missing" if read else f"{listed} may stand for a missing value"
            known = (*known, *(int(code) for code in codes)) if read else known
            transform = choice.transform if read or min(codes) > 0 else "none"
            choice = choice.because(
                f"{choice.reason}; {note}", transform=transform, doubtful=choice.doubtful or not read
            )
        if choice.kind != "categorical" and len(known) + bool(profile.nulls and codes) > 1:
            choice = choice.because(f"{choice.reason}; its words for no value come out as one, empty")
        changed.append(replace(choice, missing=known))
    return changed
