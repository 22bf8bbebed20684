"""Models of a column given others, against scikit-learn, statsmodels and distributions that are known."""

from __future__ import annotations

import numpy as np
import pytest
import statsmodels.api as sm
from scipy.special import expit, ndtri
from scipy.stats import ks_2samp
from statsmodels.othermod.betareg import BetaModel

from gpuanon.arrays.rng import Key
from gpuanon.masking.operations.pad.fill_columns import Predictors, Response, shrunk_means
from gpuanon.masking.operations.pad.fill_models import LeafDonors
from gpuanon.masking.operations.pad.parametric import Beta, Logit, ProbitGamma
from gpuanon.masking.operations.pad.sequence import Settings, fit_column, fit_sequence

KEY = Key(b"a key for the tests of fills")
DRAWN = ("tree", "forest", "bagging", "boosting", "network", "hierarchical", "regression", "beta")


def sample(n=4000, seed=1):
    """A level of 40 with an effect, a number, and a response with a point mass at 0 and the rest on a lattice."""
    rng = np.random.default_rng(seed)
    effect = np.random.default_rng(5).normal(0, 1, 40)
    group, x = rng.integers(0, 40, n), rng.normal(size=n)
    zero = rng.random(n) < expit(0.5 + effect[group] - x)
    y = np.where(zero, 0.0, np.clip(np.round(rng.beta(2 + 4 * expit(x), 3), 2), 0.01, 0.99))
    return np.column_stack([group, x]), y


@pytest.mark.parametrize("kind", DRAWN)
def test_draws_follow_the_conditional_distribution(kind):
    """New rows: the share of zeros, and the mean of the rest, in strata of the predictors, are those of fresh data."""
    X, y = sample(6000)
    new, fresh = sample(6000, seed=2)
    model = fit_column(X, (40, 0), Response(y), Settings(kind, leaf=20, trees=8), seed=3)
    drawn = model.given(new)(np.random.default_rng(4).random((len(new), 5)))
    assert set(drawn) <= set(y)
    for part in (new[:, 1] < -0.5, new[:, 1] > 0.5, new[:, 0] < 10):
        # Two shares of 2000 rows differ by 0.05 in one case of a thousand; leaves of few rows add to that.
        assert abs((drawn[part] == 0).mean() - (fresh[part] == 0).mean()) < 0.07
        assert abs(drawn[part & (drawn > 0)].mean() - fresh[part & (fresh > 0)].mean()) < 0.05
    marginal = fit_column(X, (40, 0), Response(y), Settings("marginal"), seed=3)
    low = new[:, 1] < -0.5
    ignorant = marginal.given(new)(np.random.default_rng(4).random((len(new), 5)))
    assert abs((ignorant[low] == 0).mean() - (fresh[low] == 0).mean()) > 0.14


@pytest.mark.parametrize("kind", DRAWN)
def test_levels_and_nulls_are_drawn_too(kind):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 1))
    codes = np.where(X[:, 0] > 0, 2.0, rng.integers(0, 2, 3000))
    codes[rng.random(3000) < 0.1] = np.nan
    model = fit_column(X, (0,), Response(codes, 3), Settings(kind, leaf=20, trees=8), seed=3)
    drawn = model.given(rng.uniform(0.2, 2, (2000, 1)))(rng.random((2000, 5)))
    assert abs(np.isnan(drawn).mean() - 0.1) < 0.05
    assert (drawn[~np.isnan(drawn)] == 2).mean() > 0.9


def test_a_gamma_regression_of_the_probit_is_that_of_statsmodels():
    rng = np.random.default_rng(1)
    M = rng.normal(size=(800, 2))
    y = rng.beta(3, 2, 800)
    fitted = ProbitGamma.fit(M, y)
    z = ndtri(y) + fitted.shift
    design = sm.add_constant(M)
    known = sm.GLM(z, design, family=sm.families.Gamma(sm.families.links.Log())).fit()
    np.testing.assert_allclose([fitted.bias, *fitted.weights], known.params, atol=2e-3)  # a ridge of 1e-4
    assert fitted.dispersion == pytest.approx(known.scale, rel=1e-2)


def test_a_beta_regression_is_that_of_statsmodels():
    rng = np.random.default_rng(1)
    M = rng.normal(size=(600, 2))
    mean, precision = expit(0.3 + M @ [0.6, -0.4]), np.exp(1.5 + 0.3 * M[:, 0])
    y = np.clip(rng.beta(mean * precision, (1 - mean) * precision), 1e-6, 1 - 1e-6)
    fitted = Beta.fit(M, y, penalty=0.0)
    design = sm.add_constant(M)
    known = BetaModel(y, design, exog_precision=design).fit(disp=0)
    np.testing.assert_allclose([*fitted.mean, *fitted.precision], known.params, atol=5e-3)
    drawn = fitted.draw(M, rng.random(600))
    assert ks_2samp(drawn, y).pvalue > 0.01


def test_the_logistic_part_gives_probabilities_of_every_part():
    rng = np.random.default_rng(1)
    M = rng.normal(size=(3000, 1))
    labels = np.where(rng.random(3000) < expit(M[:, 0]), 4, np.where(rng.random(3000) < 0.5, 1, 7))
    found = Logit.fit(M, labels)
    np.testing.assert_array_equal(found.parts, [1, 4, 7])
    np.testing.assert_allclose(found.probabilities(np.array([[0.0]]))[0], [0.25, 0.5, 0.25], atol=0.04)


def test_means_of_levels_are_shrunk_by_what_chance_explains():
    rng = np.random.default_rng(1)
    index, noise = rng.integers(0, 50, 5000), rng.normal(size=(5000, 1))
    noise -= noise.mean()
    raw = np.bincount(index, noise[:, 0]) / np.bincount(index)
    assert np.abs(shrunk_means(index, noise, 50)).mean() < 0.5 * np.abs(raw).mean()  # no level differs
    effect = rng.normal(size=50)[index][:, None]
    Y = noise + effect - effect.mean()
    means = np.bincount(index, Y[:, 0]) / np.bincount(index)
    np.testing.assert_allclose(shrunk_means(index, Y, 50)[:, 0], means, atol=0.06)


def test_small_levels_share_one_mean_with_those_that_are_not_known():
    index = np.repeat(np.arange(12), [200, 200, *[5] * 10])
    Y = np.where(index < 2, index * 1.0, 5.0)[:, None] + np.random.default_rng(1).normal(0, 0.1, (450, 1))
    Y -= Y.mean()
    X = index[:, None].astype(float)
    found = Predictors.fit(X, (12,), Y).matrix(np.array([[2.0], [9.0], [40.0], [0.0]]))
    assert found[0] == found[1] == found[2] != found[3]


def test_donors_of_a_leaf_are_its_rows_equally_often():
    donors = LeafDonors.of(np.array([3, 1, 3, 3]), 4)
    drawn = donors.draw(np.full(3, 3), np.array([0.0, 0.5, 0.99]))
    np.testing.assert_array_equal(drawn, [0, 2, 3])


def test_values_that_one_record_has_are_not_copied_and_point_masses_are():
    rng = np.random.default_rng(1)
    values = np.where(rng.random(2000) < 0.3, 0.0, rng.lognormal(size=2000))
    response = Response(values)
    drawn = values[rng.integers(0, 2000, 3000)]
    smooth = response.smoothed(drawn, rng.random(3000))
    np.testing.assert_array_equal(smooth == 0, drawn == 0)
    assert not np.isin(smooth[smooth > 0], values).any()
    assert ks_2samp(smooth, values).statistic < 0.04
    lattice = np.round(rng.random(2000), 1)
    np.testing.assert_array_equal(Response(lattice).smoothed(lattice, rng.random(2000)), lattice)


@pytest.mark.parametrize(("step", "type_"), [(5, np.float64), (0.25, np.float64), (0.1, np.float32)])
def test_smoothed_values_stay_on_the_lattice_of_the_column(step, type_):
    rng = np.random.default_rng(1)
    values = (np.round(rng.lognormal(2, 1, 3000)) * step).astype(type_).astype(float)
    values[:2] += 0.013  # two odd records do not hide it
    response = Response(values)
    smooth = response.smoothed(values, rng.random(3000))
    assert (smooth != values).mean() > 0.005
    np.testing.assert_allclose(smooth[2:] / step, np.rint(smooth[2:] / step), atol=1e-4)
    assert Response(rng.normal(size=100)).lattice is None


def test_columns_are_filled_in_sequence_so_that_their_link_is_kept():
    rng = np.random.default_rng(1)
    x = rng.normal(size=4000)
    first = x + rng.normal(size=4000)
    second = (first > 0).astype(float)
    records = np.column_stack([x, first, second])
    model = fit_sequence(records, (0, 0, 2), 1, Settings("tree", leaf=20), KEY.draws(np.arange(0)))
    drawn = model.draw(x[:1000, None], KEY.draws(np.arange(1000), "rows"))
    assert ((drawn[:, 0] > 0) == drawn[:, 1]).mean() > 0.97
    half = model.draw(x[:500, None], KEY.draws(np.arange(500), "rows"))
    np.testing.assert_array_equal(half, drawn[:500])
