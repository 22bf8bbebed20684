"""Counts with nulls as wildcards, against comparisons of all pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.numerics import compatible
from gpuanon.numerics.compatible import compatible_counts, covering_counts


def compatible_by_pairs(patterns, counts):
    equal = (patterns[:, None] == patterns[None]) | (patterns[:, None] < 0) | (patterns[None] < 0)
    return equal.all(axis=2) @ counts


def covering_by_pairs(patterns, counts):
    return ((patterns[:, None] == patterns[None]) | (patterns[:, None] < 0)).all(axis=2) @ counts


tables = hnp.arrays(np.int64, st.tuples(st.integers(1, 25), st.integers(1, 4)), elements=st.integers(-1, 2))


@given(tables)
@example(np.full((3, 2), -1))
@example(np.array([[-1, -1], [0, 1], [0, -1], [-1, 1], [5, 5]]))
@example(np.array([[7]]))
def test_counts_are_those_of_all_pairs(table):
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    found = compatible_counts(patterns, counts)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, compatible_by_pairs(patterns, counts))
    np.testing.assert_array_equal(covering_counts(patterns, counts), covering_by_pairs(patterns, counts))


@pytest.mark.parametrize("columns", [63, 64, 130])
def test_masks_may_be_wider_than_a_word(columns):
    rng = np.random.default_rng(columns)
    base = rng.integers(0, 3, columns)
    table = np.where(rng.random((60, columns)) < 0.3, -1, base)
    table[::7, rng.integers(0, columns)] = 9
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    found = compatible_counts(patterns, counts)
    assert len(np.unique(found)) > 1
    np.testing.assert_array_equal(found, compatible_by_pairs(patterns, counts))


def test_batches_do_not_change_the_counts(monkeypatch):
    table = np.random.default_rng(3).integers(-1, 4, (400, 5)) * 10**13  # keys of these need more than a word
    table[table < 0] = -1
    patterns, counts = np.unique(table, axis=0, return_counts=True)
    whole = compatible_counts(patterns, counts)
    monkeypatch.setattr(compatible, "_ROWS", 1)
    np.testing.assert_array_equal(compatible_counts(patterns, counts), whole)
    np.testing.assert_array_equal(whole, compatible_by_pairs(patterns, counts))


def test_counts_beyond_32_bits_are_exact():
    patterns, counts = np.array([[-1, 1], [2, -1], [3, 3]]), np.array([2**40, 2**41 + 1, 5])
    np.testing.assert_array_equal(compatible_counts(patterns, counts), [3 * 2**40 + 1, 3 * 2**40 + 1, 5])


def test_the_worked_example_of_the_paper():
    """('AC221', 'M', null) is covered by ('AC221', 'M', 1997), and not the other way round."""
    patterns, counts = np.array([[0, 0, -1], [0, 0, 1997]]), np.array([1, 1])
    np.testing.assert_array_equal(covering_counts(patterns, counts), [2, 1])


def test_no_patterns_and_no_columns():
    assert len(compatible_counts(np.empty((0, 3), np.int64), np.empty(0, np.int64))) == 0
    np.testing.assert_array_equal(compatible_counts(np.empty((1, 0), np.int64), np.array([4])), [4])
