"""Layer 8: the kernels' own sources as plain C++ form the host's groups, on large tables.

Kernels that form no groups are in test_large.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.refine import refine
from gpuanon.masking.groups.univariate import optimal_univariate
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from tests.cuda.fixtures import host
from tests.cuda.support import one_lane
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.fake_device import hardware
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


KERNELS = {
    k_member: {"kmember"},
    mdav_groups: {"mdav"},
    refined: {"cut_parts", "locate", "neighbours", "anneal"},
    optimal: {"chunk_paths", "chunk_entries", "chunk_cuts"},
}


@pytest.mark.parametrize(("make", "metric"), TABLES)
@pytest.mark.parametrize("form", KERNELS)
def test_the_groups_of_20_000_rows_are_those_of_the_host(
    form: Callable[..., Partition], make: Callable[..., Rows], metric: Metric
) -> None:
    X = make(20_000, 4)
    expected = form(X, metric)
    with fake_cupy(one_lane=True) as cp:
        groups = form(cp.asarray(X), metric)
        found = Partition(host(groups.order), host(groups.starts))
        assert KERNELS[form] <= {name for name, *_ in hardware.shared_memory}
    np.testing.assert_array_equal(found.starts, expected.starts)
    np.testing.assert_array_equal(found.order, expected.order)


@pytest.mark.parametrize("method", ["microaggregation", "permute"])
def test_a_release_of_20_000_rows_is_that_of_the_host_to_the_bit(method: str) -> None:
    table = pa.table({f"c{j}": column for j, column in enumerate(continuous(20_000, 4).T)})
    columns: Any = {name: {"role": "quasi"} for name in table.column_names} | {"c3": {"role": "sensitive"}}
    mask = {"method": "distribution-preserving", "dither": method} if method == "permute" else {"method": method}
    recipe: Any = {"columns": columns, "mask": [{**mask, "k": K}]}
    expected = gpuanon.protect(table, recipe, rng=7, backend="numpy")
    with fake_cupy(one_lane=True):
        found = gpuanon.protect(table, recipe, rng=7, backend="cupy")
    assert found.data.equals(expected.data)
    assert np.array_equal(found.link, expected.link)


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
    columns: Any = {name: {"role": "quasi"} for name in table.column_names} | {"beside": {"role": "other"}}
    table = table.append_column("beside", pa.array(np.arange(20_000) % 7))
    mask = {"method": "distribution-preserving", "k": 10, "dither": "gaussian"}
    recipe: Any = {"columns": columns, "mask": [mask]}
    expected = gpuanon.protect(table, recipe, rng=7, backend="numpy")
    with fake_cupy(one_lane=True):
        found = gpuanon.protect(table, recipe, rng=7, backend="cupy")
    assert np.array_equal(found.link, expected.link)
    same = np.array([np.asarray(found.data[name]) == np.asarray(expected.data[name]) for name in table.column_names])
    assert same.all(axis=0).mean() > 0.999  # a value is drawn by a distribution function that is rounded differently


def test_a_write_beyond_shared_memory_is_noticed() -> None:
    text = 'extern "C" __global__ void far(int n) { DYN_SHARED(int, own); own[n] = 1; }'
    one_lane.launch(text, {}, "far", (1,), (32,), [np.int32(3)], shared=16)
    with pytest.raises(one_lane.OneLaneFault, match="beyond its 16 bytes"):
        one_lane.launch(text, {}, "far", (1,), (32,), [np.int32(4)], shared=16)


def test_threads_that_share_a_tile_run_in_step() -> None:
    """Sums of each thread's neighbours, in a tile that is used again and again."""
    text = """extern "C" __global__ void ring(int turns, int* out) {
        __shared__ int tile[100];
        int sum = threadIdx.x;
        for (int turn = 0; turn < turns; ++turn) {
            tile[threadIdx.x] = sum;
            __syncthreads();
            sum = tile[(threadIdx.x + 1) % blockDim.x] + tile[(threadIdx.x + 99) % blockDim.x];
            __syncthreads();
        }
        out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
    }"""
    found, expected = np.zeros((3, 100), np.int32), np.arange(100, dtype=np.int32)
    one_lane.launch(text, {}, "ring", (3,), (100,), [np.int32(9), found])
    for _ in range(9):
        expected = np.roll(expected, 1) + np.roll(expected, -1)
    np.testing.assert_array_equal(found, [expected] * 3)


def test_threads_that_wait_at_different_barriers_are_noticed() -> None:
    text = """extern "C" __global__ void part(int n) {
        if (threadIdx.x < n) __syncthreads();
    }"""
    one_lane.launch(text, {}, "part", (2,), (64,), [np.int32(64)])
    with pytest.raises(one_lane.OneLaneFault, match="different barriers"):
        one_lane.launch(text, {}, "part", (2,), (64,), [np.int32(40)])
    one_lane.launch(text, {}, "part", (2,), (64,), [np.int32(0)])
