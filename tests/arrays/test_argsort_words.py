"""The order of hashes, with places packed into them: that of a stable argsort, also where upper bits agree."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.sorting import argsort_words

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
