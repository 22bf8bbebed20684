"""Host and device form the same groups, to the bit, on 200 small tables full of ties: those of exact fractions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups import kmember as kmember_file
from gpuanon.masking.groups import mdav as mdav_file
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.univariate import first_axis
from gpuanon.masking.groups.whole_numbers import grid_of
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from tests.cuda.fixtures import host
from tests.support import naive_groups as naive

Rows = np.ndarray[Any, Any]
TABLES = 25  # of each kind; each is a part of one partition
CATEGORIES = Metric("gower", (1.0, 1.0, 1.0), (True, True, True))
MIXED = Metric("gower", (1.0, 0.7, 2.0), (False, True, False))


def integers(rng: np.random.Generator, n: int) -> Rows:
    return rng.integers(0, 6, (n, 2)).astype(np.float64)


def standardised(rng: np.random.Generator, n: int) -> Rows:
    X = np.column_stack([rng.integers(0, 5, n), rng.integers(18, 30, n)])
    return (X - [2.1, 23.4]) / [1.37, 3.59]


def duplicates(rng: np.random.Generator, n: int) -> Rows:
    return rng.normal(size=(6, 3))[rng.integers(0, 6, n)]


def constants(rng: np.random.Generator, n: int) -> Rows:
    return np.column_stack([np.full(n, 1 / 3), rng.integers(0, 2, n), np.zeros(n)])


def continuous(rng: np.random.Generator, n: int) -> Rows:
    return rng.lognormal(sigma=2, size=(n, 4))


def categories(rng: np.random.Generator, n: int) -> Rows:
    return rng.integers(0, 3, (n, 3)).astype(np.float64)


def mixed(rng: np.random.Generator, n: int) -> Rows:
    return np.column_stack([rng.integers(0, 9, n) / 8, rng.integers(0, 3, n), rng.integers(0, 4, n) / 3])


KINDS = [
    pytest.param(make, metric, id=f"{make.__name__}, {name}")
    for make, metric, name in (
        (integers, EUCLIDEAN, "plain"),
        (integers, Metric("euclidean", (1.0, 0.3)), "weighted"),
        (standardised, EUCLIDEAN, "plain"),
        (duplicates, EUCLIDEAN, "plain"),
        (constants, EUCLIDEAN, "plain"),
        (continuous, EUCLIDEAN, "plain"),
        (categories, CATEGORIES, "gower"),
        (mixed, MIXED, "gower"),
    )
]


def tables(make: Callable[..., Rows], k: int) -> tuple[Rows, Partition]:
    """Tables of k to 5k rows, as the parts of a partition whose rows are mixed."""
    rng = np.random.default_rng(k)
    sizes = rng.integers(k, 5 * k, TABLES)
    X = np.concatenate([make(rng, int(size)) for size in sizes])
    shuffled = rng.permutation(len(X))
    return X[shuffled], Partition.from_labels(np.repeat(np.arange(TABLES), sizes)[shuffled])


def on_the_device(
    cp: Any, grouping: Callable[..., Partition], X: Rows, within: Partition, k: int, metric: Metric
) -> Partition:
    groups = grouping(cp.asarray(X), Partition(cp.asarray(within.order), cp.asarray(within.starts)), k, metric)
    return Partition(host(groups.order), host(groups.starts))


def of_fractions(grouping: str, X: Rows, within: Partition, k: int, metric: Metric) -> list[list[int]]:
    """The groups from the definition, of the rows on the grid, in exact arithmetic."""
    room = mdav_file._room(metric, int(within.sizes.max())) if grouping == "mdav" else kmember_file._room(metric, k)
    grid = grid_of(X, metric, room)
    rows, mismatch = grid.rows(X), grid.mismatch()
    apart = None if mismatch is None else mismatch.tolist()
    if grouping == "mdav":
        return [group for part in naive.members(within) for group in naive.mdav(rows, part, k, apart)]
    listed = rows.tolist()

    def distance(i: int, j: int) -> int:
        return int(naive.whole_distance(listed[i], listed[j], apart))

    return [group for part in naive.members(within) for group in naive.kmember(distance, part, k)]


@pytest.mark.parametrize(("make", "metric"), KINDS)
@pytest.mark.parametrize("grouping", [kmember, mdav], ids=["k-member", "mdav"])
def test_host_device_and_exact_fractions_agree(
    device: Any, grouping: Callable[..., Partition], make: Callable[..., Rows], metric: Metric
) -> None:
    k = 3
    X, within = tables(make, k)
    groups = grouping(X, within, k, metric)
    found = on_the_device(device, grouping, X, within, k, metric)
    np.testing.assert_array_equal(found.starts, groups.starts)
    np.testing.assert_array_equal(found.order, groups.order)
    expected = of_fractions(grouping.__name__, X, within, k, metric)
    assert naive.as_set(naive.members(groups)) == naive.as_set(expected)


@pytest.mark.parametrize("make", [integers, standardised, duplicates, constants, continuous])
def test_the_first_axis_is_the_same_on_the_device_and_equal_rows_stay_in_order(
    device: Any, make: Callable[..., Rows]
) -> None:
    X = make(np.random.default_rng(4), 90)
    labels = host(first_axis(device.asarray(X), 4).labels())
    np.testing.assert_array_equal(labels, first_axis(X, 4).labels())
    for row in range(len(X)):
        equal = np.flatnonzero((X[row] == X).all(axis=1))
        assert (np.diff(labels[equal]) >= 0).all()  # groups are numbered along the axis


@pytest.mark.parametrize("metric", [EUCLIDEAN, Metric("gower")], ids=["euclidean", "gower"])
@pytest.mark.parametrize("rows", [5, 1024, 10**6, 10**8])
@pytest.mark.parametrize("columns", [1, 2, 10, 300])
def test_no_sum_can_overflow(metric: Metric, rows: int, columns: int) -> None:
    corners = np.concatenate([np.zeros((1, columns)), np.ones((1, columns))])
    for room in (mdav_file._room(metric, rows), *(kmember_file._room(metric, k) for k in (2, 5, 1000))):
        grid = grid_of(corners, metric, room)
        most = np.abs(np.diff(grid.rows(corners).astype(np.int64), axis=0))
        distance = int((most * most).sum() if metric.kind == "euclidean" else most.sum())
        assert 0 < distance <= 2**room
    assert mdav_file._room(metric, rows) + np.log2(rows) < 63
