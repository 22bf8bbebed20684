"""Layer 8: the kernels' own sources as plain C++ with one lane per warp form the host's groups, on large tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine import refine
from gpuanon.masking.groups.univariate import optimal_univariate
from gpuanon.numerics.distance import EUCLIDEAN, Metric
from gpuanon.numerics.median_blocks import blocks
from tests.cuda.fixtures import host
from tests.cuda.support import one_lane
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.same_release import assert_same_release

pytestmark = pytest.mark.skipif(one_lane.MISSING is not None, reason=str(one_lane.MISSING))

Rows = np.ndarray[Any, Any]
MIXED = Metric("gower", (1.0, 0.7, 2.0), (False, True, False))
K = 5


def continuous(n: int, d: int) -> Rows:
    rng = np.random.default_rng(n)
    return rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + rng.normal(size=(n, d))


def integers(n: int, d: int) -> Rows:
    return np.random.default_rng(n).integers(0, 12, (n, d)).astype(np.float64)


def mixed(n: int, d: int) -> Rows:
    rng = np.random.default_rng(n)
    return np.column_stack([rng.integers(0, 90, n) / 89, rng.integers(0, 9, n), rng.normal(size=n)])


TABLES = [
    pytest.param(continuous, EUCLIDEAN, id="continuous"),
    pytest.param(integers, EUCLIDEAN, id="integers"),
    pytest.param(mixed, MIXED, id="mixed"),
]


def k_member(X: Any, metric: Metric) -> Partition:
    return kmember(X, blocks(X, Partition.whole(len(X), like=X), 1024), K, metric)


def mdav_groups(X: Any, metric: Metric) -> Partition:
    return mdav(X, blocks(X, Partition.whole(len(X), like=X), 1024), K, metric)


def refined(X: Any, metric: Metric) -> Partition:
    """From groups of small blocks, far from any optimum, so that many rows are exchanged."""
    return refine(X, kmember(X, blocks(X, Partition.whole(len(X), like=X), 64), K, metric), K, metric, turns=2)


def optimal(X: Any, metric: Metric) -> Partition:
    return optimal_univariate(X[:, :1], K)


@pytest.mark.parametrize(("make", "metric"), TABLES)
@pytest.mark.parametrize("form", [k_member, mdav_groups, refined, optimal])
def test_the_groups_of_20_000_rows_are_those_of_the_host(
    form: Callable[..., Partition], make: Callable[..., Rows], metric: Metric
) -> None:
    X = make(20_000, 4)
    expected = form(X, metric)
    with fake_cupy(one_lane=True) as cp:
        groups = form(cp.asarray(X), metric)
        found = Partition(host(groups.order), host(groups.starts))
    np.testing.assert_array_equal(found.starts, expected.starts)
    np.testing.assert_array_equal(found.order, expected.order)


@pytest.mark.slow
@pytest.mark.parametrize("groups", ["k-member", "mdav"])
def test_a_million_rows_are_grouped_and_refined_as_on_the_host(groups: str) -> None:
    table = pa.table({f"c{j}": column for j, column in enumerate(continuous(1_000_000, 4).T)})
    columns = {name: {"role": "quasi"} for name in table.column_names}
    recipe = {"columns": columns, "mask": [{"method": "microaggregation", "k": K, "groups": groups}]}
    expected = gpuanon.protect(table, recipe, rng=7, backend="numpy")
    with fake_cupy(one_lane=True):
        found = gpuanon.protect(table, recipe, rng=7, backend="cupy")
    assert np.array_equal(found.link, expected.link)
    assert_same_release(found.data, expected.data)
    classes = [release.data.group_by(table.column_names).aggregate([]).num_rows for release in (found, expected)]
    assert classes[0] == classes[1]


def test_a_gaussian_dither_of_20_000_rows_is_that_of_the_host() -> None:
    table = pa.table({f"c{j}": column for j, column in enumerate(continuous(20_000, 3).T)})
    columns = {name: {"role": "quasi"} for name in table.column_names}
    mask = {"method": "distribution-preserving", "k": 10, "dither": "gaussian"}
    recipe: Any = {"columns": columns, "mask": [mask]}
    expected = gpuanon.protect(table, recipe, rng=7, backend="numpy")
    with fake_cupy(one_lane=True):
        found = gpuanon.protect(table, recipe, rng=7, backend="cupy")
    assert np.array_equal(found.link, expected.link)
    same = np.array([np.asarray(found.data[name]) == np.asarray(expected.data[name]) for name in table.column_names])
    assert same.all(axis=0).mean() > 0.999  # a value is drawn by a distribution function that is rounded differently


def test_a_write_beyond_shared_memory_is_noticed() -> None:
    text = 'extern "C" __global__ void far(int n) { DYN_SHARED(int, own); own[n] = 1; __syncthreads(); }'
    one_lane.launch(text, {}, "far", (1,), (32,), [np.int32(3)], shared=16)
    with pytest.raises(one_lane.OneLaneFault, match="beyond its 16 bytes"):
        one_lane.launch(text, {}, "far", (1,), (32,), [np.int32(4)], shared=16)


def test_kernels_whose_threads_share_tiles_are_refused() -> None:
    with pytest.raises(one_lane.OneLaneFault, match="share tiles"):
        one_lane.launch(kernels.source("distance"), {}, "nearest", (1,), (128,), [])
