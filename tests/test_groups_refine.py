"""Refinement: what an exchange brings, what it never does, and how far it comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.groups.blocks import blocks
from gpuanon.groups.exchange import EuclideanTable, GowerTable, Table
from gpuanon.groups.kmember import kmember
from gpuanon.groups.mdav import mdav
from gpuanon.groups.neighbours import disjoint_pairs, nearest_inside
from gpuanon.groups.refine import refine
from gpuanon.numerics.distance import EUCLIDEAN, Metric
from tests import naive_groups as naive
from tests.test_groups_kmember import parts_of
from tests.test_groups_mdav import census, loss

MIXED = Metric("gower", weights=(1.0, 2.0, 1.0), categorical=(False, True, False))


def rows(rng: np.random.Generator, n: int, metric: Metric) -> Any:
    """Three columns that suit the metric."""
    X = rng.random((n, 3))
    if metric.kind == "gower":
        X[:, 1] = rng.integers(0, 3, n)
    return X


def total(X: Any, groups: list[list[int]], metric: Metric) -> float:
    """The distortion of all groups, from its definition."""
    if metric.kind == "gower":
        return float(sum(naive.distortion(lambda i, j: naive.gower(X[i], X[j], metric), group) for group in groups))
    return float(sum(np.square(X[group] - X[group].mean(axis=0)).sum() for group in groups))


def table_of(X: Any, groups: list[list[int]], k: int, metric: Metric) -> tuple[Table, Any]:
    """A table of the groups, and the row in each of its slots."""
    width = max(map(len, groups)) + (max(map(len, groups)) > k)
    slots = np.array([group + [group[0]] * (width - len(group)) for group in groups])
    sizes = np.array(list(map(len, groups)))
    if metric.kind == "gower":
        return GowerTable(X[slots], sizes, k, metric), slots.reshape(-1)
    return EuclideanTable(X[slots], sizes, k), slots.reshape(-1)


def best_by_trying(X: Any, a: list[int], b: list[int], k: int, width: int, metric: Metric) -> float:
    """The change by the best swap or move between two groups, from all of them."""
    tries = [([*a[:i], y, *a[i + 1 :]], [*b[:r], x, *b[r + 1 :]]) for i, x in enumerate(a) for r, y in enumerate(b)]
    if len(a) > k and len(b) < width:
        tries += [([*a[:i], *a[i + 1 :]], [*b, x]) for i, x in enumerate(a)]
    if len(b) > k and len(a) < width:
        tries += [([*a, y], [*b[:r], *b[r + 1 :]]) for r, y in enumerate(b)]
    return min(total(X, list(pair), metric) for pair in tries) - total(X, [a, b], metric)


@pytest.mark.parametrize("metric", [EUCLIDEAN, MIXED], ids=["euclidean", "gower"])
@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (3, 4, 5, 3)], ids=["equal", "unequal"])
def test_the_best_exchange_is_the_best_of_all_and_brings_what_it_says(metric: Metric, sizes: tuple[int, ...]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(10):
        X = rows(rng, sum(sizes), metric)
        groups = np.split(rng.permutation(sum(sizes)), np.cumsum(sizes)[:-1])
        lists = [group.tolist() for group in groups]
        table, slots = table_of(X, lists, 3, metric)
        a, b = np.array([0, 2]), np.array([1, 3])
        change, code = table.weigh(a, b)
        for pair in range(2):
            tried = best_by_trying(X, lists[a[pair]], lists[b[pair]], 3, table.width, metric)
            assert change[pair] == pytest.approx(tried, abs=1e-12)
        table.exchange(a, b, code)
        after = [slots[line[:size]].tolist() for line, size in zip(table.members, table.sizes, strict=True)]
        assert sorted(row for group in after for row in group) == list(range(sum(sizes)))
        assert total(X, after, metric) - total(X, lists, metric) == pytest.approx(change.sum(), abs=1e-12)
        np.testing.assert_allclose(table.distortion, [total(X, [group], metric) for group in after], atol=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 25), st.sampled_from([EUCLIDEAN, MIXED]), st.booleans())
@example(seed=0, k=2, groups=1, metric=EUCLIDEAN, tied=True)
@example(seed=0, k=3, groups=7, metric=MIXED, tied=True)
def test_no_group_below_k_or_above_2k_no_row_lost_and_the_distortion_never_up(
    seed: int, k: int, groups: int, metric: Metric, tied: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = groups * k + int(rng.integers(0, 3 * k))
    X = rows(rng, n, metric)
    if tied:
        X = np.round(X * 3) / 4
    before = parts_of(rng, n, groups, k)
    after = refine(X, before, k, metric, turns=4)
    assert sorted(after.order.tolist()) == list(range(n))
    assert after.sizes.min() >= k
    assert after.sizes.max() <= 2 * k - 1
    started, ended = (total(X, naive.members(p), metric) for p in (before, after))
    assert ended <= started * (1 + 1e-12)


def test_batches_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    X = np.random.default_rng(2).standard_normal((9000, 3))
    groups = mdav(X, blocks(X, Partition.whole(9000), 300, multiple=4), 4)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    one = refine(X, groups, 4, turns=3)
    monkeypatch.setenv("GPUANON_THREADS", "3")
    for batch_rows in (1, 3000):
        other = refine(X, groups, 4, turns=3, batch_rows=batch_rows)
        np.testing.assert_array_equal(one.order, other.order)
        np.testing.assert_array_equal(one.starts, other.starts)


def test_float32_rows_far_from_the_origin_are_refined_as_well() -> None:
    X = np.random.default_rng(3).standard_normal((2000, 4))
    groups = mdav(X, Partition.whole(2000), 5)
    near = refine(X, groups, 5, turns=12)
    far = refine((X + 1000).astype(np.float32), groups, 5, turns=12)
    assert loss(X, far) == pytest.approx(loss(X, near), rel=0.02)  # rounding sends it another way, not to a worse end


def test_rows_cross_the_borders_of_blocks() -> None:
    X = np.array([0, 0, 0, 5, 5, 9, 5, 9, 9.0])[:, None]
    block = np.array([0, 0, 0, 0, 0, 0, 1, 1, 1])
    groups = mdav(X, Partition.from_labels(block), 3)
    assert total(X, naive.members(groups), EUCLIDEAN) > 0
    assert naive.as_set(naive.members(refine(X, groups, 3))) == {(0, 1, 2), (3, 4, 6), (5, 7, 8)}


def test_equal_rows_and_single_groups_are_left_alone() -> None:
    X = np.ones((40, 2))
    groups = Partition.from_labels(np.arange(40) // 5)
    np.testing.assert_array_equal(refine(X, groups, 5).order, groups.order)
    whole = Partition.whole(7)
    np.testing.assert_array_equal(refine(X[:7], whole, 5).starts, whole.starts)


def test_blocked_and_refined_is_four_percent_below_whole_table_mdav() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((4000, 8)) @ rng.standard_normal((8, 8))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    reference = loss(X, mdav(X, Partition.whole(4000), 5))
    parts = blocks(X, Partition.whole(4000), 1024, multiple=5)
    for group in (mdav, kmember):
        assert loss(X, refine(X, group(X, parts, 5), 5)) < 0.96 * reference


def test_nearest_groups_equal_those_of_all_distances() -> None:
    rng = np.random.default_rng(6)
    Z = rng.standard_normal((3, 20, 4)).astype(np.float32)
    valid = np.arange(20) < np.array([[20], [13], [3]])
    near = nearest_inside(Z, valid, 4)
    for cell, used in enumerate(valid.sum(axis=1)):
        for row in range(used):
            others = [other for other in range(used) if other != row]
            want = sorted(others, key=lambda other: np.square(Z[cell, row] - Z[cell, other]).sum())[:4]
            got = [other for other in near[cell, row].tolist() if other != row]
            assert got == want


@given(st.integers(0, 10**6), st.integers(1, 60))
@example(seed=0, groups=1)
def test_pairs_are_disjoint_and_mates(seed: int, groups: int) -> None:
    rng = np.random.default_rng(seed)
    mate, coin = rng.integers(0, groups, groups), rng.integers(0, 2, groups) == 1
    a, b = disjoint_pairs(mate, coin, np.empty(groups, dtype=np.int64))
    assert len(set(a.tolist()) | set(b.tolist())) == 2 * len(a)
    np.testing.assert_array_equal(mate[a], b)
    assert len(a) > 0 or not (coin & ~coin[mate]).any()


@pytest.mark.data
@pytest.mark.parametrize(("k", "most"), [(3, 5.34), (5, 8.23), (10, 12.44)])
def test_census_from_mdav_ends_below_a_local_search(data_folder: Path, k: int, most: float) -> None:
    X = census(data_folder)
    assert loss(X, refine(X, mdav(X, Partition.whole(len(X)), k), k)) <= most
