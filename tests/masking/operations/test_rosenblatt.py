"""Conditional distribution functions of Gaussian mixtures, against SciPy's densities integrated numerically."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import logsumexp, ndtr

from gpuanon.arrays.compiled import use_compiled
from gpuanon.errors import GpuanonError
from gpuanon.masking.operations.dither import rosenblatt
from gpuanon.masking.operations.dither.rosenblatt import conditional_cdfs, whiten


def mixture(rng, c, d, jitter=0.3):
    """Weights, means and covariances of a random mixture."""
    roots = rng.normal(size=(c, d, d))
    covariances = roots @ roots.transpose(0, 2, 1) / d + jitter * np.eye(d)
    return rng.dirichlet(np.ones(c)), rng.normal(size=(c, d)) * 2, covariances


def transform(x, weights, means, covariances):
    """`conditional_cdfs` of one block."""
    _, whitening = whiten(covariances)
    ends = [np.array([0, m]) for m in (len(x), len(means))]
    return conditional_cdfs(x, ends[0], means, whitening, np.log(weights), ends[1])


def sample(rng, n, weights, means, covariances):
    component = rng.choice(len(weights), size=n, p=weights)
    L = np.linalg.cholesky(covariances)
    return means[component] + np.einsum("nij,nj->ni", L[component], rng.normal(size=(n, means.shape[1])))


def integrated(x, weights, means, covariances):
    """F_j(x_j | x_<j) as a ratio of integrals of SciPy's joint density of the first j columns."""
    u = []
    for j in range(len(x)):
        parts = [
            stats.multivariate_normal(mean[: j + 1], covariance[: j + 1, : j + 1])
            for mean, covariance in zip(means, covariances, strict=True)
        ]

        def density(t, parts=parts, j=j):
            at = np.append(x[:j], t)
            return sum(w * part.pdf(at) for w, part in zip(weights, parts, strict=True))

        # The kinks are only sharp peaks: cut the line at every component's mean and at x itself.
        cuts = np.unique(np.concatenate([means[:, j], [x[j]], [-40.0, 40.0]]))

        def between(low, high, density=density, cuts=cuts):
            edges = [low, *(c for c in cuts if low < c < high), high]
            return sum(
                integrate.quad(density, a, b, epsabs=1e-14, epsrel=1e-13, limit=200)[0]
                for a, b in itertools.pairwise(edges)
            )

        below, above = between(-40.0, x[j]), between(x[j], 40.0)
        u.append(below / (below + above))
    return np.array(u)


@pytest.mark.parametrize("d", [2, 3])
def test_conditionals_equal_numerical_integration(d):
    rng = np.random.default_rng(d)
    weights, means, covariances = mixture(rng, 4, d)
    x = sample(rng, 6, weights, means, covariances)
    expected = np.array([integrated(row, weights, means, covariances) for row in x])
    np.testing.assert_allclose(transform(x, weights, means, covariances), expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("d", [1, 2, 5, 10])
def test_samples_of_the_mixture_become_uniform_and_independent(d):
    rng = np.random.default_rng(100 + d)
    weights, means, covariances = mixture(rng, 8, d)
    u = transform(sample(rng, 100_000, weights, means, covariances), weights, means, covariances)
    assert min(stats.kstest(column, "uniform").pvalue for column in u.T) > 1e-5
    if d > 1:
        assert np.abs(np.corrcoef(u.T) - np.eye(d)).max() < 0.015
        # Dependence that a correlation does not see.
        assert np.abs(np.corrcoef(np.abs(u.T - 0.5)) - np.eye(d)).max() < 0.015


def test_one_component_gives_the_normal_distribution_of_each_whitened_coordinate():
    rng = np.random.default_rng(5)
    covariance = np.array([[2.0, 0.6], [0.6, 1.0]])
    x = rng.normal(size=(50, 2))
    mean = np.array([0.3, -1.0])
    slope = 0.6 / 2.0
    first = stats.norm.cdf(x[:, 0], 0.3, np.sqrt(2.0))
    second = stats.norm.cdf(x[:, 1], -1.0 + slope * (x[:, 0] - 0.3), np.sqrt(1.0 - 0.6 * slope))
    u = transform(x, np.ones(1), mean[None], covariance[None])
    np.testing.assert_allclose(u, np.column_stack([first, second]), rtol=1e-12)


def test_blocks_use_their_own_components_only():
    rng = np.random.default_rng(7)
    blocks = [mixture(rng, c, 3) for c in (1, 4, 9)]
    xs = [sample(rng, m, *block) for m, block in zip((30, 1, 200), blocks, strict=True)]
    apart = [transform(x, *block) for x, block in zip(xs, blocks, strict=True)]
    weights, means, covariances = (np.concatenate(part) for part in zip(*blocks, strict=True))
    together = conditional_cdfs(
        np.concatenate(xs),
        np.cumsum([0, 30, 1, 200]),
        means,
        whiten(covariances)[1],
        np.log(weights),
        np.cumsum([0, 1, 4, 9]),
    )
    np.testing.assert_allclose(together, np.concatenate(apart), atol=1e-15)


def test_tiles_and_threads_change_results_by_rounding_at_most(monkeypatch):
    rng = np.random.default_rng(8)
    block = mixture(rng, 20, 4)
    x = sample(rng, 3000, *block)
    whole = transform(x, *block)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    np.testing.assert_array_equal(transform(x, *block), whole)
    monkeypatch.setattr(rosenblatt, "TILE", 1 << 9)
    np.testing.assert_allclose(transform(x, *block), whole, rtol=1e-13)


def test_far_samples_and_weightless_components_stay_finite():
    means = np.array([[0.0, 0.0], [1.0, 1.0], [-1.0, 2.0]])
    covariances = np.repeat(np.eye(2)[None] / 3, 3, axis=0)
    _, whitening = whiten(covariances)
    x = np.array([[0.0, 0.0], [300.0, -400.0], [-300.0, 1.0]])
    ends = np.array([0, 3])
    u = conditional_cdfs(x, ends, means, whitening, np.array([0.0, 0.0, -np.inf]), ends)
    assert np.isfinite(u).all()
    assert ((u >= 0) & (u <= 1)).all()
    two = conditional_cdfs(x, ends, means[:2], whitening[:2], np.zeros(2), np.array([0, 2]))
    np.testing.assert_allclose(u, two, atol=1e-15)


def test_samples_whose_powers_overflow_are_0_or_1():
    _, whitening = whiten(np.eye(1)[None])
    ends = np.array([0, 2]), np.array([0, 1])
    u = conditional_cdfs(np.array([[1e60], [-1e60]]), ends[0], np.zeros((1, 1)), whitening, np.zeros(1), ends[1])
    np.testing.assert_array_equal(u, [[1.0], [0.0]])


def test_whitening_inverts_the_loaded_covariance():
    rng = np.random.default_rng(3)
    _, _, covariances = mixture(rng, 50, 6, jitter=0.0)
    L, W = whiten(covariances, 1 / 3)
    loaded = covariances + np.eye(6) / 3
    np.testing.assert_allclose(L, np.linalg.cholesky(loaded), atol=1e-13)
    np.testing.assert_allclose(W @ L, np.repeat(np.eye(6)[None], 50, axis=0), atol=1e-12)


@pytest.mark.parametrize("points", [np.ones((4, 3)), np.array([[0.0, 0, 0], [1, 2, 3], [2, 4, 6]]), np.eye(3)[:2]])
def test_singular_groups_need_a_positive_alpha(points):
    covariance = np.cov(points.T, bias=True)[None]
    with pytest.raises(GpuanonError, match="alpha"):
        whiten(covariance, 0.0)
    L, _ = whiten(covariance, 1 / 3)
    np.testing.assert_allclose(L[0] @ L[0].T, covariance[0] + np.eye(3) / 3, atol=1e-14)


def density_and_below(z):
    """exp(−z²/2) and Φ(z) as the tiles compute them."""
    posterior, density, below = np.ones_like(z), np.empty_like(z), np.empty_like(z)
    rosenblatt._weigh_numpy(posterior, -z, density, below, np.empty((2, len(z))))
    np.testing.assert_array_equal(posterior, density)
    return density, below / 2


def test_the_normal_distribution_function_equals_scipys():
    z = np.concatenate([np.linspace(-37.5, 40, 400_001), [0.0, -0.0, 1e-300, -1e-300]])
    density, below = density_and_below(z)
    np.testing.assert_allclose(below, ndtr(z), rtol=5e-13, atol=0)
    np.testing.assert_array_equal(density, np.exp(-0.5 * (z * z)))
    far = density_and_below(np.array([-700.0, -60.0, 60.0, 700.0]))
    np.testing.assert_array_equal(far, [[0, 0, 0, 0], [0, 0, 1, 1]])


@pytest.mark.skipif(not use_compiled(10**9), reason="numba is not installed or is turned off")
def test_compiled_tiles_are_those_of_numpy_to_the_bit():
    rng = np.random.default_rng(3)
    y = np.concatenate([rng.normal(0, 4, 4000), [0.0, -0.0, 1e-300, -1e-300, 60.0, -60.0, 1e160, -1e160]])
    found = []
    for weigh in (rosenblatt._weigh_numpy, rosenblatt._weigh_compiled):
        posterior, density, below = np.full(len(y), 0.3), np.empty_like(y), np.empty_like(y)
        with np.errstate(over="ignore", invalid="ignore"):
            weigh(posterior, y.copy(), density, below, np.empty((2, len(y))))
        found.append(np.stack([posterior, density, below]))
    np.testing.assert_array_equal(*found)


def test_the_normal_distribution_function_has_its_tabled_values():
    """Abramowitz and Stegun (1964), table 26.1: P(x), 15 decimals."""
    tabled = [0.841344746068543, 0.977249868051821, 0.998650101968370]
    np.testing.assert_allclose(density_and_below(np.array([1.0, 2.0, 3.0]))[1], tabled, rtol=5e-13)


@pytest.mark.parametrize("real", [np.float64, np.float32])
def test_small_probabilities_keep_their_precision(real):
    """A tail of 1e-15 has the same relative precision as ½: nothing is subtracted from 1 or ½."""
    z = np.array([-8.0, -6.0, -4.0, -2.0, 0.0, 2.0])
    covariances = np.array([[[4.0]], [[0.25]]])
    means, weights = np.array([[1.0], [-0.5]], real), np.array([0.75, 0.25])
    x = (1 + 2 * z[:, None]).astype(real)
    ends = np.array([0, len(z)]), np.array([0, 2])
    u = conditional_cdfs(x, ends[0], means, whiten(covariances)[1].astype(real), np.log(weights).astype(real), ends[1])
    residuals = (x - means.T.astype(np.float64)) / [2.0, 0.5]
    expected = np.exp(logsumexp(stats.norm.logcdf(residuals), axis=1, b=weights))
    np.testing.assert_allclose(u[:, 0], expected, rtol={np.float64: 1e-12, np.float32: 1e-6}[real])
    assert u.dtype == real


def test_samples_whose_weights_underflow_are_computed_in_logarithms():
    """Both computations agree where neither underflows."""
    rng = np.random.default_rng(11)
    weights, means, covariances = mixture(rng, 7, 4)
    x = sample(rng, 200, weights, means, covariances)
    _, whitening = whiten(covariances)
    expected = rosenblatt._tile_in_logs(
        np.column_stack([x, np.ones(200)]),
        rosenblatt._linear_forms(means, whitening),
        np.log(whitening.diagonal(axis1=1, axis2=2)),
        np.log(weights),
    )
    np.testing.assert_allclose(transform(x, weights, means, covariances), expected, rtol=1e-12)
