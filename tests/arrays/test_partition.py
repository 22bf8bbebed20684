"""Partitions and the reductions over their parts, against loops written from the definitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.arrays import partition, segments
from gpuanon.arrays.partition import (
    Partition,
    ranks_within,
    segment_covariances,
    segment_maxima,
    segment_means,
    segment_minima,
    segment_sums,
    shuffle_within,
    sort_within,
)

labels = hnp.arrays(np.int64, st.integers(1, 60), elements=st.integers(-3, 6))
ALL_ONE, ALL_APART = np.zeros(7, dtype=np.int64), np.arange(7)


def members(p: Partition) -> list[np.ndarray]:
    return [p.order[a:b] for a, b in zip(p.starts, p.starts[1:], strict=False)]


def table(n: int, d: int = 3) -> np.ndarray:
    return np.random.default_rng(n).normal(size=(n, d)) * 10 + 5


@given(labels)
@example(ALL_ONE)
@example(ALL_APART)
def test_rows_with_equal_labels_share_a_part_in_ascending_order(given_labels):
    p = Partition.from_labels(given_labels)
    expected = [np.flatnonzero(given_labels == label) for label in np.unique(given_labels)]
    assert all(np.array_equal(a, b) for a, b in zip(members(p), expected, strict=True))
    assert np.array_equal(p.labels(), np.unique(given_labels, return_inverse=True)[1])
    assert np.array_equal(p.sizes, [len(part) for part in expected])
    assert np.array_equal(p.part_of_sorted(), p.labels()[p.order])


def test_the_whole_table_is_one_part_and_no_rows_are_none():
    whole = Partition.whole(5)
    assert whole.parts == 1
    assert np.array_equal(whole.order, np.arange(5))
    for nothing in (Partition.whole(0), Partition.from_labels(np.empty(0, dtype=np.int64))):
        assert (nothing.n, nothing.parts) == (0, 0)
        assert segment_sums(np.empty((0, 3)), nothing).shape == (0, 3)
        assert segment_means(np.empty((0, 3)), nothing).shape == (0, 3)
        assert segment_covariances(np.empty((0, 3)), nothing).shape == (0, 3, 3)
        assert segment_minima(np.empty((0, 3)), nothing).shape == (0, 3)
        assert sort_within(np.empty(0), nothing).shape == (0,)
    no_columns = Partition.from_labels(np.array([0, 0, 1]))
    assert segment_sums(np.empty((3, 0)), no_columns).shape == (2, 0)
    assert segment_covariances(np.empty((3, 0)), no_columns).shape == (2, 0, 0)


@given(labels, st.sampled_from([np.float32, np.float64]), st.integers(1, 4))
@example(ALL_ONE, np.float64, 1)
def test_reductions_equal_those_of_each_part_alone(given_labels, dtype, d):
    X = table(len(given_labels), d).astype(dtype)
    p = Partition.from_labels(given_labels)
    parts = [X[rows].astype(np.float64) for rows in members(p)]
    exact = {"rtol": 4 * np.finfo(dtype).eps, "atol": 100 * np.finfo(dtype).eps}
    for function, reference in (
        (segment_sums, lambda part: part.sum(axis=0)),
        (segment_means, lambda part: part.mean(axis=0)),
        (segment_minima, lambda part: part.min(axis=0)),
        (segment_maxima, lambda part: part.max(axis=0)),
        (segment_covariances, lambda part: np.cov(part.T, bias=True).reshape(d, d)),
    ):
        found = function(X, p)
        assert found.dtype == dtype
        np.testing.assert_allclose(found, np.stack([reference(part) for part in parts]), **exact)


def test_parts_longer_than_a_run_are_summed_over_runs():
    n = 5000
    X = table(n, 2)
    p = Partition.from_labels(np.minimum(np.random.default_rng(0).geometric(0.5, n), 6))
    assert p.sizes.max() > 2 * segments._RUN > p.sizes.min()
    for at, rows in enumerate(members(p)):
        np.testing.assert_allclose(segment_sums(X, p)[at], X[rows].sum(axis=0), rtol=1e-13)
        np.testing.assert_allclose(segment_covariances(X, p)[at], np.cov(X[rows].T, bias=True), rtol=1e-12)
        assert np.array_equal(segment_minima(X, p)[at], X[rows].min(axis=0))


def test_a_parts_sums_do_not_depend_on_the_other_parts_to_the_bit():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 5))
    p = Partition.from_labels(rng.integers(0, 7, 4000))
    rows = members(p)[3]
    alone = Partition.whole(len(rows))
    for function in (segment_sums, segment_means, segment_covariances):
        assert np.array_equal(function(X, p)[3], function(X[rows], alone)[0])


def test_the_number_of_threads_changes_no_bit(monkeypatch):
    rng = np.random.default_rng(4)
    X = rng.normal(size=(200_000, 3))
    p = Partition.from_labels(rng.integers(0, 40_000, 200_000))
    several = segment_sums(X, p), segment_covariances(X, p)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    for one, other in zip(several, (segment_sums(X, p), segment_covariances(X, p)), strict=True):
        assert np.array_equal(one, other)


def test_single_precision_is_summed_in_double():
    X = np.full((1_000_000, 1), 0.1, dtype=np.float32)
    total = segment_sums(X, Partition.whole(len(X)))
    assert total[0, 0] == np.float32(np.float64(np.float32(0.1)) * 1_000_000)


def test_whole_numbers_and_truth_values_are_summed_exactly():
    p = Partition.from_labels(np.array([0, 1, 0, 1, 1]))
    assert np.array_equal(segment_sums(np.array([True, True, True, False, True]), p), [2, 2])
    large = np.array([2**62, 1, 2**62 - 1, 2, 3])
    assert np.array_equal(segment_sums(large, p), [2**63 - 1, 6])
    assert np.array_equal(segment_means(np.array([1, 2, 2, 3, 5]), p), [1.5, 10 / 3])
    assert np.array_equal(segment_maxima(large, p), [2**62, 3])


def test_a_nan_affects_its_own_part_only():
    X = np.array([[1.0], [np.nan], [3.0], [4.0]])
    p = Partition.from_labels(np.array([0, 0, 1, 1]))
    assert np.isnan(segment_minima(X, p)[0, 0])
    assert segment_minima(X, p)[1, 0] == 3


def test_wide_covariances_of_many_rows_stay_in_memory():
    """n·d² numbers would be 0.6 GB here; the memory beyond the result is that of one run."""
    import tracemalloc

    rng = np.random.default_rng(0)
    X = rng.normal(size=(100_000, 28))
    tracemalloc.start()
    found = segment_covariances(X, Partition.whole(len(X)))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(found[0], np.cov(X.T, bias=True), rtol=1e-10, atol=1e-12)
    assert np.array_equal(found[0], found[0].T)
    assert peak < 60e6


values = st.one_of(
    hnp.arrays(np.float32, 40, elements=st.floats(-2, 2, width=16)),
    hnp.arrays(np.uint64, 40, elements=st.sampled_from([0, 1, 2**63, 2**64 - 1, 2**53, 2**53 + 1])),
    hnp.arrays(np.int64, 40, elements=st.integers(-3, 3)),
)


@given(values, hnp.arrays(np.int64, 40, elements=st.integers(0, 5)))
@example(np.full(40, 2**53 + 1, dtype=np.uint64), np.arange(40) % 3)
def test_sorting_within_parts_is_a_stable_sort_of_each_part(keys, given_labels):
    p = Partition.from_labels(given_labels)
    expected = [rows[np.argsort(keys[rows], kind="stable")] for rows in members(p)]
    assert np.array_equal(sort_within(keys, p), np.concatenate(expected))
    ranks = ranks_within(keys, p)
    for rows, ordered in zip(members(p), expected, strict=True):
        assert np.array_equal(ranks[ordered], np.arange(len(rows)))


@pytest.mark.parametrize("parts", [70_000, 3])
def test_sorting_keeps_parts_apart_when_their_number_exceeds_a_small_type(parts):
    n = 140_000
    rng = np.random.default_rng(1)
    p = Partition.from_labels(np.arange(n) % parts)
    keys = rng.random(n).astype(np.float32)  # too narrow for part numbers, which must not be cast to it
    order = sort_within(keys, p)
    assert np.array_equal(p.labels()[order], p.part_of_sorted())
    inside = np.flatnonzero(np.diff(p.part_of_sorted()) == 0)
    assert (keys[order[inside]] <= keys[order[inside + 1]]).all()


@given(labels)
@example(ALL_ONE)
def test_shuffling_permutes_inside_parts_only(given_labels):
    p = Partition.from_labels(given_labels)
    source = shuffle_within(np.random.default_rng(0).random(p.n), p)
    assert np.array_equal(np.sort(source), np.arange(p.n))
    assert np.array_equal(given_labels[source], given_labels)


def test_shuffling_gives_every_permutation_equally_often():
    n = 24_000
    p = Partition.from_labels(np.repeat(np.arange(n // 3), 3))
    source = shuffle_within(np.random.default_rng(5).random(n), p).reshape(-1, 3) % 3
    counts = np.unique(source @ [9, 3, 1], return_counts=True)[1]
    assert len(counts) == 6
    assert ((counts - n / 18) ** 2 / (n / 18)).sum() < 20.5  # χ² of 5 degrees of freedom, p = 0.001


@pytest.mark.parametrize("shape", [(), (3,)])
def test_spread_gives_each_row_the_line_of_its_part(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the rows are shared among threads."""
    monkeypatch.setattr(partition, "_SPREAD_ROWS", 7)
    rng = np.random.default_rng(0)
    p = Partition.from_labels(rng.integers(0, 9, 100))
    values = rng.standard_normal((p.parts, *shape))
    spread = p.spread(values)
    for part in range(p.parts):
        for row in p.order[p.starts[part] : p.starts[part + 1]]:
            np.testing.assert_array_equal(spread[row], values[part])
