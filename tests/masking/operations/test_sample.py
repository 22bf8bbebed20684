"""Rows from a Gaussian copula."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.bases.normal_scores import NormalScores
from gpuanon.masking.given import Records
from gpuanon.masking.operations.sample import Sample
from gpuanon.masking.outcomes import Changed
from gpuanon.numerics.copula import ScoreSums
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

KEY = Key(b"a key for the tests of sampling")


def sampled(X, records=None):
    """The new rows for the matrix X, in its own units."""
    whole = Partition.whole(len(X))
    T, back = NormalScores().forward(X, whole)
    draws = KEY.draws(np.arange(len(X)) if records is None else records)
    learned = Sample().learn(T, whole, Records(draws))
    outcome = Sample().apply(T, whole, Records(draws, learned=learned))
    assert isinstance(outcome, Changed)
    return back(outcome.values)


def mixed_table(n=8000):
    """Numbers, one of them mostly zero, and categories that depend on them."""
    rng = np.random.default_rng(1)
    latent = rng.normal(size=(n, 3)) @ np.array([[1, 0.6, 0.3], [0, 0.8, -0.5], [0, 0, 0.8]])
    education = latent[:, 0] + rng.normal(size=n)
    return pd.DataFrame(
        {
            "age": np.round(45 + 15 * latent[:, 0]),
            "cost": np.exp(latent[:, 1]),
            "gain": np.where(latent[:, 2] > 1, np.exp(latent[:, 2]), 0.0),
            "education": np.array(list("bdcafe"))[np.digitize(education, [-1.5, -0.3, 0.4, 1.2, 2.4])],
            "sex": np.where(latent[:, 1] + rng.normal(size=n) > 0.3, "m", "f"),
            "area": rng.choice(["x", "y", "z"], n, p=[0.7, 0.25, 0.05]),
        }
    )


@pytest.fixture(scope="module")
def tables():
    """A mixed table and its synthetic twin."""
    original = mixed_table()
    table = Table.of(original)
    schema = Schema.resolve(table, {name: {"role": "quasi"} for name in original})
    encoding = Encoding.fit(table, schema, "all", categories="indicator")
    return original, table.replace(encoding.decode(sampled(encoding.encode(table)), table)).to_native()


def test_category_shares_are_kept(tables):
    """Of more than two levels by construction; of two up to the draw: five standard errors of a share."""
    for name in ("education", "sex", "area"):
        before, after = (table[name].value_counts(normalize=True).sort_index() for table in tables)
        np.testing.assert_allclose(after, before, atol=5 * 0.5 / np.sqrt(len(tables[0])))


def test_correlations_of_numbers_are_kept(tables):
    """A rank correlation of 8000 rows has a standard error of about 0.011; setting eigenvalues to 0 adds to it."""
    numbers = ["age", "cost", "gain"]
    before, after = (table[numbers].corr("spearman").to_numpy() for table in tables)
    np.testing.assert_allclose(after, before, atol=0.04)


def test_categories_keep_their_link_to_numbers(tables):
    """Means by category: the correlation of them over the categories, and two levels up to sampling error."""
    before, after = (table.groupby("education")["age"].mean() for table in tables)
    assert np.corrcoef(before, after)[0, 1] > 0.99
    before, after = (table.groupby("sex")["age"].mean() for table in tables)
    np.testing.assert_allclose(after, before, atol=5 * 15 / np.sqrt(3000))  # deviation 15, at least 3000 of each


def test_marginals_are_those_of_the_columns(tables):
    original, synthetic = tables
    for name in ("age", "cost", "gain"):
        tiny = 1e-9  # what standardising and back may round
        assert synthetic[name].between(original[name].min() - tiny, original[name].max() + tiny).all()
        quantiles = np.linspace(0.1, 0.9, 9)
        shares = [(synthetic[name] <= original[name].quantile(q) + tiny).mean() for q in quantiles]
        expected = [(original[name] <= original[name].quantile(q)).mean() for q in quantiles]
        np.testing.assert_allclose(shares, expected, atol=5 * 0.5 / np.sqrt(len(original)))


def test_new_rows_are_not_the_old_ones(tables):
    original, synthetic = tables
    both = original.merge(synthetic, on=["age", "cost", "education", "sex", "area"])
    assert len(both) == 0


@given(st.integers(1, 30), st.integers(1, 4), st.integers(0, 3))
@example(1, 1, 0)
@example(2, 3, 1)
def test_values_stay_in_the_range_of_their_column(n, c, ties):
    rng = np.random.default_rng(n + 31 * c + ties)
    X = np.round(rng.normal(size=(n, c)), ties)
    X[:, 0] = 2.5
    Y = sampled(X)
    assert Y.shape == X.shape
    assert np.isfinite(Y).all()
    assert (X.min(axis=0) <= Y).all()
    assert (X.max(axis=0) >= Y).all()
    assert (Y[:, 0] == 2.5).all()


def test_draws_follow_the_record_number():
    X = np.random.default_rng(3).normal(size=(40, 2))
    np.testing.assert_array_equal(sampled(X), sampled(X))
    assert (sampled(X) != sampled(X, np.arange(40) + 40)).any()


def test_what_the_engine_asks():
    operation = Sample()
    assert (operation.sees, operation.rows, operation.learns) == ("points", "new", True)
    assert operation.claims(5, [("a",)]) == ()
    assert operation.reading("numeric") == "same"
    T, whole, draws = np.zeros((3, 2)), Partition.whole(3), KEY.draws(np.arange(3))
    learned = operation.learn(T, whole, Records(draws))
    assert isinstance(learned, ScoreSums)
    outcome = operation.apply(T, whole, Records(draws, learned=learned))
    np.testing.assert_array_equal(outcome.rows, [0, 1, 2])
    assert outcome.added == 3


def test_summaries_of_cells_serve_every_cell():
    """Rows of a cell are drawn with the correlation of all of them, even where the cell has none."""
    rng = np.random.default_rng(0)
    T = rng.normal(size=(6000, 2))
    T[:3000, 1] = T[:3000, 0]
    whole, operation = Partition.whole(3000), Sample()
    records = Records(KEY.draws(np.arange(3000)))
    learned = operation.learn(T[:3000], whole, records).merge(operation.learn(T[3000:], whole, records))
    drawn = operation.apply(T[3000:], whole, Records(records.draws, learned=learned)).values
    assert np.corrcoef(drawn.T)[0, 1] == pytest.approx(0.5, abs=5 * 0.75 / np.sqrt(3000))


def test_groups_are_refused():
    groups = Partition.from_labels(np.array([0, 1]))
    with pytest.raises(ParameterError, match="one group of all rows is allowed, got 2"):
        Sample().learn(np.zeros((2, 1)), groups, Records(KEY.draws(np.arange(2))))


def test_no_rows_stay_no_rows():
    empty, records = np.empty((0, 2)), Records(KEY.draws(np.arange(0)))
    learned = Sample().learn(empty, Partition.whole(0), records)
    outcome = Sample().apply(empty, Partition.whole(0), Records(records.draws, learned=learned))
    assert outcome.values.shape == (0, 2)
    assert outcome.added == 0
