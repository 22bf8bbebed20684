"""The order of hashes, with places packed into them, and of labels: that of a stable argsort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.sorting import argsort_labels, argsort_words, distinct

_WORD = st.one_of(st.integers(0, 2**64 - 1), st.integers(0, 7), st.integers(2**63, 2**63 + 7))


@given(st.lists(_WORD, max_size=40))
@example([])
@example([5])
@example([2**63 + 1, 2**63, 2**63 + 1])  # the same upper bits, and different words
def test_it_is_a_stable_argsort(words: list[int]) -> None:
    keys = np.array(words, dtype=np.uint64)
    np.testing.assert_array_equal(argsort_words(keys), np.argsort(keys, kind="stable"))


@pytest.mark.parametrize("repeated", [1, 5])
def test_many_random_words(repeated: int) -> None:
    rng = np.random.default_rng(repeated)
    keys = rng.permutation(np.repeat(rng.integers(0, 2**63, 50_000, dtype=np.uint64) * 2, repeated))
    np.testing.assert_array_equal(argsort_words(keys), np.argsort(keys, kind="stable"))


@given(
    st.lists(st.one_of(st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.integers(0, 2**33)), max_size=40),
    st.sampled_from([np.int64, np.uint64, np.int32, np.uint16, np.int8, np.bool_]),
)
@example([], np.int64)
@example([2, 2, 3], np.int64)
@example([127, -128, 0], np.int8)
@example([2**32, 0, 2**32 - 1, 2**16, 2**16 - 1], np.int64)
def test_labels_are_sorted_stably(labels: list[int], dtype: type) -> None:
    numbers = np.array(labels, dtype=np.int64).astype(dtype)
    np.testing.assert_array_equal(argsort_labels(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("labels", [300, 70_000])
def test_many_labels(labels: int) -> None:
    numbers = np.random.default_rng(labels).integers(0, labels, 200_000) - 17
    np.testing.assert_array_equal(argsort_labels(numbers), np.argsort(numbers, kind="stable"))


@pytest.mark.parametrize("values", [[], [3], [2, 2, 2], [5, -1, 5, 0, -1, 7]])
def test_distinct_values_are_those_of_numpy(values):
    array = np.array(values, dtype=np.int64)
    np.testing.assert_array_equal(distinct(array), np.unique(array))
    assert array.tolist() == values
