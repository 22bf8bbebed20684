"""Sets of numbers by sorting, against NumPy's own."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.masking.claims import all_among, distinct_count, occurs_once

numbers = st.lists(st.integers(0, 12), max_size=30)


@given(numbers, numbers)
@example([], [])
@example([1], [])
@example([], [1])
@example([3], [2])
def test_sets_are_numpys(values: list[int], allowed: list[int]) -> None:
    ascending, others = np.sort(np.array(values, np.int64)), np.sort(np.array(allowed, np.int64))
    assert distinct_count(ascending) == len(np.unique(ascending))
    assert all_among(ascending, others) == bool(np.isin(ascending, others).all())
    assert occurs_once(ascending).tolist() == [values.count(value) == 1 for value in ascending.tolist()]
