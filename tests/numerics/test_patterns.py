"""Distinct combinations and their classes, against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuanon.numerics.patterns import Patterns, classes_at, null_last


def test_combinations_are_those_of_pandas_and_merge():
    codes = np.random.default_rng(4).integers(-1, 3, (500, 3))
    expected = pd.DataFrame(codes).groupby([0, 1, 2]).size()
    whole = Patterns.of(codes)
    merged = Patterns.merged([Patterns.of(codes[:200]), Patterns.of(codes[200:200]), Patterns.of(codes[200:])])
    for found in (whole, merged):
        order = np.lexsort(found.codes.T[::-1])
        np.testing.assert_array_equal(found.codes[order], np.array(list(expected.index)))
        np.testing.assert_array_equal(found.counts[order], expected.to_numpy())
        assert found.records == 500


@pytest.mark.parametrize("widths", [(3, 2), (1, 4), (2**40, 2**40, 2**40, 5), (2**62, 3)])
def test_classes_are_those_of_equal_rows_whatever_the_radix(widths):
    rng = np.random.default_rng(len(widths))
    columns = [rng.integers(0, min(width, 4), 300) * max(1, width // 4) for width in widths]
    labels, numbers = classes_at(columns, widths)
    assert labels.min() >= 0
    assert labels.max() < numbers
    expected = pd.DataFrame(np.stack(columns, axis=1)).groupby(list(range(len(widths)))).ngroup().to_numpy()
    pairs = np.unique(np.stack([labels, expected]), axis=1)
    assert pairs.shape[1] == len(np.unique(labels)) == len(np.unique(expected))


def test_a_null_is_a_value_of_its_own_at_every_depth():
    ancestors = null_last(np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0]]))
    np.testing.assert_array_equal(ancestors[-1], [3, 2, 1])
    np.testing.assert_array_equal(null_last(np.empty((0, 2), np.int64)), [[0, 0]])
