"""Kolmogorov–Smirnov distances against SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy import stats

from gpuanon.assessing.ks_distance import ks_critical, ks_distance, ks_distances, ks_excess
from gpuanon.errors import ParameterError

values = st.lists(st.integers(-4, 4).map(float), min_size=1, max_size=12)


@given(values, values)
@example([0.0], [0.0])
@example([1.0, 1.0, 2.0], [1.0, 2.0, 2.0, 2.0])
@example([0.0, 1.0], [5.0])
def test_distances_equal_scipy_with_ties(x: list[float], y: list[float]) -> None:
    a, b = np.array(x), np.array(y)
    for ours, alternative in ((ks_distance, "two-sided"), (ks_excess, "greater")):
        theirs = stats.ks_2samp(a, b, alternative=alternative, method="exact").statistic
        assert ours(a, b) == pytest.approx(theirs, abs=1e-15)


def test_excess_is_one_sided() -> None:
    small, large = np.arange(10.0), np.arange(10.0) + 100
    assert ks_excess(small, large) == 1.0
    assert ks_excess(large, small) == 0.0


def test_columns_are_compared_one_by_one() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(200, 5)), rng.normal(size=(150, 5))
    expected = [stats.ks_2samp(X[:, j], Y[:, j], method="asymp").statistic for j in range(5)]
    np.testing.assert_allclose(ks_distances(X, Y), expected, atol=1e-15)


def test_critical_value_equals_the_limiting_distribution() -> None:
    # The first term of the Kolmogorov series: P(sup > x) ≈ 2 exp(−2 x²), with x = D · sqrt(nm / (n + m)).
    n, m = 400, 250
    assert 2 * math.exp(-2 * (ks_critical(n, m, 0.05) * math.sqrt(n * m / (n + m))) ** 2) == pytest.approx(0.05)
    assert stats.kstwobign.sf(ks_critical(n, m, 0.05) * math.sqrt(n * m / (n + m))) == pytest.approx(0.05, abs=1e-4)


def test_empty_samples_are_refused() -> None:
    with pytest.raises(ParameterError, match="at least one row"):
        ks_distance(np.empty(0), np.ones(3))
    with pytest.raises(ParameterError, match="same number"):
        ks_distances(np.ones((3, 2)), np.ones((3, 1)))
