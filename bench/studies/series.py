"""Repeated measurements as one row for each person: what masks keep of the autocorrelation, and at what risk.

    GPUANON_DATA=folder python bench/studies/series.py [--keys 5]

Generated: 4000 persons at 12 times, an autoregressive process (0.8) beside a season whose phase is the person's.
RAND HIE: the persons with a record in each of the years 1 to 3; medical cost (log1p), with age, sex, income beside it.
Half of the persons are masked, the other half is the reference sample.  "svd-swap of records" masks the records as rows
of their own and puts them together again by pseudonym: what a table of records loses.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import gpuanon

MASKS: dict[str, dict[str, Any]] = {
    "svd-swap": {"method": "svd-swap", "columns": "all"},
    "svd-swap, orthonormal": {"method": "svd-swap", "orthonormal": True, "columns": "all"},
    "pica": {"method": "pica", "columns": "all"},
    "clustered-swap": {"method": "clustered-swap", "columns": "all"},
    "microaggregation, k = 5": {"method": "microaggregation", "k": 5, "columns": "all"},
    "distribution-preserving, k = 10": {"method": "distribution-preserving", "k": 10, "columns": "all"},
    "copula": {"method": "copula", "columns": "all"},
    "univariate-synthesis": {"method": "univariate-synthesis", "columns": "all"},
}


def generated(rng: np.random.Generator) -> tuple[pd.DataFrame, str, dict[str, Any]]:
    """Records, the measured column, and what the columns are."""
    persons, times = 4000, 12
    X = np.empty((persons, times))
    X[:, 0] = rng.normal(size=persons)
    for t in range(1, times):
        X[:, t] = 0.8 * X[:, t - 1] + 0.6 * rng.normal(size=persons)
    phase = rng.uniform(0, 2 * np.pi, (persons, 1))
    values = 50 + 10 * X + 8 * np.sin(2 * np.pi * np.arange(times) / 12 + phase)
    records = pd.DataFrame(
        {
            "person": np.repeat(np.arange(persons), times),
            "time": np.tile(np.arange(times), persons),
            "age": np.repeat(rng.integers(20, 80, persons), times),
            "value": values.ravel(),
        }
    )
    return records, "value", {"age": {"role": "quasi"}, "value": {"role": "quasi"}}


def rand(folder: Path) -> tuple[pd.DataFrame, str, dict[str, Any]]:
    """The same of RAND HIE."""
    records = pd.read_csv(folder / "randhie" / "randhie_wei_like.csv").rename(
        columns={"zper": "person", "year": "time"}
    )
    records = records[records["time"] <= 3]
    complete = records.groupby("person")["time"].transform("nunique") == 3
    records = records[complete].sort_values(["person", "time"])
    for column in ("xage", "income", "female", "educdec"):
        records[column] = records.groupby("person")[column].transform("first")
    columns = {name: {"role": "quasi"} for name in ("xage", "income", "educdec")}
    columns |= {"female": {"role": "quasi", "kind": "categorical"}, "meddol": {"role": "quasi", "transform": "log1p"}}
    return records.reset_index(drop=True), "meddol", columns


def autocorrelations(X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """(t − 1,) mean correlation of times that are 1, 2, … apart."""
    R = np.corrcoef(X.T)
    return np.array([np.diagonal(R, lag).mean() for lag in range(1, len(R))])


def of_release(data: pd.DataFrame, column: str, log: bool) -> np.ndarray[Any, Any]:
    """(p, t) the measured column of a wide table."""
    names = sorted((n for n in data.columns if n.startswith(f"{column}_")), key=lambda n: float(n.rsplit("_", 1)[1]))
    X = data[names].to_numpy(float)
    return np.log1p(np.maximum(X, 0)) if log else X


def by_records(records: pd.DataFrame, column: str, columns: dict[str, Any], key: bytes) -> pd.DataFrame:
    """Records masked as rows of their own, put together by pseudonym and time."""
    recipe = {
        "columns": {**columns, "person": {"role": "person", "release": "pseudonym"}, "time": {"role": "other"}},
        "mask": [{**MASKS["svd-swap"], "columns": "quasi"}],
    }
    released = gpuanon.protect(records, recipe, rng=key, backend="numpy").data
    return released.pivot(index="person", columns="time", values=column).add_prefix(f"{column}_")


def study(name: str, table: tuple[pd.DataFrame, str, dict[str, Any]], keys: int) -> None:
    records, column, columns = table
    log = columns[column].get("transform") == "log1p"
    people = np.random.default_rng(7).permutation(records["person"].unique())
    chosen = records["person"].isin(people[: len(people) // 2])
    mine, other = records[chosen].reset_index(drop=True), records[~chosen].reset_index(drop=True)
    recipe = {
        "columns": {"person": {"role": "person"}, **columns},
        "series": {"time": "time", "columns": [column]},
    }
    before = autocorrelations(of_release(_wide(mine, column), column, log))
    beside = autocorrelations(of_release(_wide(other, column), column, log))
    print(f"\n{name}: {len(people) // 2} persons, {len(before) + 1} times; autocorrelation {np.round(before[:3], 3)}")
    print(f"| mask | autocorrelation, largest change | worst of {keys} keys | kernel PCA | meets the standard | D⁺ |")
    print("|---|---|---|---|---|---|")
    print(f"| the reference sample | {np.abs(beside - before).max():.4f} | | | | |")
    for label, mask in MASKS.items():
        found: list[tuple[float, float, bool, float]] = []
        for number in range(keys):
            key = f"series study, key {number:04d}".encode()
            rules = {**recipe, "mask": [mask]}
            release = gpuanon.protect(mine, rules, rng=key, backend="numpy")
            after = autocorrelations(of_release(release.data, column, log))
            got = gpuanon.assess(
                mine, release.data, rules, reference=other, link=release.link, backend="numpy",
                measures=["kernel_pca", "reference_standard"],
            ).to_json()  # fmt: skip
            standard, utility = got["risk"]["reference_standard"], got["utility"]["kernel_pca"]
            change = float(np.abs(after - before).max())
            found.append((change, utility["value"], standard["passes"], standard["distance"]["excess"]))
        changes, kernel, passed, excess = zip(*found, strict=True)
        print(
            f"| {label} | {statistics.median(changes):.4f} | {max(changes):.4f} | {statistics.median(kernel):.4f} |"
            f" {sum(passed)} of {keys} | {statistics.median(excess):.3f} |"
        )
        sys.stdout.flush()
    after = autocorrelations(of_release(by_records(mine, column, columns, b"series study, records"), column, log))
    print(f"| svd-swap of records | {np.abs(after - before).max():.4f} | | | | |")


def _wide(records: pd.DataFrame, column: str) -> pd.DataFrame:
    return records.pivot(index="person", columns="time", values=column).add_prefix(f"{column}_")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=5)
    arguments = parser.parse_args()
    study("Generated", generated(np.random.default_rng(3)), arguments.keys)
    if "GPUANON_DATA" in os.environ:
        study("RAND HIE", rand(Path(os.environ["GPUANON_DATA"])), arguments.keys)
