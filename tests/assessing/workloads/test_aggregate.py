"""Errors of predicted means, and the factor between two markets' costs."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from gpuanon.assessing.workloads import (
    aggregate_error,
    assess_market,
    cost_factor,
    predict_market,
    relative_bias,
    simulate_market,
)
from gpuanon.errors import ParameterError


@pytest.fixture(scope="module")
def errors():
    rng = np.random.default_rng(11)
    actual = rng.gamma(0.5, 2000, 3000)
    return 0.9 * actual + rng.normal(0, 300, 3000) + 20, actual, rng.integers(1, 5, 3000).astype(float)


def test_by_hand():
    found = aggregate_error([3.0, 1.0], [1.0, 1.0])
    assert (found.bias, found.people) == (100.0, 2.0)
    assert found.deviation == pytest.approx(100 / np.sqrt(2))
    assert found.bias_rules_from == pytest.approx(1.0)
    assert aggregate_error([2.0, 0.0], [1.0, 1.0]).bias_rules_from is None


def test_means_of_drawn_groups_have_the_error_that_is_foretold(errors):
    """10 000 groups of 50, drawn by the weights: mean and variance of their errors within 5 standard errors."""
    predicted, actual, weights = errors
    found = aggregate_error(predicted, actual, weights, people=50)
    rows = np.random.default_rng(12).choice(3000, (10_000, 50), p=weights / weights.sum())
    drawn = 100 * (predicted - actual)[rows].mean(axis=1) / np.average(actual, weights=weights)
    assert abs(drawn.mean() - found.bias) < 5 * found.deviation / 100
    assert drawn.var() == pytest.approx(found.deviation**2, rel=5 * np.sqrt(2 / 10_000) * 1.5)


def test_weights_count_people(errors):
    predicted, actual, weights = errors
    many = np.repeat(np.arange(3000), weights.astype(int))
    weighted = aggregate_error(predicted, actual, weights, people=70)
    repeated = aggregate_error(predicted[many], actual[many], people=70)
    np.testing.assert_allclose([weighted.bias, weighted.deviation], [repeated.bias, repeated.deviation], rtol=1e-10)
    assert weighted.bias == pytest.approx(relative_bias(predicted, actual, weights))
    assert aggregate_error(predicted, actual).people == pytest.approx(3000)
    assert aggregate_error(predicted, actual, weights).people < 3000


def test_the_factor_is_statsmodels_regression_through_the_origin(errors):
    """Weighted by w / ŷ, with the robust (HC0) standard error."""
    predicted, actual, weights = (column[errors[0] > 0] for column in errors)
    found = cost_factor(predicted, actual, weights)
    known = sm.WLS(actual, predicted, weights=weights / predicted).fit(cov_type="HC0")
    np.testing.assert_allclose([found.value, found.error], [known.params[0], known.bse[0]], rtol=1e-10)


def test_a_factor_mends_a_market_that_costs_more():
    rng = np.random.default_rng(13)
    x, train = rng.integers(0, 3, (4000, 2)), np.arange(4000) < 2000
    cost = (1 + x[:, 0]) * rng.gamma(2, 500, 4000) * np.where(train, 1.0, 1.2)
    market = simulate_market(x, cost, train, tilt=np.ones(4000), enrolment=np.ones(4000), levels=(3, 3))
    predicted = predict_market(market)
    assert relative_bias(predicted, market.new_cost) == pytest.approx(assess_market(market).bias)
    sample = rng.permutation(2000)[:500]
    factor = cost_factor(predicted[sample], market.new_cost[sample])
    assert abs(factor.value - 1.2) < 5 * factor.error
    assert aggregate_error(predicted, market.new_cost).bias < -10
    assert abs(aggregate_error(factor.value * predicted, market.new_cost).bias) < 500 * factor.error / 1.2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: aggregate_error([1.0], [1.0, 2.0]), "predicted"),
        (lambda: aggregate_error([1.0], [0.0]), "actual"),
        (lambda: aggregate_error([1.0], [1.0], people=0), "people"),
        (lambda: cost_factor([1.0], [1.0, 2.0]), "predicted"),
        (lambda: cost_factor([0.0], [1.0]), "predicted"),
    ],
)
def test_bad_input_is_refused(call, said):
    with pytest.raises(ParameterError, match=said):
        call()
