"""FastICA in lock step: equal to scikit-learn's, and valid where scikit-learn's fails."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases.linear import Ica, ica_coordinates
from gpuanon.numerics.ica import fastica, independent_axes, whitening
from gpuanon.numerics.svd import principal_axes
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]


def mixed(n: int, d: int, seed: int) -> np.ndarray:
    """Independent skewed and heavy-tailed sources, mixed."""
    rng = np.random.default_rng(seed)
    sources = np.where(np.arange(d) % 2, rng.exponential(size=(n, d)), rng.laplace(size=(n, d)))
    return sources @ rng.normal(size=(d, d)) + rng.normal(size=d)


def whitened(X: np.ndarray) -> np.ndarray:
    p = Partition.whole(len(X))
    axes = principal_axes(X, p)
    return (X - axes.means[0]) @ whitening(axes, p)[0]


def theirs(X: np.ndarray, **options: object) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return FastICA(fun="logcosh", algorithm="parallel", random_state=0, **options).fit_transform(X)


def up_to_sign_and_order(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """For each column of `a` its largest |correlation| with a column of `b`, each used once."""
    from scipy.optimize import linear_sum_assignment

    c = np.abs(np.corrcoef(a.T, b.T)[: a.shape[1], a.shape[1] :])
    return c[linear_sum_assignment(-c)]


@pytest.mark.parametrize("iterations", [1, 3, 20])
def test_every_iteration_equals_that_of_scikit_learn(iterations):
    X = mixed(300, 5, 0)
    Z = whitened(X)
    start = np.random.default_rng(1).normal(size=(5, 5))
    W = fastica(Z[None], np.array([300]), np.ones((1, 5), bool), start[None], iterations, tolerance=0)[0]
    reference = theirs(Z, whiten=False, w_init=start, max_iter=iterations, tol=1e-300)
    np.testing.assert_allclose(Z @ W.T, reference, atol=1e-8)


def test_converged_sources_equal_those_of_scikit_learn_in_every_group():
    X = np.concatenate([mixed(n, 4, seed) for seed, n in enumerate((500, 900, 640))])
    p = Partition.from_labels(np.repeat(np.arange(3), (500, 900, 640)))
    T, _ = ica_coordinates(X, p, iterations=300)
    for part in range(3):
        rows = p.order[p.starts[part] : p.starts[part + 1]]
        reference = theirs(X[rows], whiten="unit-variance", max_iter=500, tol=1e-8)
        assert up_to_sign_and_order(T[rows], reference).min() > 0.9999
        np.testing.assert_allclose(T[rows].std(axis=0), 1.0, rtol=1e-10)


def test_the_sources_are_found():
    rng = np.random.default_rng(5)
    sources = np.column_stack([rng.uniform(size=3000), rng.laplace(size=3000), rng.exponential(size=3000)])
    T, _ = ica_coordinates(sources @ rng.normal(size=(3, 3)), Partition.whole(3000))
    assert up_to_sign_and_order(T, sources).min() > 0.99


def test_rank_deficient_groups_keep_their_components_and_are_invertible():
    rng = np.random.default_rng(6)
    X = mixed(400, 4, 7)
    levels = rng.integers(0, 3, 400)
    X = np.column_stack([X, *(np.where(levels == level, 1.0, -1.0) for level in range(3)), X[:, 0] + X[:, 1]])
    p = Partition.from_labels(rng.integers(0, 2, 400))
    T, back = ica_coordinates(X, p)
    np.testing.assert_allclose(back(T), X, atol=1e-9)
    # Four sources and two free indicators; the third and the sum are dropped before the unmixing.
    assert ((T != 0).any(axis=0)).sum() == 6
    rows = p.order[: p.starts[1]]
    alive = (T[rows] != 0).any(axis=0)
    np.testing.assert_allclose(np.cov(T[rows][:, alive].T, bias=True), np.eye(6), atol=1e-9)


@pytest.mark.parametrize(
    "X",
    [
        np.ones((9, 3)),
        np.zeros((1, 4)),
        np.array([[1.0, 2.0], [3.0, 2.0]]),
        np.repeat([[1.0, 0.0], [0.0, 1.0]], 4, axis=0),
        np.column_stack([np.arange(6.0), 1e-9 * np.arange(6.0) ** 2]),
    ],
    ids=["constant", "one row", "two rows", "two kinds of row", "one column far smaller"],
)
def test_degenerate_groups_are_handled(X):
    T, back = ica_coordinates(X, Partition.whole(len(X)))
    assert np.isfinite(T).all()
    np.testing.assert_allclose(back(T), X, atol=1e-6)
    assert (np.linalg.norm(T, axis=0) < 1e3).all(), "rounding is not blown up to the size of data"


def test_dropped_components_do_not_affect_others():
    X = mixed(200, 3, 8)
    wide = np.column_stack([X[:, 0], np.full(200, 7.0), X[:, 1:]])
    T, _ = ica_coordinates(X, Partition.whole(200))
    U, _ = ica_coordinates(wide, Partition.whole(200))
    assert not U[:, 3].any()
    np.testing.assert_allclose(np.abs(U[:, :3]), np.abs(T), atol=1e-8)


def test_without_convergence_the_result_is_still_an_orthogonal_matrix():
    X = np.random.default_rng(9).normal(size=(150, 6))  # Gaussian: there is nothing to converge to
    p = Partition.whole(150)
    _, W = independent_axes(X, p, iterations=2)
    np.testing.assert_allclose(W[0] @ W[0].T, np.eye(6), atol=1e-10)


def test_converged_groups_do_not_change_while_others_iterate():
    easy, hard = mixed(256, 2, 10), np.random.default_rng(11).normal(size=(256, 2))
    p = Partition.from_labels(np.repeat([0, 1], 256))
    together, _ = ica_coordinates(np.concatenate([easy, hard]), p, iterations=200)
    alone, _ = ica_coordinates(easy, Partition.whole(256), iterations=200)
    np.testing.assert_array_equal(together[:256], alone)


def test_it_runs_on_the_device_of_the_array(xp):
    X = mixed(160, 3, 12)
    T, _ = Ica(iterations=5).forward(xp.asarray(X), Partition.whole(160, xp.asarray(X)))
    assert isinstance(T, xp.ndarray)
    np.testing.assert_allclose(host(T), Ica(iterations=5).forward(X, Partition.whole(160))[0], atol=1e-9)
