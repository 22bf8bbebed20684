"""Repeated measurements of persons: an autoregressive number and a category, in records of no order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

SERIES = {"time": "week", "columns": ["weight", "state"]}
COLUMNS: dict[str, dict[str, Any]] = {
    "patient": {"role": "person"},
    "age": {"role": "quasi"},
    "weight": {"role": "quasi"},
    "state": {"role": "sensitive"},
}


def measurements(persons: int = 300, times: int = 6, missing: float = 0.05, seed: int = 3) -> pd.DataFrame:
    """Records of `persons` at `times` weeks; a share of them is missing, but nobody's first."""
    rng = np.random.default_rng(seed)
    X = np.empty((persons, times))
    X[:, 0] = rng.normal(size=persons)
    for t in range(1, times):
        X[:, t] = 0.8 * X[:, t - 1] + 0.6 * rng.normal(size=persons)
    records = pd.DataFrame(
        {
            "patient": np.repeat([f"patient {number:05d}" for number in range(persons)], times),
            "week": np.tile(np.arange(times), persons),
            "age": np.repeat(rng.integers(20, 80, persons), times),
            "weight": (70 + 10 * X).ravel(),
            "state": np.where(rng.random(persons * times) < 0.4, "ill", "well"),
        }
    )
    there = (rng.random(len(records)) >= missing) | (records["week"] == 0)
    return records[there].sample(frac=1, random_state=seed).reset_index(drop=True)


def rules(mask: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A recipe for `measurements`."""
    return {"columns": COLUMNS, "series": SERIES, "mask": [mask], **changes}


def pivoted(records: pd.DataFrame, column: str) -> pd.DataFrame:
    """One row for each patient, in the order of their first records, by pandas."""
    wide = records.pivot(index="patient", columns="week", values=column)
    return wide.loc[records["patient"].drop_duplicates()]
