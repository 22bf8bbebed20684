"""Shares of values up to chosen points."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from gpuanon.assessing.utility.cdf_points import cdf_points, wilson
from gpuanon.errors import GpuanonError


def test_shares_are_counted_up_to_and_with_the_point():
    before, after = np.arange(10.0)[:, None], np.r_[np.arange(5.0), np.arange(5.0)][:, None]
    found = cdf_points(before, after, names=["x"], at={"x": [4, 7]})
    assert found.value == pytest.approx(0.5)  # F(4) is 5/10 and 10/10
    assert found.worst == ("x", pytest.approx(0.5))
    assert found.details["points"] == 2


def test_the_score_is_that_of_a_two_sample_test_of_shares():
    from statsmodels.stats.proportion import proportions_ztest

    rng = np.random.default_rng(0)
    before, after = rng.normal(size=300), rng.normal(0.4, 1, size=200)
    found = cdf_points(before[:, None], after[:, None], names=["x"], at={"x": [0.1]})
    z, _ = proportions_ztest([(before <= 0.1).sum(), (after <= 0.1).sum()], [300, 200])
    assert found.details["largest_z"] == pytest.approx(abs(z))


def test_the_interval_covers_an_independent_sample_about_as_often_as_two_samples_do():
    """q − p has twice the variance of p: an interval of 1.96 standard errors holds it with probability 0.834."""
    rng = np.random.default_rng(1)
    inside = [
        cdf_points(*rng.normal(size=(2, 400, 1)), names=["x"], at={"x": [0.0]}).details["inside_interval"]
        for _ in range(1000)
    ]
    assert np.mean(inside) == pytest.approx(0.834, abs=0.04)


def test_missing_values_are_left_out():
    before = np.array([[1.0], [2.0], [np.nan], [np.nan]])
    assert cdf_points(before, before[:2], names=["x"]).value == 0


@pytest.mark.parametrize("options", [{"at": {"y": [1.0]}}, {"level": 1.0}])
def test_what_does_not_fit_is_refused(options):
    with pytest.raises(GpuanonError):
        cdf_points(np.ones((3, 1)), np.ones((3, 1)), names=["x"], **options)


@pytest.mark.parametrize("n", [20, 200, 5000])
@pytest.mark.parametrize("share", [0.03, 0.1, 0.5])
def test_the_interval_of_a_share_is_wilsons_and_keeps_its_level(n: int, share: float) -> None:
    """Against statsmodels; mean coverage over binomial counts, exactly, near 95 % (Wald's: 46 to 87 % at n = 20)."""
    counts = np.arange(n + 1)
    low, high = wilson(counts / n, n, float(stats.norm.ppf(0.975)))
    expected = proportion_confint(counts, n, method="wilson")
    assert np.allclose(low, np.maximum(expected[0], 0), atol=1e-12)
    assert np.allclose(high, np.minimum(expected[1], 1), atol=1e-12)
    near = np.clip(share + np.linspace(-0.02, 0.02, 41), 0.001, 1)  # coverage of counts jumps from share to share
    covered = [stats.binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum() for p in near]
    assert np.mean(covered) == pytest.approx(0.95, abs=0.02)
