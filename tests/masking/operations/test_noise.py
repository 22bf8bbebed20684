"""Kinds of noise: what each keeps, and what an analyst recovers."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import ValidationError
from sklearn.neighbors import NearestNeighbors

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.assessing.workloads import reconstruct_distribution, recovered_covariance
from gpuanon.errors import ParameterError
from gpuanon.masking.methods.noise_methods import AdditiveNoise
from gpuanon.masking.operations.added_noise import WhiteNoise, add_local_noise, add_noise, neighbour_distances

KEY = Key(b"a key for the tests of noise")
SHAPES = [WhiteNoise(), WhiteNoise(least=0.7), WhiteNoise("mixture"), WhiteNoise("coloured-mixture")]


def draws(n):
    return KEY.draws(np.arange(n))


def skewed(n=20_000):
    rng = np.random.default_rng(4)
    return np.exp(0.5 * rng.normal(size=(n, 3)) @ np.array([[1, 0.8, 0.2], [0, 0.6, 0.3], [0, 0, 0.9]]))


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.shape} {s.least}")
@pytest.mark.parametrize("c", [1, 2, 6])
def test_white_noise_has_mean_zero_and_unit_covariance(shape, c):
    """Five standard errors of a covariance of 40 000 rows; a mixture's fourth moment is larger, c at most."""
    W = shape(draws(40_000), c)
    np.testing.assert_allclose(W.mean(axis=0), 0, atol=5 / 200)
    np.testing.assert_allclose(np.atleast_2d(np.cov(W.T)), np.eye(c), atol=5 * np.sqrt(2 + c) / 200)


def test_short_noise_is_drawn_again():
    c, least = 3, 0.7
    W = WhiteNoise(least=least)(draws(20_000), c)
    # P(χ²₃ ≥ 1.47) = 0.689 and P(χ²₅ ≥ 1.47) = 0.917, by SciPy: the variance before scaling is their ratio.
    assert (W * W).sum(axis=1).min() >= c * least**2 / (0.9165 / 0.6891) - 0.02
    assert ((WhiteNoise()(draws(20_000), c) ** 2).sum(axis=1) < c * least**2).mean() > 0.2


@pytest.mark.parametrize("c", [1, 4])
def test_the_means_of_a_mixture_are_away_from_zero(c):
    W = WhiteNoise("mixture", sigma=0.1)(draws(5000), c)
    assert np.sqrt((W * W).sum(axis=1)).min() > 0.5 * np.sqrt(c)
    one = WhiteNoise("coloured-mixture", sigma=0.1)(draws(5000), c)
    assert np.abs(one).min() > 0.5


@pytest.mark.parametrize("shape", SHAPES, ids=lambda s: f"{s.shape} {s.least}")
@pytest.mark.parametrize("kind", ["uncorrelated", "correlated", "corrected"])
def test_covariance_is_recovered(shape, kind):
    """On average to sampling error; with `exact` to rounding, mean included."""
    X, b = skewed(), 0.5
    truth = np.cov(X.T, bias=True)
    whole = Partition.whole(len(X))
    scale = np.sqrt(np.outer(np.diag(truth), np.diag(truth)))
    noisy = add_noise(X, whole, draws(len(X)), b, kind, shape)
    np.testing.assert_allclose(recovered_covariance(noisy, b, kind) / scale, truth / scale, atol=0.04)
    exact = add_noise(X, whole, draws(len(X)), b, kind, shape, exact=True)
    np.testing.assert_allclose(recovered_covariance(exact, b, kind), truth, rtol=0, atol=1e-9)
    np.testing.assert_allclose(exact.mean(axis=0), X.mean(axis=0), atol=1e-9)
    assert not np.allclose(exact, X, atol=0.1)


def test_exact_noise_in_groups_and_in_groups_that_are_too_small():
    X = skewed(600)
    groups = Partition.from_labels(np.arange(600) % 4)
    noisy = add_noise(X, groups, draws(600), 0.3, "corrected", exact=True)
    for part in range(4):
        rows = np.arange(600) % 4 == part
        np.testing.assert_allclose(np.cov(noisy[rows].T), np.cov(X[rows].T), atol=1e-9)
    with pytest.raises(ParameterError, match="more than 6 rows"):
        add_noise(X[:6], Partition.whole(6), draws(6), 0.3, "corrected", exact=True)


def test_distances_to_neighbours_are_those_of_scikit_learn():
    X = np.round(skewed(300), 1)
    groups = Partition.from_labels(np.arange(300) // 130)
    found = neighbour_distances(X, groups, 5)
    for part in range(3):
        rows = np.flatnonzero(np.arange(300) // 130 == part)
        expected = NearestNeighbors(n_neighbors=6).fit(X[rows]).kneighbors(X[rows])[0][:, -1]
        np.testing.assert_allclose(found[rows], expected, atol=1e-7)
    assert neighbour_distances(X[:1], Partition.whole(1), 5)[0] == 0


def test_noise_by_density_is_large_where_records_are_sparse():
    rng = np.random.default_rng(0)
    X = np.vstack([0.05 * rng.normal(size=(2000, 2)), 2 + 2 * rng.normal(size=(200, 2))])
    whole = Partition.whole(len(X))
    moved = np.sqrt(((add_local_noise(X, whole, draws(len(X)), 1.0, 10) - X) ** 2).sum(axis=1))
    assert np.median(moved[2000:]) > 10 * np.median(moved[:2000])
    ratio = (moved / neighbour_distances(X, whole, 10)) ** 2
    assert abs(ratio.mean() - 1) < 5 / np.sqrt(len(X))  # mean and variance of χ²₂ / 2 are 1


def test_a_distribution_is_reconstructed_from_its_noise():
    """A mixture of two uniform distributions: the noise is as wide as half a component, so shares are known to 0.05."""
    rng = np.random.default_rng(1)
    n = 50_000
    x = np.where(rng.random(n) < 0.7, rng.random(n), 2 + rng.random(n))
    y = x + 0.5 * rng.normal(size=n)
    edges = np.linspace(0, 3, 7)
    found = reconstruct_distribution(y, 0.5, np.linspace(0, 3, 61)).reshape(6, 10).sum(axis=1)
    truth = np.histogram(x, edges)[0] / n
    naive = np.histogram(np.clip(y, 0, 3), edges)[0] / n
    assert np.abs(found - truth).max() < 0.05
    assert np.abs(naive - truth).max() > 0.1
    with pytest.raises(ParameterError, match="ascend"):
        reconstruct_distribution(y, 0.5, edges[::-1])


def test_settings_that_would_do_nothing_are_refused():
    with pytest.raises(ValidationError, match="resample"):
        AdditiveNoise(kind="mixture", resample=True)
    with pytest.raises(ValidationError, match="exact"):
        AdditiveNoise(kind="normal-scores", exact=True)
