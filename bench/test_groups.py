"""Groupings: seconds and information loss, as published and with blocks and refinement."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frame import Host, Record, loss_of, normals, on, sizes, ways
from naive import naive_kmember, naive_mdav

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws, Key
from gpuanon.masking.contract import Groups
from gpuanon.masking.groups.constrained_kmeans import ConstrainedKMeans
from gpuanon.masking.groups.fuzzy import Fuzzy
from gpuanon.masking.groups.k_ward import KWard
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.mdav.mdav_models import Mdav, VMdav
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.groups.refine.refine import refine
from gpuanon.masking.groups.spanning_tree import SpanningTree
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.numerics.metric import Metric

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


def draws(rows: int, way: str = "numpy") -> Draws:
    """A fixed key: figures can be repeated."""
    return Key(b"a benchmark's key is no secret").draws(*on(way, np.arange(rows)))


NAIVE: dict[str, Callable[[Host, int], Host]] = {"mdav": naive_mdav, "k-member": naive_kmember}


@pytest.mark.parametrize("use", list(NAIVE))
@sizes(1_000, 10_000, full=(100_000,))
@ways("naive", "numpy", "compiled", "cupy")
def test_groups_of_the_whole_table(record: Record, use: str, rows: int, way: str) -> None:
    """MDAV and k-member as published, k = 5."""
    if rows > 10_000 and way == "naive":
        pytest.skip("its time grows with the square of the rows")
    X = normals(rows, 8)
    model = {"mdav": Mdav, "k-member": KMember}[use](k=5, block=0, refine=False)
    if way == "naive":
        work: Any = lambda: Partition.from_labels(NAIVE[use](X, 5))
    else:
        (X_,) = on(way, X)
        work = lambda: model.form(X_, draws(rows, way))
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    name = f"groups: {use}, whole table"
    record(work, group=name, rows=rows, columns=8, rounds=1, warm=rows < 5_000, quality=quality)


@pytest.mark.parametrize("use", ["mdav", "k-member"])
@sizes(20_000, 200_000, full=(1_000_000,))
@ways("numpy", "compiled", "cupy")
def test_greedy_groups_in_blocks(record: Record, use: str, rows: int, way: str) -> None:
    """Groups of five in blocks of 1024 rows, not refined: the start of a microaggregation."""
    X = normals(rows, 8)
    (X_,) = on(way, X)
    model = {"mdav": Mdav, "k-member": KMember}[use](k=5, refine=False)
    work = lambda: model.form(X_, draws(rows, way))
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    name = f"groups: {use}, blocks, not refined"
    record(work, group=name, rows=rows, columns=8, rounds=1 if way == "numpy" else 3, quality=quality)


@pytest.mark.parametrize("use", ["mdav", "k-member"])
@sizes(20_000, 200_000, full=(1_000_000,))
@ways("numpy", "compiled", "cupy")
def test_greedy_groups_under_gower(record: Record, use: str, rows: int, way: str) -> None:
    """The same under Gower's distance: five numbers, and three categories of two, five and twelve levels."""
    X = normals(rows, 8)
    X[:, 5:] = np.random.default_rng(1).integers(0, [2, 5, 12], (rows, 3))
    metric = Metric("gower", categorical=(False,) * 5 + (True,) * 3)
    (X_,) = on(way, X)
    model = {"mdav": Mdav, "k-member": KMember}[use](k=5, refine=False)
    work = lambda: model.form(X_, draws(rows, way), metric)
    name = f"groups: {use}, Gower, blocks, not refined"
    record(work, group=name, rows=rows, columns=8, rounds=1 if way == "numpy" else 3)


@sizes(20_000, 200_000, full=(1_000_000,))
@ways("numpy", "compiled", "cupy")
def test_exchanges(record: Record, rows: int, way: str) -> None:
    """Four turns of exchanges between groups of five: annealing, with near groups found anew in each turn."""
    X = normals(rows, 8)
    (X_,) = on(way, X)
    start = Mdav(k=5, refine=False).form(X_, draws(rows, way))
    work = lambda: refine(X_, start, 5, turns=4)
    quality = lambda groups: {"loss %": loss_of(X, groups)}
    record(work, group="groups: four turns of exchanges", rows=rows, columns=8, rounds=1, quality=quality)


@pytest.mark.parametrize("use", ["mdav", "k-member"])
@sizes(1_000, 10_000, 100_000, full=(1_000_000, 10_000_000))
@ways("numpy", "compiled", "cupy")
def test_default_groups(record: Record, use: str, rows: int, way: str) -> None:
    """Blocks, groups and refinement by default, k = 5."""
    X = normals(rows, 10)
    (X_,) = on(way, X)
    work = lambda: BLOCKED[use].form(X_, draws(rows, way))
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
    """The other blocked groupings, compiled where they have compiled parts."""
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
@ways("numpy", "compiled", "cupy")
def test_columns(record: Record, columns: int, way: str) -> None:
    """The default groups of 50 000 rows by the number of columns."""
    X = normals(50_000, columns)
    (X_,) = on(way, X)
    work = lambda: BLOCKED["k-member"].form(X_, draws(len(X), way))
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
