"""What is found in a table: a choice for every column, whose records they are, codes for missing values, the risk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.engine.combinations import RISK_ROWS, Risk, risk_of
from gpuanon.proposing.choices import Choice, choices
from gpuanon.proposing.codebook import Codebook, unknown_columns
from gpuanon.proposing.profiling import profiles
from gpuanon.proposing.purposes import Purpose
from gpuanon.proposing.trials_of_masks import TriedMask
from gpuanon.tables.codes import level_codes
from gpuanon.tables.formats.csv.csv_dialect import Missing
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.schema import Unit
from gpuanon.tables.table import Table

PAIR_ROWS = 20_000
PERSON_ROWS = 50_000
_KEYS, _PAIRED = 20, 200
"""Columns that may say whose records they are, and columns that are looked at in pairs, at most: the first."""
_CONSTANT = 0.995  # of the repeated values of a person column, another column is constant in so many
_CHANCE = 0.9
_NUMBERS = (7, 8, 9, 18)  # kinds of HIPAA's list that are given to one person each: national, record, plan, other codes


@dataclass(frozen=True, repr=False)
class Findings:
    """What was found in a table.

    source  : its name, or None
    csv     : how it was read
    trials  : masks that were tried on a sample
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
) -> Findings:
    """What is found in a table: a choice for every column, the risk, columns that determine each other.

    csv, missing : how it was read, and the words for no value of its columns; None if it was not a CSV
    codebook : what is known of its columns beforehand
    """
    with progress.stage("columns"):
        seen = profiles(table)
        found = choices(table, seen, codebook)
        found = _with_person(table, found)
    found = _with_missing(found, csv is not None, missing or {})
    with progress.stage("combinations"):
        determined = determinations(table, [choice for choice in found if choice.released])
    notes = (*table.notes, *unknown_columns(codebook or {}, table.names))
    found = [replace(choice, profile=choice.profile.without_cells()) for choice in found]
    findings = Findings(tuple(found), purpose, table.n_rows, None, determined, source, csv or CsvOptions(), notes)
    return with_risk(table, findings)


def with_risk(table: Table, findings: Findings) -> Findings:
    """The findings with the risk of the quasi-identifiers as they are chosen now."""
    quasi = [choice.name for choice in findings.choices if choice.role == "quasi"]
    person = next((choice.name for choice in findings.choices if choice.role == "person"), None)
    unit: Unit = "record" if person is None else "person"
    return replace(findings, risk=risk_of(table, quasi, person, unit, rows=RISK_ROWS))


def determinations(table: Table, chosen: Sequence[Choice]) -> dict[str, tuple[str, ...]]:
    """Columns that another column determines, on up to `PAIR_ROWS` rows: name → the columns that determine it.

    Only columns of few values count: in one with many, a value occurs too seldom to say so.
    """
    rows = min(table.n_rows, PAIR_ROWS)
    names = [c.name for c in chosen if 2 <= c.profile.distinct <= 1000 and c.profile.holds != "other"][:_PAIRED]
    if rows < 40 or len(names) < 2:
        return {}
    picked = np.sort(np.random.default_rng(1).choice(table.n_rows, rows, replace=False))
    (codes,) = level_codes([table.select(names).take(picked)], names)
    codes -= codes.min(axis=0)
    counts = codes.max(axis=0) + 1
    different = [len(np.unique(codes[:, at])) for at in range(len(names))]
    found: dict[str, list[str]] = {}
    for one in range(len(names)):
        if different[one] > rows / 20:
            continue
        for other in range(len(names)):
            if other == one or different[other] > different[one] or different[other] < 2:
                continue
            pairs = len(np.unique(codes[:, one] * counts[other] + codes[:, other]))
            if pairs == different[one]:
                found.setdefault(names[other], []).append(names[one])
    return {name: tuple(by) for name, by in found.items()}


def _with_person(table: Table, chosen: list[Choice]) -> list[Choice]:
    """The choices with the column that says whose records they are, where records repeat.

    A code whose values repeat is a person's where its name says that it is an identifier, or where at least two other
    columns are constant inside of its values, though by chance they would not be.
    """
    best: tuple[int, Choice] | None = None
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
        if (named or len(constant) >= 2) and (best is None or len(constant) > best[0]):
            best = len(constant), choice
    if best is None:
        return chosen
    count, person = best
    reason = "whose records they are: its values repeat" + (
        f", and {count} columns are constant in each" if count else ""
    )
    changed = person.because(
        reason, role="person", hipaa=person.hipaa or 18, kind=None, transform="none", doubtful=count == 0
    )
    return [changed if choice is person else choice for choice in chosen]


def constant_columns(table: Table, key: str, chosen: Sequence[Choice]) -> tuple[str, ...]:
    """Columns of few values that are constant inside nearly every repeated value of `key`, beyond chance."""
    (codes,) = level_codes([table.select([key])], [key])
    labels = codes[:, 0]
    step = max(1, table.n_rows // PERSON_ROWS)
    rows = np.flatnonzero(labels % step == 0)  # all rows of some persons
    others = [c.name for c in chosen if c.name != key and 2 <= c.profile.distinct <= 100 and c.profile.holds != "other"]
    others = others[:_PAIRED]
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
