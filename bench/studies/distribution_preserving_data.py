"""The tables, markets and releases of the distribution-preserving study."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.assessing.workloads import Market, simulate_market
from gpuanon.masking.given import Records
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.dither import Dither
from gpuanon.masking.operations.dither.permute import Permute, Resample
from gpuanon.masking.outcomes import Moved
from gpuanon.tables.registry import make_registry

COLUMNS = ("sex", "age", "education", "income")
RELEASES = ("centroid", "resample", "permute", "gaussian")
KS = (5, 10, 20, 50, 100, 200, 500, 1000)

# Enrolment by age group, in the shape of the first enrolment period of the US marketplaces: few children and seniors.
ENROLMENT = {
    "randhie": np.array([0.10, 0.10, 0.10, 0.45, 0.60, 0.60, 0.75, 0.90]),
    "registry": np.array([0.45, 0.60, 0.60, 0.75, 0.90, 0.10, 0.05, 0.05]),
}

# Demography of 18 new markets relative to the table: log-linear tilts of the standardised (age, education, income).
AREAS = [
    (age, education, income) for age, education, income in product((-0.3, 0.0, 0.3), (0.2, -0.2), (0.3, 0.0, -0.3))
]
MAIN = len(AREAS) - 1  # older, less schooled, poorer: the largest shift in cost of them


@dataclass(frozen=True, eq=False)
class Data:
    """A table of people.

    levels : (n, 4) whole numbers, the columns of `COLUMNS` cut as in the paper
    raw    : (n, 4) the same columns before they were cut
    cost   : (n,) yearly cost
    person : (n,) who the record is of (a person may have several)
    """

    name: str
    levels: np.ndarray
    raw: np.ndarray
    cost: np.ndarray
    person: np.ndarray

    @property
    def counts(self) -> tuple[int, ...]:
        return tuple(int(c) + 1 for c in self.levels.max(axis=0))


def randhie(folder: Path) -> Data:
    """RAND Health Insurance Experiment: 20 186 person-years of 5 908 people."""
    with (folder / "randhie" / "randhie_wei_like.csv").open() as file:
        rows = list(csv.DictReader(file))
    column = {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}
    raw = np.column_stack([column["female"], column["xage"], column["educdec"], column["income"]])
    cuts = ([0.5], [6, 13, 18, 26, 35, 45, 55], [8, 12, 12.5, 16, 17], np.quantile(raw[:, 3], [0.2, 0.4, 0.6, 0.8]))
    return Data("randhie", _cut(raw, cuts), raw, column["meddol"], column["zper"].astype(np.int64))


def registry(rows: int, seed: int) -> Data:
    """The generated registry, people with a known income."""
    table = make_registry(int(rows * 1.15) + 50, seed)
    income = table["income"].to_numpy()
    known = np.flatnonzero(~np.isnan(income))[:rows]
    codes = {name: table[name].combine_chunks().indices.to_numpy() for name in ("sex", "education")}
    raw = np.column_stack([codes["sex"], table["age"].to_numpy(), codes["education"], income])[known].astype(float)
    cuts = (
        [0.5],
        [26, 35, 45, 55, 65, 75, 85],
        [0.5, 1.5, 2.5, 3.5, 4.5],
        np.quantile(raw[:, 3], [0.2, 0.4, 0.6, 0.8]),
    )
    return Data("registry", _cut(raw, cuts), raw, table["cost"].to_numpy()[known], np.arange(len(known)))


def _cut(raw: np.ndarray, cuts: tuple) -> np.ndarray:
    return np.column_stack([np.searchsorted(c, raw[:, j], side="right") for j, c in enumerate(cuts)])


def standardise(X: np.ndarray) -> np.ndarray:
    """Columns of mean 0 and variance 1."""
    X = np.asarray(X, dtype=np.float64)
    deviation = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)


def clusters(X: np.ndarray, cost: np.ndarray, k: int) -> Partition:
    """k-member clusters of standardised quasi-identifiers and cost (eq. 4–5 with w = 1), greedy as in the paper.

    The whole table at once up to 60 000 rows, in blocks above.
    """
    joined = np.column_stack([X, standardise(cost)])
    block = 0 if len(X) <= 60_000 else 4096
    return KMember(k=k, block=block, refine=False).form(joined, None)  # no draws: the clustering is deterministic


def release(name: str, X: np.ndarray, groups: Partition, draws: Draws, block: int | None = None) -> np.ndarray:
    """(n, d) released rows, or (n,) rows they are copied from for releases that move rows."""
    operation = {
        "centroid": Centroid(),
        "resample": Resample(),
        "permute": Permute(),
        "gaussian": Dither(block=block),
    }[name]
    outcome = operation.apply(X, groups, Records(draws.child(name)))
    return outcome.source if isinstance(outcome, Moved) else outcome.values


def released_levels(name: str, levels: np.ndarray, groups: Partition, draws: Draws) -> np.ndarray:
    """(n, d) released levels; centroids are rounded to the nearest level."""
    X = levels.astype(float) if name == "centroid" else standardise(levels)
    out = release(name, X, groups, draws)
    return levels[out] if out.ndim == 1 else np.rint(out).astype(np.int64)


def market(data: Data, area: int | None, seed: int, enrol: bool) -> Market:
    """Split the people evenly into two markets; the new one has the demography of an area (None: no shift).

    With `enrol` the members of the existing market are drawn by their chance of enrolling; else all people are members.
    (The paper uses this probability as a weight instead.  A plan has members, not weights.)
    """
    rng = np.random.default_rng([seed, 2018])
    people, index = np.unique(data.person, return_inverse=True)
    train = (rng.permutation(len(people)) < len(people) // 2)[index]
    chance = ENROLMENT[data.name][data.levels[:, 1]] if enrol else np.ones(len(data.levels))
    return simulate_market(
        data.levels, data.cost, train, tilt=tilt(data, area), enrolment=chance, levels=data.counts, rng=rng
    )


def tilt(data: Data, area: int | None) -> np.ndarray:
    """(n,) weight of each person in the area's demography."""
    if area is None:
        return np.ones(len(data.levels))
    return np.exp(standardise(data.levels[:, 1:]) @ np.array(AREAS[area]))
