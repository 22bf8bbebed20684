"""Profiles of columns: missing-value codes, skewness, bands, counts against pandas."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import skew

from gpuanon.proposing.profiling import missing_codes, ordered_texts, profiles
from gpuanon.tables.table import Table


def profile(values, **options):
    (found,) = profiles(Table.of(pa.table({"x": pa.array(values, **options)})))
    return found


@pytest.mark.parametrize(
    ("values", "codes", "certain"),
    [
        ([0, 10, 20, 30, -8, -8], (-8,), True),
        ([0, 10, 20, 30, -9, -8], (-9, -8), True),
        ([-20, -8, 0, 5], (), True),  # negative amounts
        ([1, 2, 3, 4, 5, *[99] * 9], (99,), True),
        ([20, 60, 88, *[99] * 9], (99,), False),  # an age, perhaps
        ([*range(95, 99), 99], (), True),
        ([0, 1, 2, *[999] * 20], (999,), True),
        ([0, 1, 999], (), True),  # once is no code
    ],
)
def test_missing_value_codes_are_conventional_numbers_far_from_all_others(values, codes, certain):
    known, counts = np.unique(np.array(values, dtype=float), return_counts=True)
    assert missing_codes(known, counts) == (codes, certain)


def test_counts_and_skewness_are_those_of_pandas_and_scipy():
    x = np.random.default_rng(0).lognormal(size=500).round(2)
    x[::50] = np.nan
    found, series = profile(x), pd.Series(x)
    assert (found.nulls, found.distinct) == (series.isna().sum(), series.nunique())
    assert found.alone == (series.value_counts() == 1).sum()
    assert found.skewness == pytest.approx(skew(series.dropna()))


def test_a_code_does_not_count_for_skewness():
    assert abs(profile([*range(20, 80), *[9999] * 30]).skewness) < 0.1


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["0-9", "10-19", "20-29"], (("0-9", "10-19", "20-29"), True)),
        (["5-9", "10-14", "0-4"], (("0-4", "5-9", "10-14"), False)),
        (["low", "high", "mid"], None),
        (["1a", "1b", "2"], None),  # one number twice has no order
    ],
)
def test_bands_are_ordered_by_their_numbers(values, expected):
    found = ordered_texts(Table.of(pa.table({"x": values})), "x", 20)
    assert (None if found is None else (found.levels, found.sorted)) == expected


@pytest.mark.parametrize("values", [[], [None, None], [[1], [2]]])
def test_odd_columns_have_a_profile(values):
    assert profile(values).distinct == 0
