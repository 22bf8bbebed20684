"""Nearest rows against brute force from the definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.errors import ParameterError
from gpuanon.numerics.neighbours import nearest, squared_to
from gpuanon.numerics.sampling import sample_rows, share_error


def _brute(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return ((X[:, None, :] - Y[None, :, :]) ** 2).sum(axis=2)


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(1, 3), st.integers(1, 40), st.integers(1, 6))
@example(0, 1, 1, 1, 1)
@example(7, 3, 1, 40, 5)
def test_k_nearest_of_tables_full_of_ties(seed: int, levels: int, d: int, m: int, k: int) -> None:
    k = min(k, m)
    rng = np.random.default_rng(seed)
    X, Y = (rng.integers(0, levels, size=(rows, d)).astype(float) for rows in (15, m))
    found, D = nearest(X, Y, k), _brute(X, Y)
    np.testing.assert_array_equal(found.squared, np.sort(D, axis=1)[:, :k])
    np.testing.assert_array_equal(np.take_along_axis(D, found.index, 1), found.squared)
    assert all(len(set(row)) == k for row in found.index.tolist())
    np.testing.assert_array_equal(found.ties, (D.min(axis=1, keepdims=True) == D).sum(axis=1))


def test_k_nearest_of_continuous_tables() -> None:
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(300, 28)), rng.normal(size=(1000, 28))
    Y[100:300] = X[:200]
    D = _brute(X, Y)
    found = nearest(X, Y, 6)
    np.testing.assert_array_equal(found.index, np.argsort(D, axis=1, kind="stable")[:, :6])
    np.testing.assert_allclose(found.squared, np.sort(D, axis=1)[:, :6], rtol=1e-12)
    assert (found.squared[:200, 0] == 0).all(), "a copy is at distance 0, not at a rounding error"


def test_a_far_away_table_loses_no_digits() -> None:
    rng = np.random.default_rng(4)
    X = rng.normal(size=(50, 4)) + 1e7
    Y = X + rng.normal(size=(50, 4)) * 1e-3
    np.testing.assert_array_equal(nearest(X, Y, 2).index[:, 0], np.argmin(_brute(X, Y), axis=1))


def test_squared_to_given_rows() -> None:
    rng = np.random.default_rng(5)
    X, Y, index = rng.normal(size=(20, 3)), rng.normal(size=(9, 3)), rng.integers(0, 9, size=(20, 4))
    np.testing.assert_allclose(squared_to(X, Y, index), np.take_along_axis(_brute(X, Y), index, 1))


def test_what_cannot_be_searched_is_refused() -> None:
    with pytest.raises(ParameterError, match="k: from 1"):
        nearest(np.ones((2, 2)), np.ones((3, 2)), 4)
    with pytest.raises(ParameterError, match="same number"):
        nearest(np.ones((2, 2)), np.ones((3, 1)), 1)
    with pytest.raises(ParameterError, match="finite"):
        nearest(np.array([[np.nan]]), np.ones((3, 1)), 1)


def test_a_sample_is_repeatable_and_uniform() -> None:
    rows = sample_rows(1000, 100, "a")
    np.testing.assert_array_equal(rows, sample_rows(1000, 100, "a"))
    assert len(set(rows.tolist())) == 100
    assert (np.diff(rows) > 0).all()
    assert set(rows.tolist()) != set(sample_rows(1000, 100, "b").tolist())
    # The mean of 100 of 1000 row numbers has deviation 27: five of them would be an accident.
    assert abs(rows.mean() - 499.5) < 5 * 27.4
    np.testing.assert_array_equal(sample_rows(5, 9, "a"), np.arange(5))


def test_the_stated_error_of_a_sample_covers_the_true_one() -> None:
    population = np.sort(np.random.default_rng(6).normal(size=4000))
    misses = 0
    for trial in range(400):
        sample = population[sample_rows(4000, 200, f"trial {trial}")]
        gap = np.searchsorted(sample, population, side="right") / 200 - np.arange(1, 4001) / 4000
        misses += np.abs(gap).max() > share_error(200, 4000)
    assert misses <= 0.05 * 400 + 3 * 4.4, "5 % of 400 trials, give or take three deviations"
    assert share_error(4000, 4000) == 0
