"""Tilted draws: against what entropy balancing must give, and the statistics that are to stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.operations.pad.calibration import KeptStatistics, Populations, choose, tilt
from gpuanon.masking.operations.pad.sequence import Settings, fit_sequence

KEY = Key(b"a key for the tests of calibration")


def test_the_tilt_is_the_least_divergence_that_meets_the_target():
    """One row, three candidates: the distribution of least divergence, found by a general optimiser."""
    g = np.array([0.0, 1.0, 3.0])
    found = tilt(g.reshape(1, 3, 1), np.array([2.0]))
    weights = np.exp(found.multipliers[0] * g)
    weights /= weights.sum()
    known = minimize(
        lambda p: float((p * np.log(p * 3)).sum()),
        np.full(3, 1 / 3),
        bounds=[(1e-9, 1)] * 3,
        constraints=[{"type": "eq", "fun": lambda p: p.sum() - 1}, {"type": "eq", "fun": lambda p: p @ g - 2}],
    )
    np.testing.assert_allclose(weights, known.x, atol=1e-4)
    assert found.price == pytest.approx(known.fun, abs=1e-5)


def test_no_tilt_is_needed_where_the_target_is_met():
    G = np.random.default_rng(1).normal(size=(200, 8, 2))
    found = tilt(G, G.mean(axis=(0, 1)))
    np.testing.assert_allclose(found.multipliers, 0, atol=1e-5)
    assert found.price == pytest.approx(0, abs=1e-9)


def test_a_target_out_of_reach_is_approached_and_said_to_be_missed():
    G = np.random.default_rng(1).random((50, 4, 1))
    found = tilt(G, np.array([2.0]))
    assert found.left[0] < -1
    drawn = G[np.arange(50), choose(G, found.multipliers, np.full(50, 0.5)), 0]
    assert (drawn == G[:, :, 0].max(axis=1)).mean() > 0.9


def calibrated(named, seed=1):
    """Records, and rows that are added where x is large; the filled column y."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=6000)
    y = np.round(0.5 * x + rng.normal(size=6000), 1)
    more = np.column_stack([np.abs(rng.normal(size=4000)) + 0.5, np.full(4000, np.nan)])
    records = np.column_stack([x, y])
    draws = KEY.draws(np.arange(4000), "added")
    model = fit_sequence(
        records, (0, 0), 1, Settings("tree", leaf=50), draws, named, Populations(records, more, 6000, 4000)
    )
    drawn = model.draw(more[:, :1], KEY.draws(np.arange(4000), "other draws"))
    return records, np.vstack([records, np.column_stack([more[:, 0], drawn[:, 0]])]), model


def test_a_named_mean_stays_at_a_price():
    records, plain, model = calibrated(None)
    assert plain[:, 1].mean() - records[:, 1].mean() > 0.15
    records, after, model = calibrated(KeptStatistics(means=(1,)))
    assert abs(after[:, 1].mean() - records[:, 1].mean()) < 0.02
    assert 0.05 < model.tilts[0].tilt.price < 1


def test_a_named_correlation_stays_and_with_it_mean_and_variance():
    records, after, _ = calibrated(KeptStatistics(correlations=((0, 1),)))
    assert abs(np.corrcoef(after.T)[0, 1] - np.corrcoef(records.T)[0, 1]) < 0.01
    assert abs(after[:, 1].mean() - records[:, 1].mean()) < 0.02
    assert abs(after[:, 1].std() - records[:, 1].std()) < 0.02


def test_coefficients_of_a_named_regression_stay():
    """The response is curved, so that added rows at one end turn the line that fits it."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=6000)
    y = np.round(np.exp(0.6 * x) + 0.3 * rng.normal(size=6000), 1)
    records, more = np.column_stack([x, y]), np.column_stack([rng.uniform(0.5, 2, 4000), np.full(4000, np.nan)])
    slopes = {}
    for name, named in {"plain": None, "kept": KeptStatistics(regressions=((1, (0,)),))}.items():
        draws, whole = KEY.draws(np.arange(4000), "added"), Populations(records, more, 6000, 4000)
        model = fit_sequence(records, (0, 0), 1, Settings("tree", leaf=50), draws, named, whole)
        drawn = model.draw(more[:, :1], KEY.draws(np.arange(4000), "other draws"))
        after = np.vstack([records, np.column_stack([more[:, 0], drawn[:, 0]])])
        slopes[name] = np.polyfit(*after.T, 1) - np.polyfit(*records.T, 1)
    assert abs(slopes["plain"][0]) > 0.05
    assert np.abs(slopes["kept"]).max() < 0.02
    assert np.abs(model.tilts[0].tilt.left).max() < 1e-4


@pytest.mark.parametrize("correlations", [(), ((0, 1),), ((2, 1),), ((0, 1), (2, 1))])
def test_mean_correlations_and_slopes_stay_together(correlations):
    """Added rows have larger x, which vary more; z is another column, and slopes are those on x, or on both."""
    rng = np.random.default_rng(3)
    x, z = rng.normal(size=(2, 8000))
    y = 0.4 * x + 0.3 * z + rng.normal(size=8000)
    predictors = (0, 2) if correlations == ((0, 1),) else (0,)
    columns = (0, 2, 1)  # the filled column is the last
    at = {old: new for new, old in enumerate(columns)}
    records = np.column_stack([x, y, z])[:, columns]
    more = np.column_stack([0.3 + 1.4 * rng.normal(size=4000), 1.2 * rng.normal(size=4000), np.full(4000, np.nan)])
    named = KeptStatistics(
        means=(2,), correlations=tuple((at[a], at[b]) for a, b in correlations),
        regressions=((2, tuple(at[column] for column in predictors)),),
    )  # fmt: skip
    draws, whole = KEY.draws(np.arange(4000), "added"), Populations(records, more, 8000, 4000)
    model = fit_sequence(records, (0, 0, 0), 2, Settings("tree", leaf=50), draws, named, whole)
    drawn = model.draw(more[:, :2], KEY.draws(np.arange(4000), "other draws"))
    after = np.vstack([records, np.column_stack([more[:, :2], drawn])])

    def slopes(table):
        X = np.column_stack([np.ones(len(table)), table[:, [at[column] for column in predictors]]])
        return np.linalg.lstsq(X, table[:, 2], rcond=None)[0][1:]

    assert np.abs(model.tilts[0].tilt.left).max() < 1e-3
    assert abs(after[:, 2].mean() - y.mean()) < 0.03
    np.testing.assert_allclose(slopes(after), slopes(records), atol=0.03)
    for a, b in correlations:
        pair = [at[a], at[b]]
        change = np.corrcoef(after[:, pair].T)[0, 1] - np.corrcoef(records[:, pair].T)[0, 1]
        assert abs(change) < 0.02, (a, b)


def test_what_follows_for_slopes_and_means_is_said():
    records, after, model = calibrated(KeptStatistics(correlations=((0, 1),)))
    ((column, change),) = model.tilts[0].slopes
    found = np.polyfit(*after.T, 1)[0] / np.polyfit(*records.T, 1)[0] - 1
    assert column == 0
    assert change == pytest.approx(found, abs=0.03)
    assert abs(change) > 0.05
    records, after, model = calibrated(KeptStatistics(regressions=((1, (0,)),)))
    assert model.tilts[0].mean_drift == pytest.approx(after[:, 1].mean() - records[:, 1].mean(), abs=0.02)
    assert model.tilts[0].mean_drift > 0.1


def test_what_has_no_room_is_approached_and_the_residual_says_so():
    """A share of 2 % cannot keep its mean, correlation and slope where the predictor varies three times as much."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=20_000)
    y = (x + rng.normal(size=20_000) > 2.9).astype(float)
    records = np.column_stack([x, y])
    more = np.column_stack([4 * rng.normal(size=20_000), np.full(20_000, np.nan)])
    named = KeptStatistics(means=(1,), correlations=((0, 1),), regressions=((1, (0,)),))
    draws, whole = KEY.draws(np.arange(20_000), "added"), Populations(records, more, 20_000, 20_000)
    (tilted,) = fit_sequence(records, (0, 0), 1, Settings("tree"), draws, named, whole).tilts
    assert np.abs(tilted.tilt.left).max() > 0.05


def test_two_regressions_of_one_column_are_refused():
    with pytest.raises(ParameterError, match="one regression"):
        KeptStatistics(regressions=((1, (0,)), (1, (2,))))
