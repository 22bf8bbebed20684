"""The tree that assigns rows to cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.engine.store.placement import grow, unite
from gpuanon.errors import ParameterError


@pytest.mark.parametrize("cells", [1, 2, 3, 7, 16])
def test_cells_of_the_sample_are_nearly_equal(cells):
    sample = np.random.default_rng(cells).normal(size=(1000, 3))
    counts = np.bincount(grow(sample, cells).assign(sample), minlength=cells)
    assert len(counts) == cells
    assert counts.sum() == 1000
    assert counts.min() >= 1000 // cells - cells
    assert counts.max() <= 1000 // cells + cells


def test_assignment_follows_the_cuts_one_row_at_a_time():
    rng = np.random.default_rng(1)
    tree = grow(rng.normal(size=(300, 4)), 9)
    X = rng.normal(size=(50, 4))

    def walk(row):
        place = 0
        while place >= 0:
            place = (tree.left if row[tree.axis[place]] <= tree.value[place] else tree.right)[place]
        return -1 - place

    assert tree.assign(X).tolist() == [walk(row) for row in X]


def test_equal_rows_share_a_cell_and_a_constant_sample_is_handled():
    sample = np.zeros((40, 2))
    assert len(np.unique(grow(sample, 8).assign(sample))) == 1


def test_more_cells_than_sampled_rows_are_refused():
    with pytest.raises(ParameterError, match="1 to 3"):
        grow(np.zeros((3, 1)), 4)


@given(st.lists(st.integers(0, 20), min_size=1, max_size=30), st.integers(1, 20))
@example([0, 0, 5], 5)
@example([9, 1, 1], 4)
@example([1, 1, 1], 3)
def test_merged_cells_are_consecutive_and_have_enough_rows(counts, least):
    numbers = unite(np.array(counts), least)
    assert numbers[0] == 0
    assert set(np.diff(numbers)) <= {0, 1}
    united = np.bincount(numbers, weights=counts)
    if sum(counts) >= least:
        assert united.min() >= least
    else:
        assert len(united) == 1
