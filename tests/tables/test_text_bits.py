"""Text as numbers: equal for equal text, different for different text, whatever the layout."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.tables.row_bits import text_bits

TEXTS = st.lists(st.text(max_size=90), max_size=30)


@given(TEXTS)
@example(["", "a", "aa", "ab", "ba", "a\0", "\0a", "\0", "x" * 70, "x" * 69 + "y"])
def test_bits_are_equal_where_texts_are_equal(texts):
    bits = [tuple(line) for line in text_bits(pa.array(texts, pa.string())).tolist()]
    assert len(set(bits)) == len(set(texts))
    assert all((bits[i] == bits[j]) == (a == b) for i, a in enumerate(texts) for j, b in enumerate(texts))


@given(TEXTS, st.integers(0, 5))
def test_a_text_has_the_same_bits_alone_in_a_slice_and_beside_long_ones(texts, start):
    long = pa.array([*texts, "z" * 200])
    whole = text_bits(pa.array(texts, pa.string()))
    assert np.array_equal(text_bits(long)[:-1], whole)
    assert np.array_equal(text_bits(pa.array(texts, pa.string()).slice(start)), whole[start:])


@pytest.mark.parametrize("type_", [pa.string(), pa.large_string()])
def test_a_null_has_the_bits_of_an_empty_text(type_):
    bits = text_bits(pa.array([None, "", "a"], type_))
    assert np.array_equal(bits[0], bits[1])
    assert not np.array_equal(bits[1], bits[2])
