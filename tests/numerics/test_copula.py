"""Sums, correlations and choices of the Gaussian copula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from gpuanon.numerics.copula import ScoreSums, exclusive_sets, normal_factor, winners


def scores(values):
    """Normal scores of mean ranks, column by column."""
    return stats.norm.ppf((stats.rankdata(values, axis=0) - 0.5) / len(values))


@given(st.integers(1, 60), st.integers(1, 5), st.data())
@example(1, 1, None)
def test_sums_can_be_merged(n, c, data):
    Z = np.random.default_rng(n * 7 + c).normal(size=(n, c))
    cut = data.draw(st.integers(0, n)) if data is not None else 0
    first, second = ScoreSums.of(Z[:cut]), ScoreSums.of(Z[cut:])
    found = first.merge(second)
    assert found.rows == n
    np.testing.assert_allclose(found.sums, Z.sum(axis=0), atol=1e-12)
    np.testing.assert_allclose(found.products, Z.T @ Z, atol=1e-12)
    np.testing.assert_allclose(found.latent, first.latent + second.latent)


def test_latent_sums_are_those_of_the_slices_of_the_normal_density():
    """For each tie the mean of the normal variable over its quantiles, by numerical integration."""
    values = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 3.0])[:, None]
    Z = scores(values)
    u = (np.arange(2_000_000) + 0.5) / 2_000_000
    means = stats.norm.ppf(u).reshape(10, -1).mean(axis=1)
    assert ScoreSums.of(Z).latent[0] == pytest.approx(Z[:, 0] @ means, abs=1e-4)  # what the grid leaves of the tails


@pytest.mark.parametrize("rho", [-0.7, 0.0, 0.4, 0.9])
@pytest.mark.parametrize("share", [0.1, 0.5])
def test_ties_do_not_lower_a_correlation(rho, share):
    rng = np.random.default_rng(5)
    n = 40_000
    x = rng.normal(size=n)
    y = rho * x + np.sqrt(1 - rho**2) * rng.normal(size=n)
    two = y > np.quantile(y, 1 - share)
    found = ScoreSums.of(scores(np.stack([x, two], axis=1))).correlations()
    # The biserial correlation has a standard error of at most 1.7 / √n at this share: five of them.
    assert found[0, 1] == pytest.approx(rho, abs=5 * 1.7 / np.sqrt(n))


def test_constant_columns_correlate_with_nothing():
    Z = np.stack([np.zeros(50), np.random.default_rng(0).normal(size=50)], axis=1)
    sums = ScoreSums.of(Z)
    np.testing.assert_array_equal(sums.correlations(), np.eye(2))
    assert sums.deviations[0] == 0 < sums.deviations[1]
    one = ScoreSums.of(Z[:1])
    np.testing.assert_array_equal(one.correlations(), np.eye(2))


def test_the_factor_gives_the_matrix_back_or_the_part_of_it_that_is_possible():
    R = np.array([[1.0, 0.5, 0.2], [0.5, 1.0, -0.3], [0.2, -0.3, 1.0]])
    factor = normal_factor(R)
    np.testing.assert_allclose(factor @ factor.T, R, atol=1e-12)
    impossible = np.array([[1.0, 0.9, -0.9], [0.9, 1.0, 0.9], [-0.9, 0.9, 1.0]])
    repaired = normal_factor(impossible) @ normal_factor(impossible).T
    np.testing.assert_allclose(np.diag(repaired), 1.0)
    assert np.linalg.eigvalsh(repaired).min() > -1e-12
    assert (np.sign(repaired) == np.sign(impossible)).all()


def test_indicators_of_a_category_are_found():
    rng = np.random.default_rng(1)
    first, second = np.eye(3)[rng.integers(0, 3, 90)], np.eye(4)[rng.integers(0, 4, 90)]
    number, binary, constant = rng.normal(size=(90, 1)), (rng.random((90, 1)) < 0.3) * 1.0, np.zeros((90, 1))
    Z = np.hstack([binary, first, number, constant, second[:, :2], constant, second[:, 2:], binary])
    assert exclusive_sets(Z) == [[1, 2, 3], [6, 7, 9, 10]]


@pytest.mark.parametrize("rows", [0, 1])
def test_too_few_rows_have_no_categories(rows):
    assert exclusive_sets(np.eye(3)[:rows]) == []


@pytest.mark.parametrize("counts", [[500, 500], [900, 90, 10], [1, 1, 998], [250, 0, 750]])
def test_each_wins_as_often_as_it_should(counts):
    counts = np.array(counts)
    Y = np.random.default_rng(2).normal(size=(4000, len(counts)))
    won = np.bincount(winners(Y, counts), minlength=len(counts)) / 4000
    # Shifts are found to a few of the 4000 rows.
    np.testing.assert_allclose(won, counts / counts.sum(), atol=0.003)
