"""k-means of many parts: each as Lloyd's algorithm from its definition, and as scikit-learn from the same centres."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from gpuanon.numerics.kmeans import best_kmeans, kmeans, seeds


def lloyd(Y, centres, iterations=50):
    """One part, row by row and cluster by cluster."""
    labels = np.full(len(Y), -1)
    for _ in range(iterations):
        new = np.array([np.square(centres - y).sum(axis=1).argmin() for y in Y])
        if (new == labels).all():
            break
        labels = new
        for c in range(len(centres)):
            if (labels == c).any():
                centres[c] = Y[labels == c].mean(axis=0)
    return labels, np.square(Y - centres[labels]).sum()


@pytest.mark.parametrize("q", [2, 5, 9])
def test_every_part_is_clustered_by_itself(q):
    rng = np.random.default_rng(q)
    Y, u = rng.normal(size=(4, 90, 3)), rng.random((4, 90, q))
    Y[1] *= 5  # parts converge at different iterations
    Y[2] = np.repeat(Y[2, :9], 10, axis=0)
    first = seeds(Y, u)
    labels, loss = kmeans(Y, first.copy())
    for part in range(4):
        expected, its_loss = lloyd(Y[part], first[part].copy())
        np.testing.assert_allclose(loss[part], its_loss, rtol=1e-9, atol=1e-9)
        if part != 2:  # equal rows: centres may tie
            np.testing.assert_array_equal(labels[part], expected)


@pytest.mark.filterwarnings("ignore:Number of distinct clusters")
def test_the_loss_is_that_of_scikit_learn_from_the_same_centres():
    rng = np.random.default_rng(0)
    Y, u = rng.normal(size=(3, 200, 4)), rng.random((3, 200, 6))
    first = seeds(Y, u)
    _, loss = kmeans(Y, first.copy(), iterations=300)
    for part in range(3):
        model = KMeans(6, init=first[part], n_init=1, max_iter=300, tol=0, algorithm="lloyd").fit(Y[part])
        np.testing.assert_allclose(loss[part], model.inertia_, rtol=1e-6)


def test_the_best_of_several_starts_ends_near_the_best_loss_of_all():
    """And it is a fixed point of Lloyd's algorithm."""
    rng = np.random.default_rng(4)
    Y, starts = rng.normal(size=(5, 300, 3)), [rng.random((5, 300, 7)) for _ in range(4)]
    Y += 3 * rng.integers(0, 2, size=(5, 300, 3))
    labels = best_kmeans(Y, starts)
    all_losses = np.array([kmeans(Y, seeds(Y, u))[1] for u in starts])
    for part in range(5):
        centres = np.array([Y[part][labels[part] == c].mean(axis=0) for c in range(7)])
        again, loss = lloyd(Y[part], centres)
        np.testing.assert_array_equal(labels[part], again)
        assert loss <= 1.03 * all_losses[:, part].min()
