"""Greedy k-member clustering equals its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.errors import GpuanonError
from gpuanon.masking.groups.kmember import kmember
from gpuanon.numerics.metric import Metric
from tests.support import naive_groups as naive
from tests.support.groups import MIXED, random_partition


def expect_naive(X: Any, within: Partition, k: int, metric: Metric | None = None) -> None:
    """Compare with the definition, part by part."""
    got = naive.as_set(naive.members(kmember(X, within, k, metric or Metric())))
    distance = (lambda i, j: naive.gower(X[i], X[j], metric)) if metric else (lambda i, j: naive.square(X[i], X[j]))
    want = [cluster for part in naive.members(within) for cluster in naive.kmember(distance, part, k)]
    assert got == naive.as_set(want)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4))
@example(seed=0, k=2, parts=1)
def test_equals_the_definition_on_random_rows(seed: int, k: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    n = parts * k + int(rng.integers(0, 50))
    expect_naive(rng.standard_normal((n, 3)), random_partition(rng, n, parts, k), k)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(1, 4), st.sampled_from([np.int64, np.float64, np.float32]))
@example(seed=1, k=3, parts=1, dtype=np.float64)
def test_equals_the_definition_on_tied_rows(seed: int, k: int, parts: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    n = parts * k + int(rng.integers(0, 50))
    X = rng.integers(-2, 3, (n, 2)).astype(np.int64)
    within = random_partition(rng, n, parts, k)
    want = [c for part in naive.members(within) for c in naive.kmember(lambda i, j: naive.square(X[i], X[j]), part, k)]
    assert naive.as_set(naive.members(kmember(X.astype(dtype), within, k))) == naive.as_set(want)


@given(st.integers(0, 10**6), st.integers(2, 5))
@example(seed=2, k=2)
def test_equals_the_definition_under_gower(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    n = 2 * k + int(rng.integers(0, 40))
    # Multiples of 1/8 and weights that add up to 4: all sums are exact, so ties are ties.
    X = np.column_stack([rng.integers(0, 9, n) / 8, rng.integers(0, 3, n), rng.integers(0, 9, n) / 8])
    expect_naive(X, random_partition(rng, n, 2, k), k, MIXED)


def test_weights_scale_the_columns() -> None:
    rng = np.random.default_rng(5)
    X = rng.standard_normal((200, 2))
    whole = Partition.whole(200)
    weighted = kmember(X, whole, 4, Metric(weights=(4.0, 1.0)))
    np.testing.assert_array_equal(weighted.order, kmember(X * [2.0, 1.0], whole, 4).order)


def test_an_offset_of_all_rows_changes_nothing() -> None:
    X = np.random.default_rng(6).integers(0, 30, (300, 3)).astype(np.float64)
    whole = Partition.whole(300)
    np.testing.assert_array_equal(kmember(X, whole, 5).order, kmember(X + 2.0**30, whole, 5).order)


def test_a_part_with_too_few_rows_is_refused_without_a_value() -> None:
    X = np.full((9, 1), 123.456)
    with pytest.raises(GpuanonError, match=r"at least 10 rows.*got 9 rows") as caught:
        kmember(X, Partition.whole(9), 10)
    assert "123" not in str(caught.value)


def test_leftover_rows_join_clusters_and_none_is_lost() -> None:
    X = np.random.default_rng(8).standard_normal((103, 2))
    groups = kmember(X, Partition.whole(103), 5)
    assert groups.parts == 20
    assert sorted(groups.order.tolist()) == list(range(103))
    assert groups.sizes.min() == 5
