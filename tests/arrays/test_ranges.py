"""Ranges and batches of equal sizes cover every item once."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.ranges import ranges, row_ranges, same_size_batches


@given(st.integers(0, 50), st.integers(1, 60))
@example(0, 1)
@example(6, 3)
def test_ranges_cover_every_item_once_in_order(count, step):
    found = ranges(count, step)
    assert [item for part in found for item in range(count)[part]] == list(range(count))
    assert all(part.stop - part.start == step for part in found[:-1])


def test_host_rows_are_divided():
    assert row_ranges(np.zeros((5, 2)), 2) == [slice(0, 2), slice(2, 4), slice(4, 5)]
    assert row_ranges(np.zeros((0, 2)), 2) == []


@given(st.lists(st.integers(1, 4), max_size=30))
@example([])
@example([2, 1, 2, 2, 1])
def test_batches_of_one_size_hold_every_part_once(sizes):
    sizes = np.array(sizes, dtype=np.int64)
    found = same_size_batches(sizes, lambda size: max(1, 6 // size))
    assert sorted(part for batch in found for part in batch) == list(range(len(sizes)))
    for batch in found:
        assert len(set(sizes[batch])) == 1
        assert len(batch) * sizes[batch[0]] <= 6
