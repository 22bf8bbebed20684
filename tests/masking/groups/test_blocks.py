"""Balanced median cuts."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.errors import GpuanonError
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import Metric
from tests.support.groups import random_partition
from tests.support.naive_groups import members


@given(st.integers(0, 10**6), st.integers(1, 300), st.integers(1, 40), st.integers(1, 5))
@example(seed=0, n=1, size=1, multiple=1)
@example(seed=0, n=100, size=10, multiple=5)
def test_blocks_are_balanced_and_hold_every_row_once(seed: int, n: int, size: int, multiple: int) -> None:
    size = max(size, multiple)
    X = np.random.default_rng(seed).integers(0, 6, (n, 2)).astype(np.float64)
    parts = blocks(X, Partition.whole(n), size, multiple=multiple)
    assert sorted(parts.order.tolist()) == list(range(n))
    assert parts.sizes.max() <= size
    assert (parts.sizes % multiple != 0).sum() <= 1
    assert parts.sizes.max() - parts.sizes.min() <= 2 * multiple - (multiple == 1)
    assert parts.parts == math.ceil(math.ceil(n / multiple) / (size // multiple))
    assert all(rows == sorted(rows) for rows in members(parts))


def test_one_column_is_cut_at_its_quantiles_and_equal_values_by_row() -> None:
    values = np.random.default_rng(1).integers(0, 5, 64).astype(np.float64)
    parts = blocks(values[:, None], Partition.whole(64), 8)
    by_value = np.argsort(values, kind="stable").reshape(8, 8)
    assert members(parts) == [sorted(rows) for rows in by_value.tolist()]


def test_the_widest_column_is_cut_first() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((400, 3)) * [1.0, 5.0, 2.0]
    lower, upper = members(blocks(X, Partition.whole(400), 200))
    assert X[lower, 1].max() <= X[upper, 1].min()
    lower, upper = members(blocks(X, Partition.whole(400), 200, Metric(weights=(1.0, 0.01, 1.0))))
    assert X[lower, 2].max() <= X[upper, 2].min()


def test_batches_and_threads_do_not_change_the_cuts_of_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    X, within = rng.standard_normal((5000, 3)), random_partition(rng, 5000, 30, 2)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    one = blocks(X, within, 20)
    monkeypatch.setenv("GPUANON_THREADS", "3")
    for elements in (1, 700):
        other = blocks(X, within, 20, batch_elements=elements)
        np.testing.assert_array_equal(one.order, other.order)
        np.testing.assert_array_equal(one.starts, other.starts)
    labels = within.labels()
    assert all(len(set(labels[rows])) == 1 for rows in members(one))
    for part in (0, 17):
        rows = np.flatnonzero(labels == part)
        alone = blocks(X[rows], Partition.whole(len(rows)), 20)
        assert [rows[block].tolist() for block in members(alone)] == [
            block for block in members(one) if labels[block[0]] == part
        ]


def test_the_given_partition_is_not_modified() -> None:
    within = Partition.whole(50)
    blocks(np.random.default_rng(4).standard_normal((50, 2)), within, 7)
    np.testing.assert_array_equal(within.order, np.arange(50))


def test_a_block_smaller_than_the_multiple_is_refused() -> None:
    with pytest.raises(GpuanonError, match="size: at least 5 is allowed, got 4"):
        blocks(np.zeros((20, 1)), Partition.whole(20), 4, multiple=5)
