"""k-member, MDAV and blocks on the device: the PTX of the real kernels against NumPy and against the definitions."""

from __future__ import annotations

import mmap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.errors import BackendError, ParameterError
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.interpreter import Module
from tests.cuda.support.machine import Watch

WEIGHTED = Metric("euclidean", (1.0, 2.0, 0.5, 3.0))
GOWER = Metric("gower", (1.0, 2.0, 1.0, 1.0), (True, True, False, True))
METRICS = [pytest.param(m, id=name) for name, m in (("plain", EUCLIDEAN), ("weighted", WEIGHTED), ("gower", GOWER))]
GROUPINGS = [pytest.param(kmember, id="k-member"), pytest.param(mdav, id="mdav")]
SMALL = {"shared_per_block": 2000, "shared_per_block_optin": 2000}  # a device whose shared memory holds few rows


@pytest.fixture(autouse=True)
def _limits_of_each_device() -> None:
    """The stand-ins of these tests differ in their limits, which are queried once per device."""
    kernels._limits.cache_clear()


def table(n: int, metric: Metric = EUCLIDEAN, *, d: int = 4, seed: int = 0) -> np.ndarray[Any, Any]:
    """Rows without ties in their numeric columns."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    if metric.kind == "gower":
        X = rng.uniform(size=(n, d))
        X[:, np.asarray(metric.categorical)] = rng.integers(0, 4, size=(n, sum(metric.categorical or ())))
    return X


def parts_of(sizes: tuple[int, ...], seed: int = 1) -> Partition:
    """Parts of these sizes, their rows mixed."""
    labels = np.repeat(np.arange(len(sizes)), sizes)
    return Partition.from_labels(np.random.default_rng(seed).permutation(labels))


def on(cp: Any, p: Partition) -> Partition:
    """The partition on the device."""
    return Partition(cp.asarray(p.order), cp.asarray(p.starts))


def assert_same_groups(device: Partition, reference: Partition) -> None:
    np.testing.assert_array_equal(host(device.starts), reference.starts)
    np.testing.assert_array_equal(host(device.order), reference.order)


# -- the definitions, row by row -----------------------------------------------------------------------------------


def distance(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], metric: Metric) -> float:
    weights = np.asarray(metric.weights or (1.0,) * len(x))
    if metric.kind == "euclidean":
        return float(sum(w * (a - b) ** 2 for w, a, b in zip(weights, x, y, strict=True)))
    gaps = [float(a != b) if c else abs(a - b) for a, b, c in zip(x, y, metric.categorical or (), strict=True)]
    return float(np.dot(weights, gaps) / weights.sum())


def distortion(rows: list[int], D: np.ndarray[Any, Any]) -> float:
    return float(sum(D[i, j] for i in rows for j in rows if i < j) / len(rows))


def naive_k_member(X: np.ndarray[Any, Any], k: int, metric: Metric) -> list[list[int]]:
    """Byun et al. 2007, from the text of `kmember`."""
    D = np.array([[distance(x, y, metric) for y in X] for x in X])
    free, clusters, seed = list(range(len(X))), [], 0
    while len(free) >= k:
        seed = max(free, key=lambda row: D[row, seed])
        cluster = [seed]
        free.remove(seed)
        while len(cluster) < k:
            best = min(free, key=lambda row: distortion([*cluster, row], D) - distortion(cluster, D))
            cluster.append(best)
            free.remove(best)
        clusters.append(cluster)
    for row in free:
        min(clusters, key=lambda c: distortion([*c, row], D) - distortion(c, D)).append(row)
    return [sorted(cluster) for cluster in clusters]


def naive_mdav(X: np.ndarray[Any, Any], k: int, metric: Metric) -> list[list[int]]:
    """MDAV-generic, from the text of `mdav`."""
    free, groups = list(range(len(X))), []

    def centre() -> np.ndarray[Any, Any]:
        middle = X[free].mean(axis=0)
        for j in np.flatnonzero(metric.categorical or ()):
            values, counts = np.unique(X[free, j], return_counts=True)
            middle[j] = values[counts.argmax()]
        return middle

    def take_nearest(row: int) -> None:
        group = sorted(free, key=lambda other: (other != row, distance(X[other], X[row], metric)))[:k]
        groups.append(sorted(group))
        free[:] = [other for other in free if other not in group]

    while len(free) >= 2 * k:
        two = len(free) >= 3 * k
        mean = centre()
        r = max(free, key=lambda row: distance(X[row], mean, metric))
        take_nearest(r)
        if two:
            take_nearest(max(free, key=lambda row: distance(X[row], X[r], metric)))
    return [*groups, free]


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("grouping", "naive"), [(kmember, naive_k_member), (mdav, naive_mdav)])
def test_groups_are_those_of_the_definition(
    cp: Any, grouping: Callable[..., Partition], naive: Callable[..., list[list[int]]], metric: Metric
) -> None:
    X = table(26, metric, seed=5)
    expected = Partition.from_labels(_labels(naive(X, 4, metric)))
    assert_same_groups(grouping(cp.asarray(X), on(cp, Partition.whole(26)), 4, metric), expected)


def _labels(groups: list[list[int]]) -> np.ndarray[Any, Any]:
    labels = np.empty(sum(map(len, groups)), dtype=np.int64)
    for number, group in enumerate(groups):
        labels[group] = number
    return labels


# -- against NumPy --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_groups_equal_numpys_in_parts_of_all_sizes(cp: Any, grouping: Callable[..., Partition], metric: Metric) -> None:
    p = parts_of((5, 40, 11, 29, 10))
    X = table(p.n, metric)
    device = grouping(cp.asarray(X), on(cp, p), 5, metric)
    assert isinstance(device.order, cp.ndarray)
    assert_same_groups(device, grouping(X, p, 5, metric))


@pytest.mark.parametrize("metric", [METRICS[0], METRICS[2]])
@pytest.mark.parametrize("grouping", GROUPINGS)
def test_parts_too_large_for_shared_memory_stay_in_global_memory_and_give_the_same_groups(
    grouping: Callable[..., Partition], metric: Metric
) -> None:
    p = parts_of((66, 12))
    X = table(p.n, metric)
    with fake_cupy(races=True, **SMALL) as cp:
        assert 12 < kernels.limits().shared // (8 * X.shape[1]) < 66
        assert_same_groups(grouping(cp.asarray(X), on(cp, p), 4, metric), grouping(X, p, 4, metric))


@settings(max_examples=4, deadline=None, derandomize=True)
@example(values=[0] * 14, k=3)  # all rows equal
@example(values=[0, 1] * 8, k=4)
@given(values=st.lists(st.integers(0, 3), min_size=8, max_size=30), k=st.integers(1, 4))
def test_ties_of_whole_numbers_are_resolved_as_in_numpy(values: list[int], k: int) -> None:
    X = np.column_stack([values, np.roll(values, 1)]).astype(np.float64)
    p = Partition.whole(len(X))
    kernels._limits.cache_clear()
    with fake_cupy() as cp:
        for grouping in (kmember, mdav):
            assert_same_groups(grouping(cp.asarray(X), on(cp, p), k), grouping(X, p, k))


def test_ties_of_categories_are_resolved_as_in_numpy(cp: Any) -> None:
    metric = Metric("gower", (1.0, 1.0, 1.0), (True, True, True))  # shares of a third: every sum is rounded
    X = np.random.default_rng(3).integers(0, 3, size=(47, 3)).astype(np.float64)
    p = Partition.whole(47)
    for grouping in (kmember, mdav):
        assert_same_groups(grouping(cp.asarray(X), on(cp, p), 5, metric), grouping(X, p, 5, metric))


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_float32_finds_separated_groups(cp: Any, grouping: Callable[..., Partition]) -> None:
    rng = np.random.default_rng(2)
    centres = 100 * rng.permutation(8)[:, None] * np.ones(3)
    X = (np.repeat(centres, 5, axis=0) + rng.normal(size=(40, 3))).astype(np.float32)
    groups = grouping(cp.asarray(X), on(cp, Partition.whole(40)), 5)
    assert {tuple(rows) for rows in host(groups.order).reshape(8, 5)} == {
        tuple(range(5 * g, 5 * g + 5)) for g in range(8)
    }


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_a_part_with_fewer_than_k_rows_is_refused(cp: Any, grouping: Callable[..., Partition]) -> None:
    with pytest.raises(ParameterError, match="a part of 3 rows"):
        grouping(cp.asarray(table(13)), on(cp, parts_of((10, 3))), 4)


# -- memory -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_nothing_but_counts_is_copied(cp: Any, grouping: Callable[..., Partition]) -> None:
    X, p = cp.asarray(table(60, GOWER)), on(cp, parts_of((32, 28)))
    cp.transfers.clear()
    grouping(X, p, 5, GOWER)
    assert not cp.transfers.uploads
    blocks(X, p, 16, GOWER)
    (plan,) = cp.transfers.uploads  # offsets of four blocks, flags of four columns, and two parts of four numbers
    assert plan.bytes == 8 * (5 + 4 + 2 * 4)
    assert not cp.transfers.downloads


@pytest.mark.parametrize("grouping", GROUPINGS)
def test_parts_that_do_not_fit_the_memory_together_are_grouped_in_pieces(grouping: Callable[..., Partition]) -> None:
    p = parts_of((12, 12, 12, 12, 12))
    X = table(p.n)
    with fake_cupy(free_memory=6000) as cp:
        assert_same_groups(grouping(cp.asarray(X), on(cp, p), 5), grouping(X, p, 5))
        assert len(cp.launches) > 1
    with fake_cupy(free_memory=1000) as cp, pytest.raises(BackendError, match="the largest part"):
        grouping(cp.asarray(X), on(cp, p), 5)


def huge(shape: tuple[int, ...], dtype: type) -> np.ndarray[Any, Any]:
    """An array whose memory is only reserved until it is touched."""
    reserve_nothing = 0x4000  # MAP_NORESERVE of Linux, which the module does not name before Python 3.13
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | reserve_nothing
    return np.frombuffer(mmap.mmap(-1, int(np.prod(shape)) * np.dtype(dtype).itemsize, flags=flags), dtype).reshape(
        shape
    )


@pytest.mark.parametrize("room", [0, 24])
@pytest.mark.parametrize("kernel", ["kmember", "mdav"])
def test_the_last_part_of_a_huge_table_is_found(kernel: str, room: int) -> None:
    n, size, d, k = 2**31 + 12345, 24, 2, 4
    x, labels = huge((d, n), np.int32), huge((n,), np.int64)
    X = np.random.default_rng(0).integers(-(2**20), 2**20, size=(size, d)).astype(np.int32)
    x[:, -size:] = X.T
    starts, first = np.array([n - size, n]), np.array([2**40])
    null, scratch = np.uint64(0), huge((2, n), np.int64)
    more = (huge((n,), np.int64),) if kernel == "kmember" else (null, null, null)
    sizes = (np.int32(d), np.int32(k), null, *more, np.int32(room), np.int64(n))
    args = (x, starts, first, *sizes, scratch if kernel == "kmember" else scratch[0], labels)
    Module.of(kernel, real="float").launch(
        kernel, grid=(1,), block=(32,), args=args, shared=24 * (room + 1) + 32, watch=Watch(races=False)
    )
    twin = kmember if kernel == "kmember" else mdav
    expected = twin(X.astype(np.float64), Partition.whole(size), k).labels()
    np.testing.assert_array_equal(labels[-size:] - 2**40, expected)


# -- the memory system ------------------------------------------------------------------------------------------------


def lines_with(file: str, text: str) -> set[str]:
    """The source lines of a kernel that hold a text, as ``file:number``."""
    lines = (Path(kernels.folder()) / file).read_text(encoding="utf-8").splitlines()
    found = {f"{file}:{number}" for number, line in enumerate(lines, 1) if text in line}
    assert found, f"no line of {file} holds {text!r}"
    return found


@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("grouping", GROUPINGS)
@pytest.mark.parametrize("device", [{}, SMALL], ids=["staged", "global"])
def test_loops_over_rows_read_whole_sectors_without_bank_conflicts(
    grouping: Callable[..., Partition], real: type, device: dict[str, int]
) -> None:
    X = table(64, d=6).astype(real)
    # The columns of each taken row are read once: one sector per column is the minimum.
    apart = lines_with("mdav.cu", "part.total[j] -= ")
    with fake_cupy(traffic=True, **device) as cp:
        grouping(cp.asarray(X), on(cp, Partition.whole(64)), 5)
        counters = cp.launches[-1][1].traffic.table()
    assert {c.space for c in counters} == {"global", "shared"}
    assert [c for c in counters if c.ratio > 2 and c.line not in apart] == []


# -- blocks -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("size", "multiple"), [(37, 1), (40, 5), (700, 1)])
@pytest.mark.parametrize("metric", METRICS)
def test_blocks_equal_numpys(cp: Any, metric: Metric, size: int, multiple: int) -> None:
    p = parts_of((1500, 600, 20))
    X = table(p.n, metric)
    device = blocks(cp.asarray(X), on(cp, p), size, metric, multiple=multiple)
    assert_same_groups(device, blocks(X, p, size, metric, multiple=multiple))


def test_blocks_of_equal_values_cut_by_row(cp: Any) -> None:
    X = np.zeros((50, 2))
    cut = blocks(cp.asarray(X), on(cp, Partition.whole(50)), 10)
    np.testing.assert_array_equal(host(cut.order), np.arange(50))
    np.testing.assert_array_equal(host(cut.starts), np.arange(0, 51, 10))
