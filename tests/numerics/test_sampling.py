"""Samples of measures are repeatable and uniform, and their stated error holds."""

from __future__ import annotations

import numpy as np

from gpuanon.numerics.sampling import sample_rows, share_error


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
