"""Cluster balance: the formula written out over scikit-learn's own clusters, and its extremes."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.cluster import KMeans

from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.utility import cluster_balance as clusters
from gpuanon.assessing.utility.cluster_balance import cluster_balance
from gpuanon.errors import ParameterError


def blobs(counts, seed=0):
    """Records round three far corners, so that there is one best clustering; `counts` of them at each."""
    rng = np.random.default_rng(seed)
    corners = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 100.0]])
    return np.repeat(corners, counts, axis=0) + rng.normal(size=(sum(counts), 2))


def test_the_formula_over_the_clusters_that_are_there():
    before, after = (50, 30, 20), (20, 60, 40)
    found = cluster_balance(blobs(before), blobs(after, seed=1), clusters=3)
    c = 100 / 220
    squares = [(a / (a + b) - c) ** 2 for a, b in zip(before, after, strict=True)]
    assert found.value == pytest.approx(sum(squares) / 3, rel=1e-12)
    weighted = sum((a + b) * s for a, b, s in zip(before, after, squares, strict=True)) / 220
    assert found.details["by_size"] == pytest.approx(weighted, rel=1e-12)
    assert found.details["share_original"] == c


def test_clusters_are_as_good_as_scikit_learns(monkeypatch):
    """The start is drawn with care: the sum of squares is near the best of ten starts of scikit-learn."""
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(2, 1500, 3))
    kept = {}
    plain = clusters.rapids.kmeans
    monkeypatch.setattr(
        clusters.rapids, "kmeans", lambda *given, **more: kept.setdefault("found", plain(*given, **more))
    )
    cluster_balance(X, Y, clusters=8)
    both = np.concatenate([X, Y])
    labels, centres = kept["found"]
    best = KMeans(8, n_init=10, random_state=0).fit(both).inertia_
    assert ((both - centres[labels]) ** 2).sum() < 1.1 * best


def test_a_copy_is_balanced_and_far_records_are_not():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(700, 4))
    assert cluster_balance(X, X.copy()).value == 0
    assert cluster_balance(X, X + 1000).value == pytest.approx(0.25)
    apart = cluster_balance(X, X[:100] + 1000)
    assert apart.details["by_size"] == pytest.approx(700 / 800 * 100 / 800)


def test_independent_samples_differ_by_chance_only():
    """n_jo is binomial given n_j: the weighted sum has the expectation c (1 − c) (G − 1) / N, about."""
    values = []
    for seed in range(30):
        X, Y = np.random.default_rng(seed).normal(size=(2, 400, 3))
        values.append(cluster_balance(X, Y, clusters=6).details["by_size"])
    expected = 0.25 * 5 / 800
    # Chi-squared with 5 degrees of freedom: a deviation of √(2/5) of the mean for one, √(2/150) for thirty.
    assert np.mean(values) == pytest.approx(expected, rel=5 * np.sqrt(2 / 150))


def test_fewer_different_records_than_clusters():
    X = np.array([[0.0], [0.0], [1.0], [2.0]])
    found = cluster_balance(X, X[:3])
    assert found.details["clusters"] == 3
    c = 4 / 7
    assert found.value == pytest.approx((2 * (1 / 2 - c) ** 2 + (1 - c) ** 2) / 3)
    assert cluster_balance(np.ones((5, 2)), np.ones((3, 2))).value == 0


def test_large_tables_are_sampled_and_say_so(monkeypatch):
    monkeypatch.setattr(clusters, "CLUSTER_ROWS", 200)
    X = np.random.default_rng(1).normal(size=(1000, 2))
    found = cluster_balance(X, X.copy())
    assert found.note.startswith("on a random sample of 200 original and 200 released rows; right to ±0 (95 %)")
    assert found.value == 0  # of a copy in the same order the same records are drawn
    assert cluster_balance(X, X[::-1].copy()) == cluster_balance(X, X[::-1].copy())


def test_what_cannot_be_is_refused():
    with pytest.raises(ParameterError, match="clusters: a whole number from 1 up is allowed, got 0"):
        cluster_balance(np.ones((3, 1)), np.ones((3, 1)), clusters=0)
    with pytest.raises(ParameterError, match="columns"):
        cluster_balance(np.ones((3, 1)), np.ones((3, 2)))


def test_tables_of_different_sizes_stay_in_the_stated_range():
    """Ten far originals are clusters of their own: (1 − c)² each, c = 10 / 1010, which is more than 1 / 4."""
    original, release = 100.0 * np.arange(10)[:, None], np.arange(1000)[:, None] % 10 - 500.0
    found = cluster_balance(original, release)
    c = 10 / 1010
    assert found.value == pytest.approx(((1 - c) ** 2 + c**2) / 2)
    low, high = MEASURES["cluster_balance"].range
    assert low <= found.value <= high
