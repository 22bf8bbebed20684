"""The table of the spectral study: NHANES 1999–2004, 28 attributes encoded as in Lasko's thesis, four disjoint samples.

Demographics become columns of −1 and +1 (sex one column, education five, ethnicity four), body and laboratory values
are positive and skewed: their logarithms are standardised by the moments of the sample that is masked.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Floats = np.ndarray[Any, Any]

FILE = Path("nhanes") / "nhanes_1999_2004_complete.csv"
ROWS = 2000
POSITIVE = (
    "age", "bmi", "waist", "sbp", "albumin", "alp", "bun", "creat", "glucose",
    "uap", "lymph", "mcv", "rbc", "wbc", "crp", "hba1c", "hdl", "totchol",
)  # fmt: skip
LEVELS = {"gender": (1,), "education": (1, 2, 3, 4, 5), "ethnicity": (1, 2, 3, 4)}
CATEGORIES = (slice(1, 6), slice(6, 10))
"""Columns of education and of ethnicity: exactly one of each is +1 in a possible record."""


@dataclass(frozen=True, eq=False)
class Samples:
    """Disjoint samples of 2000 records with the same encoding.

    original : is masked
    first    : the reference by which a target is chosen
    second   : the reference by which releases are judged
    third    : the control: an untouched sample in place of a release
    """

    original: Floats
    first: Floats
    second: Floats
    third: Floats
    spread: Floats

    def unstandardised(self, table: Floats) -> Floats:
        """Unstandardised logarithms, as in the thesis for kernel PCA."""
        return table * self.spread


def read(folder: Path) -> tuple[Floats, Floats]:
    """Indicators (n, 10) of −1 and +1, and logarithms (n, 18), of all records."""
    with open(folder / FILE, newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    columns = {name: np.array([float(row[name]) for row in rows]) for name in (*LEVELS, *POSITIVE)}
    indicators = [np.where(columns[name] == level, 1.0, -1.0) for name, levels in LEVELS.items() for level in levels]
    return np.column_stack(indicators), np.log(np.column_stack([columns[name] for name in POSITIVE]))


def draw(indicators: Floats, logarithms: Floats, seed: int) -> Samples:
    """Four disjoint random samples, standardised by the first."""
    order = np.random.default_rng(seed).permutation(len(indicators))
    rows = [order[at * ROWS : (at + 1) * ROWS] for at in range(4)]
    mean, spread = logarithms[rows[0]].mean(axis=0), logarithms[rows[0]].std(axis=0)
    tables = [np.column_stack([indicators[chosen], (logarithms[chosen] - mean) / spread]) for chosen in rows]
    return Samples(*tables, spread=np.concatenate([np.ones(indicators.shape[1]), spread]))


def decode(table: Floats) -> Floats:
    """Sex by its sign; of the columns of a category the largest is +1, the others −1: no impossible category."""
    decoded = table.copy()
    decoded[:, 0] = np.where(table[:, 0] > 0, 1.0, -1.0)
    for columns in CATEGORIES:
        chosen = table[:, columns].argmax(axis=1)
        decoded[:, columns] = np.where(np.arange(columns.stop - columns.start) == chosen[:, None], 1.0, -1.0)
    return decoded


def decode_by_sign(table: Floats) -> Floats:
    """Every binary column by its own sign, as in the thesis."""
    decoded = table.copy()
    decoded[:, :10] = np.where(table[:, :10] > 0, 1.0, -1.0)
    return decoded


def impossible(table: Floats) -> float:
    """Share of records with no category, or more than one, of education or ethnicity."""
    ones = [(table[:, columns] > 0).sum(axis=1) for columns in CATEGORIES]
    return float(((ones[0] != 1) | (ones[1] != 1)).mean())
