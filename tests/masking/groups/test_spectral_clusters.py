"""Spectral clusters: eigenvectors against SciPy, k-means against scikit-learn, separated clusters, sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter
from scipy.linalg import eigh
from scipy.spatial.distance import pdist, squareform
from sklearn.cluster import KMeans
from sklearn.datasets import make_circles
from sklearn.metrics import adjusted_rand_score

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.groups import AnyGroups
from gpuanon.masking.groups.spectral_clusters import Spectral, spectral_clusters
from gpuanon.numerics import spectral as spectral_module
from gpuanon.numerics.kmeans import kmeans, seeds
from gpuanon.numerics.metric import Metric
from gpuanon.numerics.spectral import leading_eigenvectors, median_distances, spectral_coordinates, width
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]


def draws(n: int):
    return Key(b"spectral cluster tests").draws(np.arange(n))


def blobs(n: int, centres: int, d: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, centres, n)
    return 8 * rng.normal(size=(centres, d))[labels] + rng.normal(size=(n, d)), labels


def normalised_affinity(X: np.ndarray, sigma: float) -> np.ndarray:
    """Eq. 5.1–5.3, written out."""
    S = np.exp(-(squareform(pdist(X)) ** 2) / (2 * sigma**2))
    np.fill_diagonal(S, 0)
    root = 1 / np.sqrt(S.sum(axis=1))
    return root[:, None] * S * root[None, :]


def test_leading_eigenvectors_equal_those_of_lapack():
    rng = np.random.default_rng(0)
    matrices = []
    for _ in range(3):
        M = rng.normal(size=(120, 120))
        matrices.append(M @ M.T / 120)
    L = np.stack(matrices)
    vectors, values = leading_eigenvectors(
        lambda V: L @ V, rng.normal(size=(3, 120, 10)), 6, tolerance=1e-9, restarts=50
    )
    for at in range(3):
        expected, axes = eigh(L[at], subset_by_index=[114, 119])
        np.testing.assert_allclose(values[at], expected[::-1], rtol=1e-10)
        np.testing.assert_allclose(np.abs((vectors[at] * axes[:, ::-1]).sum(axis=0)), 1.0, atol=1e-7)


def test_an_operator_of_low_rank_is_handled():
    u = np.ones((1, 50, 1)) / np.sqrt(50)
    vectors, values = leading_eigenvectors(
        lambda V: u @ (u.transpose(0, 2, 1) @ V), np.random.default_rng(1).normal(size=(1, 50, 6)), 3
    )
    np.testing.assert_allclose(values[0], [1, 0, 0], atol=1e-12)
    assert np.isfinite(vectors).all()


@pytest.mark.parametrize("sigma", [None, 2.0])
def test_spectral_coordinates_span_the_eigenvectors_of_the_definition(sigma):
    X, _ = blobs(400, 5)
    q = 5
    start = draws(400).uniform(width(q))[None] - 0.5
    Y = spectral_coordinates(X[None], q, sigma, start)[0]
    scale = float(median_distances(X[None])[0]) if sigma is None else sigma
    _, V = eigh(normalised_affinity(X, scale), subset_by_index=[400 - q, 399])
    expected = V / np.linalg.norm(V, axis=1, keepdims=True)
    np.testing.assert_allclose(np.linalg.norm(Y, axis=1), 1.0, rtol=1e-12)
    # The vectors are known up to a rotation of the plane they span: angles between rows are not.
    np.testing.assert_allclose(Y @ Y.T, expected @ expected.T, atol=5e-3)


def test_the_median_distance_equals_its_definition():
    X = np.random.default_rng(2).normal(size=(200, 4))
    np.testing.assert_allclose(median_distances(X[None]), np.median(pdist(X)), rtol=1e-12)
    assert median_distances(np.zeros((2, 1, 3))).tolist() == [1.0, 1.0]
    assert median_distances(np.zeros((1, 9, 3))).tolist() == [1.0]


def test_affinities_that_are_not_stored_give_the_same_coordinates(monkeypatch):
    X, _ = blobs(300, 4)
    start = draws(300).uniform(width(4))[None] - 0.5
    stored = spectral_coordinates(X[None], 4, None, start)
    monkeypatch.setattr(spectral_module, "DENSE", 10)
    streamed = spectral_coordinates(X[None], 4, None, start)
    np.testing.assert_allclose(streamed @ streamed.transpose(0, 2, 1), stored @ stored.transpose(0, 2, 1), atol=5e-3)


def test_kmeans_is_as_good_as_that_of_scikit_learn():
    for seed in range(3):
        X, _ = blobs(500, 6, seed=seed)
        starts = (Key(b"k" * 16).draws(np.arange(500), str(at)).uniform(6)[None] for at in range(4))
        best = min(kmeans(X[None], seeds(X[None], uniforms))[1][0] for uniforms in starts)
        reference = KMeans(6, n_init=4, random_state=0).fit(X).inertia_
        assert best <= 1.001 * reference


def test_kmeans_labels_are_the_nearest_centres_of_their_own_clusters():
    X, _ = blobs(200, 3)
    labels, loss = kmeans(X[None], seeds(X[None], draws(200).uniform(3)[None]))
    centres = np.stack([X[labels[0] == c].mean(axis=0) for c in range(3)])
    distances = ((X[:, None] - centres) ** 2).sum(axis=2)
    np.testing.assert_array_equal(labels[0], distances.argmin(axis=1))
    np.testing.assert_allclose(loss[0], distances.min(axis=1).sum())


def test_kmeans_seeds_are_drawn_by_squared_distance():
    # Three points: after the first seed at 0, the second is at 1 or 3 with probabilities 1/10 and 9/10.
    X = np.tile([[0.0], [1.0], [3.0]], (1, 1))[None]
    uniforms = np.random.default_rng(3).uniform(size=(20_000, 3, 2))
    uniforms[:, 0, 0], uniforms[:, 1:, 0] = 0.999, 0.5  # least −log u: the first row starts
    centres = seeds(np.repeat(X, 20_000, axis=0), uniforms)
    assert abs((centres[:, 1, 0] == 3).mean() - 0.9) < 0.01


def test_separated_clusters_are_found():
    X, truth = blobs(800, 4, seed=5)
    p = spectral_clusters(X, Partition.whole(800), 200, draws(800))
    assert adjusted_rand_score(truth, p.labels()) > 0.98


def test_rings_are_found_with_a_small_scale():
    X, truth = make_circles(600, factor=0.3, noise=0.03, random_state=0)
    p = spectral_clusters(X, Partition.whole(600), 300, draws(600), sigma=0.1)
    assert adjusted_rand_score(truth, p.labels()) == 1.0
    assert adjusted_rand_score(truth, KMeans(2, n_init=4, random_state=0).fit_predict(X)) < 0.1


@settings(max_examples=25)
@given(n=st.integers(1, 250), target=st.integers(2, 90), kinds=st.integers(1, 30))
@example(n=300, target=20, kinds=1)
@example(n=120, target=2, kinds=30)
@example(n=1, target=2, kinds=1)
@example(n=29, target=20, kinds=5)
@example(n=31, target=20, kinds=5)
def test_sizes_are_within_their_bounds(n, target, kinds):
    X = np.random.default_rng(n).integers(0, kinds, size=(n, 2)).astype(float) ** 3
    p = Spectral(target=target, block=128).form(X, draws(n))
    assert sorted(p.order.tolist()) == list(range(n))
    assert p.sizes.max() <= 1.5 * target
    assert p.sizes.min() >= min(n, np.floor(0.75 * target))


def test_small_clusters_join_and_large_ones_are_cut():
    rng = np.random.default_rng(6)
    X = np.concatenate([rng.normal(size=(460, 2)), 30 + 0.1 * rng.normal(size=(5, 2)), -30 + rng.normal(size=(135, 2))])
    p = spectral_clusters(X, Partition.whole(600), 150, draws(600), sigma=3.0)
    assert p.sizes.min() >= 112
    assert p.sizes.max() <= 225
    far = p.labels()[465:]
    assert (far == far[0]).all(), "what belongs together and has the right size stays together"


def test_blocks_make_it_linear_and_are_not_crossed():
    X, _ = blobs(3000, 10, seed=7)
    p = Spectral(target=50, block=512).form(X, draws(3000))
    assert p.sizes.min() >= 0.75 * 50 - 1
    assert p.sizes.max() <= 75
    spread = sum(X[p.order[a:b]].var(axis=0).sum() * (b - a) for a, b in zip(p.starts[:-1], p.starts[1:], strict=True))
    assert spread / (X.var(axis=0).sum() * 3000) < 0.05


def test_clusters_of_a_part_do_not_depend_on_other_parts(monkeypatch):
    X, _ = blobs(700, 6, seed=8)
    within = Partition.from_labels(np.arange(700) % 2)
    p = spectral_clusters(X, within, 60, draws(700))
    rows = within.order[: within.starts[1]]
    alone = spectral_clusters(X[rows], Partition.whole(len(rows)), 60, draws(700).take(rows))
    assert adjusted_rand_score(p.labels()[rows], alone.labels()) == 1.0
    monkeypatch.setenv("GPUANON_THREADS", "1")
    np.testing.assert_array_equal(spectral_clusters(X, within, 60, draws(700)).labels(), p.labels())


def test_the_metric_scales_the_columns_and_gower_is_refused():
    X, _ = blobs(300, 3, seed=9)
    weighted = Spectral(target=100).form(X, draws(300), Metric(weights=(4.0, 1.0, 1.0)))
    stretched = Spectral(target=100).form(X * [2.0, 1.0, 1.0], draws(300))
    np.testing.assert_array_equal(weighted.labels(), stretched.labels())
    with pytest.raises(ParameterError, match="Euclidean"):
        Spectral().form(X, draws(300), Metric(kind="gower"))


def test_recipes_name_spectral_groups():
    assert TypeAdapter(AnyGroups).validate_python({"use": "spectral", "target": 300}) == Spectral(target=300)
    with pytest.raises(ValueError, match="sigma"):
        Spectral(sigma=0)


def test_they_run_on_the_device_of_the_array(xp):
    X, truth = blobs(120, 3, seed=10)
    moved = xp.asarray(X)
    records = Key(b"spectral cluster tests").draws(xp.arange(120))
    p = spectral_clusters(moved, Partition.whole(120, moved), 40, records)
    assert isinstance(p.order, xp.ndarray)
    assert adjusted_rand_score(truth, host(p.labels())) > 0.5
    np.testing.assert_array_equal(host(p.labels()), spectral_clusters(X, Partition.whole(120), 40, draws(120)).labels())
