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
from gpuanon.groups import univariate as module
from gpuanon.groups.univariate import optimal_univariate, univariate
from tests.naive_groups import members


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
def test_stretches_in_lock_step_give_what_one_stretch_gives(seed: int, k: int, n: int) -> None:
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


def test_fixed_groups_are_k_neighbours_each() -> None:
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
