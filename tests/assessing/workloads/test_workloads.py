"""Workloads: weights, regressions and the market-risk study, against statsmodels, NumPy and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.workloads import (
    assess_market,
    design,
    fit_weighted,
    logistic_weights,
    nonparametric_weights,
    r_squared,
    relative_bias,
    simulate_market,
    transfer_weights,
)
from gpuanon.errors import ParameterError


def people(n, seed=0):
    """Levels of two columns, and a cost that depends on them."""
    rng = np.random.default_rng(seed)
    x = np.column_stack([rng.integers(0, 2, n), rng.choice(4, n, p=[0.4, 0.3, 0.2, 0.1])])
    return x, np.exp(0.5 * x[:, 0] + 0.6 * x[:, 1] + rng.normal(size=n) * 0.5)


class TestImportance:
    def test_nonparametric_by_hand(self):
        p, q = np.array([[0], [0], [1], [2]]), np.array([[0], [1], [1], [3]])
        np.testing.assert_allclose(nonparametric_weights(p, p, q), [0.5, 0.5, 2.0, 0.0])
        assert nonparametric_weights(np.array([[3], [9]]), p, q).tolist() == [0.0, 0.0]
        assert nonparametric_weights(np.array([[3]]), p, q, unseen=7.0).tolist() == [7.0]

    def test_nonparametric_with_sample_weights(self):
        p, q = np.array([[0], [1]]), np.array([[0], [1]])
        weights = nonparametric_weights(p, p, q, p_weights=np.array([3.0, 1.0]), q_weights=np.array([1.0, 1.0]))
        np.testing.assert_allclose(weights, [0.5 / 0.75, 0.5 / 0.25])

    def test_nonparametric_weights_turn_one_sample_into_the_other(self):
        rng = np.random.default_rng(1)
        p, q = rng.integers(0, 3, (500, 2)), np.minimum(rng.integers(0, 4, (700, 2)), 2)
        weights = nonparametric_weights(p, p, q)
        for cell in np.unique(q, axis=0):
            share = weights[(p == cell).all(axis=1)].sum() / weights.sum()
            assert share == pytest.approx((q == cell).all(axis=1).mean())

    def test_logistic_equals_the_ratio_of_two_normals(self):
        rng = np.random.default_rng(2)
        p, q = rng.normal(size=(40_000, 1)), rng.normal(size=(20_000, 1)) + 0.7
        x = np.linspace(-2, 2, 9)[:, None]
        expected = np.exp(0.7 * x[:, 0] - 0.245)  # φ(x − 0.7) / φ(x)
        np.testing.assert_allclose(logistic_weights(x, p, q), expected, rtol=0.06)

    def test_logistic_equals_statsmodels(self):
        import statsmodels.api as sm

        rng = np.random.default_rng(3)
        p, q = rng.normal(size=(300, 2)), rng.normal(size=(200, 2)) @ [[1, 0.3], [0, 1]] + [0.5, 0]
        w = rng.integers(1, 4, 200).astype(float)
        rows = np.concatenate([p, q])
        weights = np.concatenate([np.full(300, 1 / 300), w / w.sum()])
        model = sm.GLM(
            np.repeat([0, 1], [300, 200]), sm.add_constant(rows), sm.families.Binomial(), freq_weights=weights * 1000
        ).fit(tol=1e-12)
        expected = np.exp(sm.add_constant(p) @ model.params)
        np.testing.assert_allclose(logistic_weights(p, p, q, q_weights=w, penalty=1e-9), expected, rtol=1e-4)

    def test_tables_that_do_not_fit_are_refused(self):
        with pytest.raises(ParameterError):
            nonparametric_weights(np.zeros((2, 1)), np.zeros((2, 2)), np.zeros((2, 2)))


class TestTransfer:
    def test_nonparametric_weights_pool_the_tasks_to_the_target(self):
        """Weighted means over all tasks equal means over the target task, for any function of (x, y)."""
        rng = np.random.default_rng(4)
        task = rng.integers(0, 3, 3000)
        x = (rng.integers(0, 3, 3000) + (task == 1)) % 3
        y = (x + rng.integers(0, 2, 3000) + task) % 4
        w = transfer_weights(x[:, None], y, task, 1)
        f = x**2 + 3 * y + x * y
        assert np.average(f, weights=w) == pytest.approx(f[task == 1].mean())
        assert w.mean() == pytest.approx(1)

    def test_shift_of_the_target_is_multiplied_in(self):
        """Eq. 3: E_pooled[w f(x, y)] = E_{q(x|t) p(y|x,t)}[f]."""
        rng = np.random.default_rng(5)
        task, x, y = rng.integers(0, 2, 4000), rng.integers(0, 3, 4000), rng.integers(0, 2, 4000)
        q = rng.choice(3, 1000, p=[0.1, 0.2, 0.7])
        w = transfer_weights(x[:, None], y, task, 0, q_rows=q[:, None])
        f = 2.0 * x + 5 * y * x
        mine = task == 0
        expected = sum((q == v).mean() * f[mine & (x == v)].mean() for v in range(3))
        assert (w * f).mean() == pytest.approx(expected)

    def test_logistic_weights_approach_the_true_ratio(self):
        rng = np.random.default_rng(6)
        task = rng.integers(0, 2, 40_000)
        x = rng.normal(size=40_000) + 0.5 * task
        y = rng.normal(size=40_000) - 0.4 * task
        w = transfer_weights(x[:, None], y, task, 1, method="logistic")
        p1 = np.exp(-0.5 * (x - 0.5) ** 2 - 0.5 * (y + 0.4) ** 2)
        p0 = np.exp(-0.5 * x**2 - 0.5 * y**2)
        truth = p1 / (task.mean() * p1 + (1 - task.mean()) * p0)
        assert np.sqrt(np.mean((w - truth) ** 2)) < 0.03
        shifted = transfer_weights(x[:, None], y, task, 1, method="logistic", q_rows=x[task == 1][:, None])
        np.testing.assert_allclose(shifted, w, rtol=0.02)

    def test_unknown_tasks_and_methods_are_refused(self):
        with pytest.raises(ParameterError, match="target"):
            transfer_weights(np.zeros((2, 1)), np.zeros(2), np.zeros(2), 5)
        with pytest.raises(ParameterError, match="method"):
            transfer_weights(np.zeros((2, 1)), np.zeros(2), np.zeros(2), 0, method="magic")


class TestRegression:
    @pytest.mark.parametrize("coding", ["dummy", "numeric"])
    def test_equals_statsmodels_weighted_least_squares(self, coding):
        import statsmodels.api as sm

        x, y = people(400)
        w = np.random.default_rng(7).random(400)
        terms = (
            x.astype(float)
            if coding == "numeric"
            else np.column_stack([x[:, 0] == 1, x[:, 1] == 1, x[:, 1] == 2, x[:, 1] == 3]).astype(float)
        )
        expected = sm.WLS(y, sm.add_constant(terms), weights=w).fit()
        fit = fit_weighted(x, y, w, coding=coding)
        np.testing.assert_allclose(fit.coefficients, expected.params, atol=1e-10)
        np.testing.assert_allclose(fit.predict(x), expected.fittedvalues, atol=1e-10)
        assert r_squared(fit.predict(x), y, w) == pytest.approx(expected.rsquared)

    def test_levels_without_records_are_predicted_as_the_first(self):
        fit = fit_weighted(np.array([[0], [0], [1]]), np.array([1.0, 3.0, 5.0]), coding="dummy", levels=(4,))
        np.testing.assert_allclose(fit.predict(np.array([[0], [1], [3]])), [2, 5, 2], atol=1e-12)

    def test_bias_and_r2_by_hand(self):
        actual, predicted, w = np.array([1.0, 3.0]), np.array([2.0, 3.0]), np.array([1.0, 3.0])
        assert relative_bias(predicted, actual, w) == pytest.approx(100 * (2.75 - 2.5) / 2.5)
        assert r_squared(predicted, actual, w) == pytest.approx(1 - 0.25 / 0.75)
        assert r_squared(actual, actual) == 1
        assert r_squared(np.full(2, 2.0), actual) == 0

    def test_levels_outside_of_the_coding_are_refused(self):
        for x in (np.array([[4]]), np.array([[-1]]), np.array([[0.5]])):
            with pytest.raises(ParameterError, match="levels"):
                design(x, "dummy", (3,))
        with pytest.raises(ParameterError, match="coding"):
            design(np.zeros((1, 1)), "spline")
        with pytest.raises(ParameterError, match="weights"):
            fit_weighted(np.zeros((2, 1)), np.zeros(2), np.zeros(2))


class TestMarket:
    def market(self, seed=0, n=60_000, weighted=False):
        x, cost = people(n, seed)
        rng = np.random.default_rng(seed + 1000)
        tilt = np.array([1.0, 0.7, 1.5, 3.0])[x[:, 1]]
        enrolment = np.array([0.6, 0.3])[x[:, 0]] * np.array([0.4, 0.9, 1.0, 0.5])[x[:, 1]]
        train = rng.random(n) < 0.5
        draws = None if weighted else rng
        return simulate_market(x, cost, train, tilt=tilt, enrolment=enrolment, levels=(2, 4), rng=draws)

    def test_weights_remove_the_bias_of_a_shifted_market(self):
        """Averaged over data sets: without weights a linear model of a curved cost is biased, with them it is not."""
        runs = [self.market(seed) for seed in range(6)]
        bias = {
            shift: np.mean([assess_market(m, shift=shift, coding="numeric").bias for m in runs])
            for shift in ("none", "logistic", "nonparametric")
        }
        assert abs(bias["none"]) > 2
        assert abs(bias["nonparametric"]) < 0.7
        assert abs(bias["logistic"]) < 0.7

    def test_weights_instead_of_draws_say_who_is_enrolled(self):
        drawn, weighted = (assess_market(self.market(weighted=w)) for w in (False, True))
        assert len(self.market(weighted=True).members) > 2 * len(self.market().members)
        assert weighted.shift == pytest.approx(drawn.shift, abs=2)
        assert weighted.bias == pytest.approx(drawn.bias, abs=2)
        assert weighted.similarity >= drawn.similarity

    def test_weighted_members_look_like_the_new_ones(self):
        market = self.market()
        plain, weighted = (assess_market(market, shift=shift) for shift in ("none", "nonparametric"))
        assert plain.similarity < 0.9
        assert weighted.similarity > 0.97
        assert plain.shift > 10
        assert weighted.shift == plain.shift

    def test_the_unmasked_release_is_the_baseline_and_a_scrambled_one_is_worse(self):
        market = self.market()
        x = market.existing[market.members]
        assert assess_market(market, x) == assess_market(market)
        scrambled = assess_market(market, np.random.default_rng(0).permutation(x))
        assert scrambled.r2 < assess_market(market).r2 / 2
        assert abs(scrambled.bias) > 5

    def test_costs_of_the_new_market_are_not_used_for_prediction(self):
        market = self.market()
        from dataclasses import replace

        doubled = replace(market, new_cost=2 * market.new_cost)
        assert assess_market(doubled).bias == pytest.approx((1 + assess_market(market).bias / 100) * 50 - 100)

    def test_one_sided_markets_and_unknown_shifts_are_refused(self):
        x, cost = people(10)
        ones = np.ones(10)
        with pytest.raises(ParameterError, match="train"):
            simulate_market(
                x, cost, np.ones(10, bool), tilt=ones, enrolment=ones, levels=(2, 4), rng=np.random.default_rng(0)
            )
        with pytest.raises(ParameterError, match="shift"):
            assess_market(self.market(), shift="psychic")
