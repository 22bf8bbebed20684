"""Groupings: seconds and information loss, as published and with blocks and refinement."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frame import Host, Record, loss_of, normals, sizes, ways

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws, Key
from gpuanon.masking.contract import Groups
from gpuanon.masking.groups import (
    ConstrainedKMeans,
    Fuzzy,
    KMember,
    KWard,
    Mdav,
    MedianCuts,
    SpanningTree,
    Spectral,
    VMdav,
)

BLOCKED: dict[str, Groups] = {
    "mdav": Mdav(k=5),
    "k-member": KMember(k=5),
    "v-mdav": VMdav(k=5),
    "k-ward": KWard(k=5),
    "spanning-tree": SpanningTree(k=5),
    "constrained-k-means": ConstrainedKMeans(k=5),
    "fuzzy": Fuzzy(k=5),
    "median-cuts": MedianCuts(k=5),
    "spectral": Spectral(target=200),
}
"""Groupings in blocks, whose cost is linear in the rows; median cuts, of the whole table, have log n levels."""

SLOW = ("v-mdav", "k-ward", "spanning-tree", "constrained-k-means", "fuzzy", "spectral")


def draws(rows: int) -> Draws:
    """A fixed key: figures can be repeated."""
    return Key(b"a benchmark's key is no secret").draws(np.arange(rows))


def naive_mdav(X: Host, k: int) -> Host:
    """(n,) labels by MDAV from its definition: all distances at every step."""
    labels, free, label = np.zeros(len(X), dtype=np.int64), np.arange(len(X)), 0

    def take(seed: Host) -> None:
        nonlocal free, label
        near = np.argsort(np.square(X[free] - seed).sum(axis=1), kind="stable")[:k]
        labels[free[near]] = label
        free, label = np.delete(free, near), label + 1

    while len(free) >= 3 * k:
        r = X[free[np.square(X[free] - X[free].mean(axis=0)).sum(axis=1).argmax()]]
        s = X[free[np.square(X[free] - r).sum(axis=1).argmax()]]
        take(r)
        take(s)
    if len(free) >= 2 * k:
        take(X[free[np.square(X[free] - X[free].mean(axis=0)).sum(axis=1).argmax()]])
    labels[free] = label
    return labels


@sizes(1_000, 10_000)
@ways("naive", "numpy")
def test_mdav_of_the_whole_table(record: Record, rows: int, way: str) -> None:
    """MDAV as published, k = 5."""
    X = normals(rows, 8)
    model = Mdav(k=5, block=0, refine=False)
    if way == "naive":
        work: Any = lambda: Partition.from_labels(naive_mdav(X, 5))
    else:
        work = lambda: model.form(X, draws(rows))
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    name = "groups: MDAV, whole table"
    record(work, group=name, rows=rows, columns=8, rounds=1, warm=rows < 5_000, quality=quality)


@pytest.mark.parametrize("use", ["mdav", "k-member"])
@sizes(1_000, 10_000, 100_000, full=(1_000_000, 10_000_000))
@ways("numpy", "compiled")
def test_default_groups(record: Record, use: str, rows: int, way: str) -> None:
    """Blocks, groups and refinement by default, k = 5."""
    X = normals(rows, 10)
    work = lambda: BLOCKED[use].form(X, draws(rows))
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    large = rows > 100_000
    record(
        work,
        group=f"groups: {use}, by default",
        rows=rows,
        columns=10,
        rounds=1 if large else 3,
        warm=not large,
        quality=quality,
    )


@pytest.mark.parametrize("use", [name for name in BLOCKED if name not in ("mdav", "k-member")])
@sizes(10_000, 40_000, full=(100_000, 1_000_000, 10_000_000))
def test_other_groups(record: Record, use: str, rows: int) -> None:
    """The other blocked groupings, compiled where they have compiled parts; two columns less for ten million rows."""
    X = normals(rows, 4)
    record(
        lambda: BLOCKED[use].form(X, draws(rows)),
        group=f"groups: {use}, by default",
        rows=rows,
        columns=4,
        rounds=1,
        warm=False,
        quality=lambda groups: {"loss %": loss_of(X, groups)} if use != "spectral" else {},
    )


@pytest.mark.parametrize("columns", [5, 20, 50])
@ways("numpy", "compiled")
def test_columns(record: Record, columns: int, way: str) -> None:
    """The default groups of 50 000 rows by the number of columns."""
    X = normals(50_000, columns)
    work = lambda: BLOCKED["k-member"].form(X, draws(len(X)))
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    record(work, group="groups: by columns", rows=len(X), columns=columns, rounds=1, quality=quality)


CENSUS = Path(os.environ.get("GPUANON_DATA", "")) / "census" / "census.csv"


@pytest.mark.skipif(not CENSUS.is_file(), reason="GPUANON_DATA names no folder with the census file")
@pytest.mark.parametrize("k", [3, 5, 10])
@pytest.mark.parametrize("effort", ["fast", "normal", pytest.param("best", marks=pytest.mark.full)])
def test_census(record: Record, k: int, effort: Any) -> None:
    """The whole census file, by effort of refinement."""
    X = np.loadtxt(CENSUS, delimiter=",", skiprows=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    work = lambda: KMember(k=k, block=0, effort=effort).form(X, draws(len(X)))
    group = f"census: effort {effort}"
    record(work, group=group, rows=len(X), columns=X.shape[1], rounds=1, quality=quality)
