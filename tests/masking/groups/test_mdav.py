"""MDAV equals its rule, and the published figures."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.errors import GpuanonError
from gpuanon.masking.groups.mdav import mdav
from gpuanon.numerics.metric import Metric
from tests.support import naive_groups as naive
from tests.support.groups import census, information_loss, random_partition


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 3))
@example(seed=0, k=2, parts=1)
@example(seed=1, k=5, parts=3)
def test_equals_the_rule_on_random_rows(seed: int, k: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    n = parts * k + int(rng.integers(0, 40))
    X, within = rng.standard_normal((n, 3)), random_partition(rng, n, parts, k)
    want = [group for part in naive.members(within) for group in naive.mdav(X, part, k)]
    assert naive.as_set(naive.members(mdav(X, within, k))) == naive.as_set(want)


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 3))
@example(seed=3, k=2, parts=2)
def test_equals_the_rule_on_tied_rows(seed: int, k: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    n = parts * k + int(rng.integers(0, 40))
    X, within = rng.integers(-2, 3, (n, 2)), random_partition(rng, n, parts, k)
    want = [group for part in naive.members(within) for group in naive.mdav(X, part, k)]
    assert naive.as_set(naive.members(mdav(X.astype(np.float64), within, k))) == naive.as_set(want)


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(0, 60))
@example(seed=0, k=4, more=0)
def test_every_group_has_k_to_2k_less_one_rows_and_every_row_one_group(seed: int, k: int, more: int) -> None:
    X = np.random.default_rng(seed).integers(0, 4, (k + more, 2)).astype(np.float64)
    groups = mdav(X, Partition.whole(k + more), k)
    assert groups.sizes.min() >= k
    assert groups.sizes.max() <= 2 * k - 1
    assert sorted(groups.order.tolist()) == list(range(k + more))


def test_under_gower_equal_categories_share_groups() -> None:
    # Two categories, four apart in no column: each group of four has one category.
    X = np.column_stack([np.tile([0.0, 1.0], 8), np.linspace(0, 0.1, 16)])
    groups = mdav(X, Partition.whole(16), 4, Metric("gower", categorical=(True, False)))
    assert all(len(set(X[rows, 0])) == 1 for rows in naive.members(groups))


def test_under_gower_the_mean_has_the_mode_of_a_category() -> None:
    # Mode 2 (five rows) and mean 0 of the numbers: row 0 (category 7, number 0.5) is furthest from it.
    codes = np.array([7, 2, 2, 2, 2, 2, 7, 9.0])
    numbers = np.array([0.5, 0, 0, 0, 0, 0, 0, -0.5])
    groups = mdav(np.column_stack([codes, numbers]), Partition.whole(8), 2, Metric("gower", categorical=(True, False)))
    assert [0, 6] in naive.members(groups)


def test_too_few_rows_are_refused() -> None:
    within = Partition.from_labels(np.array([0, 0, 0, 1, 1]))
    with pytest.raises(GpuanonError, match="a part of 2 rows"):
        mdav(np.zeros((5, 1)), within, 3)


@pytest.mark.data
@pytest.mark.parametrize(("k", "published"), [(3, 5.692186), (4, 7.494700), (5, 9.088435), (10, 14.155930)])
def test_census_has_the_published_information_loss(data_folder: Path, k: int, published: float) -> None:
    X = census(data_folder)
    assert information_loss(X, mdav(X, Partition.whole(len(X)), k)) == pytest.approx(published, abs=5e-7)
