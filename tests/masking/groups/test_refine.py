"""Refinement: the change by an exchange, the guarantees, and the quality of the result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.annealing import disjoint_pairs
from gpuanon.masking.groups.refine.exchange import EuclideanTable, GowerTable, GroupTable
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.groups.refine.refine import _lower, refine
from gpuanon.masking.groups.whole_numbers import whole_numbers
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from tests.support import naive_groups as naive
from tests.support import naive_refine as exact
from tests.support.groups import (
    METRICS,
    MIXED,
    census,
    information_loss,
    random_partition,
    random_rows,
    refine_briefly,
    table,
)


def total(X: Any, groups: list[list[int]], metric: Metric) -> float:
    """The distortion of all groups, from its definition."""
    if metric.kind == "gower":
        return float(sum(naive.distortion(lambda i, j: naive.gower(X[i], X[j], metric), group) for group in groups))
    return float(sum(np.square(X[group] - X[group].mean(axis=0)).sum() for group in groups))


@pytest.mark.parametrize("mismatch", [None, [-1, 250, -1]], ids=["euclidean", "gower"])
@pytest.mark.parametrize("sizes", [(3, 3, 3, 3), (3, 4, 5, 3)], ids=["equal", "unequal"])
def test_the_best_exchange_is_the_best_of_all_and_its_change_is_correct(
    mismatch: list[int] | None, sizes: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(1)
    k, width, g = 3, max(sizes) + (max(sizes) > 3), len(sizes)
    for most in (1000, 1000, 1000, 3, 3):  # few values: many exchanges are equally good
        X = rng.integers(0, most, (g * width, 3))
        apart = [[exact.distance(x, y, mismatch) for y in X.tolist()] for x in X.tolist()]
        x, counts = X.reshape(g, width, 3).astype(float), np.array(sizes)
        table: GroupTable = EuclideanTable(x, counts, k)
        if mismatch:
            table = GowerTable(x, counts, k, np.array(mismatch))
        a, b = np.array([0, 2]), np.array([1, 3])
        lists = [line[:size].tolist() for line, size in zip(table.members, sizes, strict=True)]
        pairs = [exact.Pair(apart, lists[0], lists[1]), exact.Pair(apart, lists[2], lists[3])]
        best = [pair.best(k, width) for pair in pairs]
        change, code = table.weigh(a, b)
        np.testing.assert_allclose(change, [float(exchange[0]) for exchange in best], rtol=1e-14)
        table.exchange(a, b, code)
        after = [line[:size].tolist() for line, size in zip(table.members, table.sizes, strict=True)]
        assert after == [group for exchange in best for group in exchange[1:]]
        np.testing.assert_allclose(table.distortion, [float(pairs[0].distortion(group)) for group in after])


@pytest.mark.parametrize("kind", METRICS)
@pytest.mark.parametrize(("k", "n"), [(3, 61), (5, 75), (10, 134)])
def test_groups_equal_those_of_the_definitions(kind: str, k: int, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuanon.masking.groups.refine.overlapping_cells.CELL", 9)
    refine_briefly(monkeypatch, turns=1, steps=12)
    X = table(kind, n)
    groups = mdav(X, Partition.whole(len(X)), k, METRICS[kind])
    fast = refine(X, groups, k, METRICS[kind], turns=3)
    monkeypatch.setattr("gpuanon.masking.groups.refine.overlapping_cells.neighbours", exact.neighbours)
    monkeypatch.setattr(sys.modules["gpuanon.masking.groups.refine.refine"], "anneal", exact.anneal)
    plain = refine(X, groups, k, METRICS[kind], turns=3)
    np.testing.assert_array_equal(fast.order, plain.order)
    np.testing.assert_array_equal(fast.starts, plain.starts)
    assert kind == "square" or (fast.order != groups.order).any()


@pytest.mark.parametrize("width", [4, 2**9, 2**19])
def test_a_fall_that_rounding_explains_is_not_believed(width: int) -> None:
    """Pairs of rows that are half the range apart, further than those before, but rounded they are nearer."""
    pairs, bits = 20, whole_numbers(np.zeros((2, 1)), np.arange(2), EUCLIDEAN, width)[2]
    reach = 2**bits // 2 - 3
    low, middle, high = (np.full(pairs, place) for place in (2.49, 2.51 + reach, 3.49 + 2 * reach))
    X = np.concatenate([[0.0, 0.0], low, middle, high])[:, None]  # a grid of whole numbers from 0 on
    rows, _, bits = whole_numbers(X, np.arange(len(X)), EUCLIDEAN, width)
    assert np.array_equal(rows[:, 0] - rows[0, 0], np.rint(X[:, 0]))
    own, twos = np.arange(pairs), np.arange(pairs) // 2
    before, after = (
        Partition.from_labels(np.concatenate([[0, 0], 1 + labels]))
        for labels in (
            np.concatenate([own, own, pairs + twos]),
            np.concatenate([pairs + twos, own, own]),
        )
    )

    def change(rows: Any) -> float:
        return float(total(rows, naive.members(after), EUCLIDEAN) - total(rows, naive.members(before), EUCLIDEAN))

    assert change(X) > 0
    assert change(rows.astype(float)) < -len(X) * 2**bits / 8
    assert not _lower(X, before, after, EUCLIDEAN, change(rows.astype(float)), bits)
    assert _lower(X, after, before, EUCLIDEAN, -1.0, bits)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 25), st.sampled_from([EUCLIDEAN, MIXED]), st.booleans())
@example(seed=0, k=2, groups=1, metric=EUCLIDEAN, tied=True)
@example(seed=0, k=3, groups=7, metric=MIXED, tied=True)
def test_groups_have_k_to_2k_rows_no_row_is_lost_and_the_distortion_never_rises(
    seed: int, k: int, groups: int, metric: Metric, tied: bool
) -> None:
    rng = np.random.default_rng(seed)
    n = groups * k + int(rng.integers(0, 3 * k))
    X = random_rows(rng, n, metric)
    if tied:
        X = np.round(X * 3) / 4
    before = random_partition(rng, n, groups, k)
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
    for size in (1, 3000):
        for module, name in (
            ("refine", "_BATCH"),
            ("overlapping_cells", "_BATCH"),
            ("neighbours", "_BATCH"),
            ("annealing", "_BATCH_ROWS"),
        ):
            monkeypatch.setattr(sys.modules[f"gpuanon.masking.groups.refine.{module}"], name, size)
        other = refine(X, groups, 4, turns=3)
        np.testing.assert_array_equal(one.order, other.order)
        np.testing.assert_array_equal(one.starts, other.starts)


def test_float32_rows_far_from_the_origin_are_refined_as_well() -> None:
    X = np.random.default_rng(3).standard_normal((2000, 4))
    groups = mdav(X, Partition.whole(2000), 5)
    near = refine(X, groups, 5, turns=12)
    far = refine((X + 1000).astype(np.float32), groups, 5, turns=12)
    assert information_loss(X, far) == pytest.approx(
        information_loss(X, near),
        rel=0.02,
        # Rounding may lead to other groups, but not to worse ones.
    )


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
    reference = information_loss(X, mdav(X, Partition.whole(4000), 5))
    parts = blocks(X, Partition.whole(4000), 1024, multiple=5)
    for group in (mdav, kmember):
        assert information_loss(X, refine(X, group(X, parts, 5), 5)) < 0.96 * reference


@pytest.mark.parametrize("most", [4, 1 << 20], ids=["tied", "untied"])
def test_nearest_groups_equal_those_of_all_distances(most: int) -> None:
    rng = np.random.default_rng(6)
    cells = Partition.from_labels(rng.permutation(np.repeat([0, 1, 2, 3], [50, 13, 3, 1])))
    places = rng.integers(-most, most, (cells.n, 4)).astype(np.int32)
    np.testing.assert_array_equal(neighbours(places, cells, 4), exact.neighbours(places, cells, 4))


def test_whole_numbers_keep_ties_and_their_sums_are_exact() -> None:
    X = np.array([[0, 0.25], [0.75, 1], [3, 0.5]]) - 17
    rows, mismatch, bits = whole_numbers(X, np.array([2, 0, 1]), EUCLIDEAN, 9)
    assert mismatch is None
    np.testing.assert_array_equal((rows - rows[1]) / (rows[0, 0] - rows[1, 0]) * 3, (X - X[0])[[2, 0, 1]])
    assert np.ptp(rows[:, 0]) >= 2 ** (bits - 1)
    assert 4 * 9**2 * 2 * 4**bits <= 2**53
    mixed, mismatch, bits = whole_numbers(X, np.array([2, 0, 1]), Metric("gower", (1.0, 3.0), (False, True)), 9)
    assert mismatch[0] == -1
    assert mismatch[1] == np.ptp(mixed[:, 0])  # weights of 1 for a width of 3, and of 3 for a mismatch
    assert 4 * 9**2 * 2**bits <= 2**53
    assert 2 ** (bits - 1) <= np.ptp(mixed[:, 0]) + mismatch[1] <= 2**bits


@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 5))
@example(seed=0, groups=1, steps=1)
def test_pairs_are_disjoint_neighbours_and_of_the_last_proposals(seed: int, groups: int, steps: int) -> None:
    rng = np.random.default_rng(seed)
    mates, coins = rng.integers(0, groups, (steps, groups)), rng.integers(0, 2, (steps, groups)) == 1
    found = np.stack(disjoint_pairs(mates, coins), axis=1).tolist()
    expected = []
    for step, (mate, coin) in enumerate(zip(mates.tolist(), coins.tolist(), strict=True)):
        last = {mate[a]: a for a in range(groups) if coin[a] and not coin[mate[a]]}
        expected += [[step, a, b] for a, b in sorted((a, b) for b, a in last.items())]
    assert found == expected


@pytest.mark.data
@pytest.mark.parametrize(("k", "most"), [(3, 5.34), (5, 8.23), (10, 12.44)])
def test_census_from_mdav_ends_below_a_local_search(data_folder: Path, k: int, most: float) -> None:
    X = census(data_folder)
    assert information_loss(X, refine(X, mdav(X, Partition.whole(len(X)), k), k)) <= most
