"""Tilted draws: against what entropy balancing must give, and the statistics that are to stay."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize

from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.numerics.fills.calibration import Named, Whole
from gpuanon.numerics.fills.sequence import Settings, fit_sequence
from gpuanon.numerics.fills.tilting import choose, tilt

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
    model = fit_sequence(records, (0, 0), 1, Settings("tree", leaf=50), draws, named, Whole(records, more, 6000, 4000))
    drawn = model.draw(more[:, :1], KEY.draws(np.arange(4000), "other draws"))
    return records, np.vstack([records, np.column_stack([more[:, 0], drawn[:, 0]])]), model


def test_a_named_mean_stays_at_a_price():
    records, plain, model = calibrated(None)
    assert plain[:, 1].mean() - records[:, 1].mean() > 0.15
    records, after, model = calibrated(Named(means=(1,)))
    assert abs(after[:, 1].mean() - records[:, 1].mean()) < 0.02
    assert 0.05 < model.tilts[0].tilt.price < 1


def test_a_named_correlation_stays_and_with_it_mean_and_variance():
    records, after, _ = calibrated(Named(correlations=((0, 1),)))
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
    for name, named in {"plain": None, "kept": Named(regressions=((1, (0,)),))}.items():
        draws, whole = KEY.draws(np.arange(4000), "added"), Whole(records, more, 6000, 4000)
        model = fit_sequence(records, (0, 0), 1, Settings("tree", leaf=50), draws, named, whole)
        drawn = model.draw(more[:, :1], KEY.draws(np.arange(4000), "other draws"))
        after = np.vstack([records, np.column_stack([more[:, 0], drawn[:, 0]])])
        slopes[name] = np.polyfit(*after.T, 1) - np.polyfit(*records.T, 1)
    assert abs(slopes["plain"][0]) > 0.05
    assert np.abs(slopes["kept"]).max() < 0.02
    assert np.abs(model.tilts[0].tilt.left).max() < 1e-4


def test_what_contradicts_itself_is_refused():
    for other in ({"correlations": ((0, 1),)}, {"means": (1,)}, {"regressions": ((1, (0,)), (1, (2,)))}):
        with pytest.raises(ParameterError, match="named twice"):
            Named(**{"regressions": ((1, (0,)),), **other})
