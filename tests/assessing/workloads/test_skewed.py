"""Cost regressions against statsmodels and closed forms, and the bias of subgroups."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm

from gpuanon.assessing.workloads import assess_market, assess_subgroups, fit_cost, simulate_market, subgroup_bias
from gpuanon.assessing.workloads.regression import design
from gpuanon.errors import ParameterError


@pytest.fixture
def costs():
    """Two columns of levels, a cost with zeros and a long tail, and weights of which some are 0."""
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.integers(0, 3, 2000), rng.integers(0, 4, 2000)])
    spent = np.exp(5 + 0.4 * x[:, 0] - 0.2 * x[:, 1] + rng.normal(size=2000))
    y = np.where(rng.random(2000) < 0.2 + 0.1 * x[:, 0], 0.0, spent)
    return x, y, rng.integers(0, 4, 2000).astype(float)


def test_gamma_and_multiplicative_are_those_of_statsmodels(costs):
    x, y, w = costs
    log = sm.families.links.Log()
    terms = design(x, "dummy")
    above = (y > 0) & (w > 0)
    chance = sm.GLM(y > 0, terms, family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12)
    size = sm.GLM(y[above], terms[above], family=sm.families.Gamma(log), freq_weights=w[above]).fit(tol=1e-12)
    expected = chance.predict(terms) * size.predict(terms)
    np.testing.assert_allclose(fit_cost(x, y, w, model="gamma", coding="dummy").predict(x), expected, rtol=1e-5)
    poisson = sm.GLM(y, terms, family=sm.families.Poisson(), freq_weights=w).fit(tol=1e-12)
    found = fit_cost(x, y, w, model="multiplicative", coding="dummy").predict(x)
    np.testing.assert_allclose(found, poisson.predict(terms), rtol=1e-5)


def test_log_models_are_statsmodels_regressions_with_duans_factor(costs):
    x, y, w = costs
    terms = design(x, "numeric")

    def smeared(rows, z):
        fit = sm.WLS(np.log(z), terms[rows], weights=w[rows]).fit()
        return np.average(np.exp(fit.resid), weights=w[rows]) * np.exp(fit.predict(terms))

    everybody, above = np.ones(len(y), dtype=bool), y > 0
    expected = smeared(everybody, y + 1) - 1
    np.testing.assert_allclose(fit_cost(x, y, w, model="log").predict(x), expected, rtol=1e-9)
    chance = sm.GLM(above, terms, family=sm.families.Binomial(), freq_weights=w).fit(tol=1e-12).predict(terms)
    found = fit_cost(x, y, w, model="two-part").predict(x)
    np.testing.assert_allclose(found, chance * smeared(above, y[above]), rtol=1e-5)


@pytest.mark.parametrize("model", ["linear", "gamma", "multiplicative"])
def test_of_one_column_in_dummies_the_predictions_are_the_means_of_its_levels(costs, model):
    x, y, w = costs
    found = fit_cost(x[:, :1], y, w, model=model, coding="dummy").predict(np.arange(3)[:, None])
    means = [np.average(y[x[:, 0] == level], weights=w[x[:, 0] == level]) for level in range(3)]
    np.testing.assert_allclose(found, means, rtol=1e-5)


def test_extremes_and_bad_input(costs):
    x, y, w = costs
    for model in ("two-part", "gamma", "multiplicative"):
        assert (fit_cost(x, 0 * y, w, model=model).predict(x) == 0).all()
    np.testing.assert_allclose(fit_cost(x, y * 0 + 3, model="gamma").predict(x), 3, rtol=1e-6)
    with pytest.raises(ParameterError, match="model"):
        fit_cost(x, y, model="cubic")
    with pytest.raises(ParameterError, match="at least 0"):
        fit_cost(x, y - 1, model="log")
    with pytest.raises(ParameterError, match="weight above 0"):
        fit_cost(x, y, 0 * w, model="gamma")


def test_subgroup_bias_by_hand():
    found = subgroup_bias([1.0, 3, 2, 5], [1.0, 1, 4, 0], [0, 0, 1, 2], [1, 1, 1, 1])
    assert found.bias == {0: 100.0, 1: -50.0, 2: None}
    assert (found.worst, found.gap) == (0, 150.0)
    unmasked = subgroup_bias([1.0, 1, 4, 5], [1.0, 1, 4, 0], [0, 0, 1, 2])
    assert found.beyond(unmasked) == {0: 100.0, 1: -50.0, 2: None}
    with pytest.raises(ParameterError, match="subgroup"):
        subgroup_bias([1.0], [1.0], [0, 1])


def test_markets_by_model_and_subgroup(costs):
    """Every model finds the cost of a new market of the same kind; pooling two sexes shows in each of them only."""
    x, y, _ = costs
    train = np.arange(2000) < 1000
    market = simulate_market(x, y, train, tilt=np.ones(2000), enrolment=np.ones(2000), levels=(3, 4))
    for model in ("linear", "gamma", "multiplicative", "two-part"):
        assert abs(assess_market(market, shift="none", model=model).bias) < 20
    before = assess_subgroups(market, 0, shift="none")
    pooled = market.existing.copy()
    pooled[:, 0] = np.random.default_rng(2).permutation(pooled[:, 0])
    after = assess_subgroups(market, 0, pooled, shift="none")
    assert after.gap > before.gap + 20
    change = assess_market(market, pooled, shift="none").bias - assess_market(market, shift="none").bias
    assert abs(change) < 5
