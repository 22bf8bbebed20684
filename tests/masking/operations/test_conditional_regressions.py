"""Draws from regressions on ranks: they spread as the records do."""

from __future__ import annotations

import numpy as np

from gpuanon.masking.operations.column_chain.conditional import Coded
from gpuanon.masking.operations.sequential import draw_from_regression


def test_without_dependence_every_rank_is_drawn_equally_often():
    """40 records whose predictor says nothing: each is drawn 250 times by 10 000 even numbers, but for the two degrees
    of freedom that the regression takes (the last one 5 % more often)."""
    codes = np.arange(40)
    flat = Coded(np.tile([0, 1, 1, 0], 10), True, 2)  # symmetric: the slope is 0
    even = (np.arange(10_000) + 0.5) / 10_000
    drawn = draw_from_regression(Coded(codes, True, 40), [flat], [np.zeros(10_000, int)], np.stack([even, even], 1))
    counts = np.bincount(drawn, minlength=40)
    np.testing.assert_allclose(counts, 250, atol=40)
    assert np.var((drawn + 0.5) / 40) * 12 > 0.99


def test_slopes_and_residual_variances_are_those_of_the_records():
    """Means over 200 tables of 100 records, with a bootstrap sample as the records: within 3 % and 3 errors."""
    rng = np.random.default_rng(3)
    found = []
    for _ in range(200):
        x = rng.normal(size=100)
        y = 0.5 * x + rng.normal(size=100)
        (_, cx), (ys, cy) = (np.unique(side, return_inverse=True) for side in (x, y))
        rows = rng.integers(0, 100, 100)
        drawn = draw_from_regression(
            Coded(cy[rows], True, 100), [Coded(cx[rows], True, 100)], [cx], rng.uniform(size=(100, 2)), [cx]
        )
        row = []
        for other in (y, ys[drawn]):
            slope, start = np.polyfit(x, other, 1)
            row += [slope, ((other - start - slope * x) ** 2).sum() / 98]
        found.append(row)
    values = np.array(found)
    for at in (0, 1):
        apart = values[:, at + 2] - values[:, at]
        assert abs(apart.mean()) < 0.03 * values[:, at].mean() + 3 * apart.std() / np.sqrt(200)
