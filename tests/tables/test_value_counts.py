"""Counts of values: exact below the limit, and the same however the values are divided."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.tables import summaries as module
from gpuanon.tables.summaries import ValueCounts

finite = st.floats(allow_nan=False, allow_infinity=False, width=64)
vectors = hnp.arrays(np.float64, st.integers(0, 80), elements=finite)


def same(a: ValueCounts, b: ValueCounts) -> bool:
    return a.cut == b.cut and np.array_equal(a.keys, b.keys) and np.array_equal(a.counts, b.counts)


@given(vectors)
@example(np.array([0.0, -0.0, -1.5, 5e-324, -5e-324, 1e308, 1e308]))
def test_few_values_are_counted_exactly_and_in_order(values: np.ndarray) -> None:
    counts = ValueCounts.of(values)
    expected = Counter(values.tolist())
    assert counts.cut == 0
    assert dict(zip(counts.values.tolist(), counts.counts.tolist(), strict=True)) == expected
    assert counts.values.tolist() == sorted(expected)


@given(vectors, st.integers(0, 80), st.integers(0, 80), st.integers(1, 12))
@example(np.linspace(-1, 1, 80), 30, 50, 4)
@example(1.7e9 + np.arange(80.0), 10, 20, 8)
def test_partitioning_changes_nothing_beyond_the_limit(values: np.ndarray, a: int, b: int, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "LIMIT", limit)
        whole = ValueCounts.of(values)
        a, b = sorted((a, b))
        parts = [ValueCounts.of(part) for part in (values[:a], values[a:b], values[b:])]
        assert same(parts[0].merge(parts[1]).merge(parts[2]), whole)
        assert same(parts[2].merge(parts[0].merge(parts[1])), whole)
        assert len(whole.counts) <= limit
        assert whole.counts.sum() == len(values)
        if whole.cut:  # one bit less would not have been enough
            assert len(np.unique(module._cut(module._to_keys(values), whole.cut - 1))) > limit


def test_bins_are_narrow_where_values_are_many() -> None:
    values = np.random.default_rng(0).normal(100, 5, 300_000)
    counts = ValueCounts.of(values)
    assert counts.cut > 0
    assert len(counts.counts) > module.LIMIT // 4
    at = np.searchsorted(counts.values, values, side="right") - 1
    assert (counts.values[at] <= values).all()
    assert (values - counts.values[at]).max() < 1e-2
