"""Microaggregation of one column."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.errors import GpuanonError
from gpuanon.masking.groups import univariate as module
from gpuanon.masking.groups.univariate import optimal_univariate, sorted_rows, univariate
from tests.support.naive_groups import members


def sse(values: Any, groups: list[list[int]]) -> float:
    return float(sum(np.square(values[group] - values[group].mean()).sum() for group in groups))


def least_sse(values: Any, k: int) -> float:
    """Over all ways to divide the sorted values into groups of at least k, of any size."""
    ordered = np.sort(values)

    @cache
    def rest(at: int) -> float:
        if at == len(ordered):
            return 0.0
        ends = range(at + k, len(ordered) + 1)
        return min((sse(ordered, [list(range(at, end))]) + rest(end) for end in ends), default=np.inf)

    return rest(0)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(0, 40), st.booleans())
@example(seed=0, k=2, more=0, tied=False)
@example(seed=0, k=3, more=3, tied=True)
def test_optimal_groups_have_the_least_error_of_all(seed: int, k: int, more: int, tied: bool) -> None:
    rng = np.random.default_rng(seed)
    values = rng.integers(0, 8, k + more).astype(np.float64) if tied else rng.lognormal(sigma=2, size=k + more)
    groups = optimal_univariate(values, k)
    assert sorted(groups.order.tolist()) == list(range(k + more))
    assert groups.sizes.min() >= k
    assert groups.sizes.max() <= 2 * k - 1
    assert sse(values, members(groups)) == pytest.approx(least_sse(values, k), rel=1e-9, abs=1e-12)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(60, 300))
@example(seed=0, k=2, n=100)
def test_chunks_in_lock_step_give_the_groups_of_one_chunk(seed: int, k: int, n: int) -> None:
    values = np.random.default_rng(seed).lognormal(size=n)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_CHUNK", 1)
        many = optimal_univariate(values, k)
        patch.setattr(module, "_CHUNK", 10**6)
        one = optimal_univariate(values, k)
    assert sse(values, members(many)) == pytest.approx(sse(values, members(one)), rel=1e-12)


def test_far_values_do_not_cancel() -> None:
    values = np.random.default_rng(1).random(5000)
    near, far = optimal_univariate(values, 3), optimal_univariate(values + 2.0**20, 3)
    assert sse(values, members(far)) == pytest.approx(sse(values, members(near)), rel=1e-6)


@given(st.integers(0, 10**6), st.integers(2, 4), st.integers(0, 30), st.integers(2, 5))
@example(seed=0, k=2, more=3, levels=3)
def test_optimal_groups_of_levels_have_the_least_error_of_all_neighbours(
    seed: int, k: int, more: int, levels: int
) -> None:
    codes = np.random.default_rng(seed).integers(0, levels, k + more)
    features = np.where(np.eye(levels)[codes] > 0, 0.7, -0.7)
    groups = optimal_univariate(features, k)
    ordered = np.sort(codes)
    assert [min(codes[rows]) for rows in members(groups)] == sorted(min(codes[rows]) for rows in members(groups))

    def error(rows: Any) -> float:
        return float(np.square(rows - rows.mean(axis=0)).sum())

    @cache
    def rest(at: int) -> float:
        ends = range(at + k, len(ordered) + 1)
        whole = np.where(np.eye(levels)[ordered] > 0, 0.7, -0.7)
        return 0.0 if at == len(ordered) else min((error(whole[at:e]) + rest(e) for e in ends), default=np.inf)

    assert groups.sizes.min() >= k
    assert sum(error(features[rows]) for rows in members(groups)) == pytest.approx(rest(0), rel=1e-9, abs=1e-12)


def test_many_levels_over_many_chunks_are_not_divided() -> None:
    codes = np.random.default_rng(3).integers(0, 30, 20_000)
    groups = optimal_univariate(np.eye(30)[codes], 5)
    mixed = [len(set(codes[rows])) > 1 for rows in members(groups)]
    assert sum(mixed) == 0  # every level has more than 4 · 5 rows, which groups of 5 to 9 divide


def test_numbers_ascend_and_missing_values_come_last() -> None:
    values = np.array([[2.0, -1.0], [0.0, 1.0], [-1.0, -1.0], [0.0, 1.0], [0.0, -1.0], [3.0, -1.0]])
    assert sorted_rows(values).tolist() == [2, 4, 0, 5, 1, 3]
    assert members(univariate(values, 2)) == [[2, 4], [0, 5], [1, 3]]
    levels = np.eye(3)[[2, 0, 1, 0]]
    assert sorted_rows(levels).tolist() == [1, 3, 2, 0]


def test_fixed_groups_are_k_consecutive_rows_each() -> None:
    values = np.array([5.0, 1.0, 3.0, 3.0, 2.0, 9.0, 8.0])
    assert members(univariate(values, 3)) == [[1, 2, 4], [0, 3, 5, 6]]


@pytest.mark.parametrize("function", [univariate, optimal_univariate])
def test_too_few_rows_are_refused(function: Any) -> None:
    with pytest.raises(GpuanonError, match="at least 5 rows"):
        function(np.zeros(4), 5)


def test_optimal_is_never_worse_than_fixed() -> None:
    values = np.random.default_rng(2).lognormal(size=3001)
    for k in (3, 10, 70):
        fixed, optimal = univariate(values, k), optimal_univariate(values, k)
        assert sse(values, members(optimal)) <= sse(values, members(fixed))
        assert isinstance(optimal, Partition)
