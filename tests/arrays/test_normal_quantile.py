"""The normal quantile function against published values, SciPy and its own inverse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from scipy.special import ndtri

from gpuanon.arrays import normal_quantile as module
from gpuanon.arrays.normal_quantile import normal_quantile


# Wichura (1988) gives the first three; the others are the points that every table of the distribution has.
@pytest.mark.parametrize(
    ("p", "expected"),
    [
        (0.25, -0.6744897501960817),
        (0.001, -3.090232306167814),
        (1e-20, -9.262340089798408),
        (0.975, 1.959963984540054),
        (0.995, 2.575829303548901),
    ],
)
def test_published_values(p, expected):
    assert normal_quantile(np.array([p]))[0] == pytest.approx(expected, rel=4e-16)


def test_scipys_values_everywhere():
    rng = np.random.default_rng(0)
    p = np.concatenate(
        [rng.random(200_000), 2.0 ** -rng.uniform(1, 1022, 50_000), 1 - 2.0 ** -rng.uniform(1, 53, 9000)]
    )
    p = p[(p > 0) & (p < 1)]
    # SciPy's own error is as large: a few units in the last place.
    np.testing.assert_allclose(normal_quantile(p), ndtri(p), rtol=2e-15)


def test_the_regions_of_the_approximation_join():
    """No step is larger than the spacing of the probabilities asks for."""
    for edge in (0.075, 0.925, np.exp(-25.0)):
        p = np.nextafter(edge, [0.0, 1.0])
        low, high = normal_quantile(p)
        assert abs(high - low) <= 4e-15 * abs(high)


def test_quantiles_of_one_half_and_symmetric_tails():
    p = (np.arange(1, 1024) / 1024).astype(float)
    x = normal_quantile(p)
    assert x[511] == 0
    np.testing.assert_array_equal(x, -x[::-1])
    assert (np.diff(x) > 0).all()


def test_the_logarithm_has_an_error_of_at_most_one_unit():
    p = np.concatenate([2.0 ** -np.random.default_rng(1).uniform(4, 1022, 50_000), [0.0625, 2.0**-53]])
    expected = -np.log(p)
    assert (np.abs(module._minus_log(p) - expected) <= 1.01 * np.spacing(expected)).all()


def test_the_series_of_the_logarithm_is_that_of_artanh():
    """The coefficients are the fractions themselves, and what is left out is below the last bit."""
    assert [Fraction(1, 2 * i + 1) for i in range(10)] == [
        Fraction(c).limit_denominator(100) for c in reversed(module._ARTANH)
    ]
    s = (np.sqrt(2) - 1) / (np.sqrt(2) + 1)
    assert s**20 / 21 / (1 - s * s) < 2.0**-53
