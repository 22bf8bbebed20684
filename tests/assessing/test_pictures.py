"""Pictures for a report: nothing in them stands for fewer than so many people."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.assessing.bins import coarse_bins, date_cuts, distinct_per_bin, number_cuts
from gpuanon.assessing.column_pictures import MISSING, OTHER, Bars, Correlations, Histogram, Quantiles, pictures
from gpuanon.assessing.comparison import Comparison
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table


def shown(least=5, release=None, roles=None, **columns):
    """The pictures of a table."""
    original = Table.of(pa.table(columns))
    specs = {name: {"role": (roles or {}).get(name, "quasi")} for name in columns}
    recipe = Recipe.load({"columns": specs, "mask": [{"method": "noise", "b": 0.1}]})
    schema = Schema.resolve(original, recipe.columns)
    released = original.drop(schema.identifiers) if release is None else Table.of(pa.table(release))
    return pictures(Comparison(original, released, schema), least)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=120),
    st.integers(1, 12),
    st.integers(1, 4),
)
@example([0.0] * 50, 5, 1)
@example([1.0, 2.0], 3, 1)
def test_every_bin_holds_enough_people(values, least, records):
    values = np.array(values)
    units = np.arange(len(values)) // records
    cuts = coarse_bins(values, number_cuts(values.min(), values.max(), whole=False)[0], units, least)
    people = distinct_per_bin(np.searchsorted(cuts, values, side="right"), len(cuts) + 1, units)
    assert len(cuts) == 0 or people.min() >= least


@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (17.3, 92.8), (-4e-3, 5e-3), (1e5, 3.7e7)])
def test_cuts_are_round_numbers(low, high):
    cuts, grain = number_cuts(low, high, whole=False)
    step = 10 * grain
    assert 10 <= len(cuts) <= 26
    np.testing.assert_allclose(cuts / step, np.round(cuts / step), atol=1e-6)
    assert f"{step:e}"[0] in "125"


def test_cuts_of_dates_are_first_days():
    low, high = (np.datetime64(day, "D").astype(float) for day in ("2001-03-14", "2019-09-20"))
    days = date_cuts(low, high)[0].astype("datetime64[D]").astype(str)
    assert list(days[:2]) == ["2002-01-01", "2003-01-01"]


def test_neither_minimum_nor_maximum_bounds_a_histogram():
    values = np.r_[np.linspace(20, 60, 500), 1e9, -1e9]
    histogram, quantiles = shown(x=values).columns["x"]
    assert isinstance(histogram, Histogram)
    assert isinstance(quantiles, Quantiles)
    assert 20 <= histogram.cuts[0] < histogram.cuts[-1] <= 60
    assert max(*quantiles.before, *quantiles.after) < 61


def test_a_rare_level_and_what_is_left_with_it_are_merged():
    levels = ["a"] * 60 + ["b"] * 30 + ["c"] * 7 + ["secret"] * 2
    (bars,) = shown(x=levels).columns["x"]
    assert isinstance(bars, Bars)
    assert bars.labels == ("a", "b", OTHER)  # c is merged too: two records alone would be told apart
    assert bars.before[-1] == pytest.approx(9 / 99, abs=1e-3)


def test_a_rare_level_stays_hidden_when_the_release_repeats_it():
    original = ["a"] * 60 + ["b"] * 30 + ["secret"]
    (bars,) = shown(x=original, release={"x": ["a"] * 40 + ["secret"] * 51}).columns["x"]
    assert "secret" not in bars.labels


def test_levels_count_persons_where_a_column_names_them():
    people = [f"p{number}" for number in range(40)] + ["one"] * 20
    found = shown(roles={"who": "person"}, who=people, x=["a"] * 30 + ["b"] * 10 + ["rare"] * 20)
    assert found.unit == "person"
    assert found.columns["x"][0].labels == ("a", OTHER)


def test_a_few_missing_values_are_not_counted():
    values = np.linspace(0, 1, 200)
    few, many = values.copy(), values.copy()
    few[:2], many[:20] = np.nan, np.nan
    assert shown(x=few).columns["x"][0].missing is None
    assert shown(x=many).columns["x"][0].missing == (0.1, 0.1)
    levels = ["a"] * 50 + [None] * 20
    assert MISSING in shown(x=levels).columns["x"][0].labels


def test_shares_are_those_of_a_histogram():
    values = np.random.default_rng(0).normal(size=5000)
    histogram = shown(x=values).columns["x"][0]
    edges = np.r_[-np.inf, histogram.cuts, np.inf]
    np.testing.assert_allclose(histogram.before, np.histogram(values, edges)[0] / 5000, atol=5e-4)


def test_correlations_are_those_of_numpy():
    x = np.random.default_rng(0).normal(size=(300, 2)) @ [[1, 0.5], [0, 1]]
    (found,) = [one for one in shown(x=x[:, 0], y=x[:, 1]).pairs if isinstance(one, Correlations)]
    assert found.before[0][1] == round(float(np.corrcoef(x.T)[0, 1]), 2)


def test_a_column_with_too_few_records_has_no_picture():
    found = shown(x=np.arange(8.0), y=list("abcdefgh"))
    assert not found.columns
    assert set(found.omitted) == {"x", "y"}
