"""Tree-dependent components: the contrast against SciPy and scikit-learn, the rotation against known sources."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import differential_entropy
from sklearn.metrics import mutual_info_score

from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases.linear import Ica
from gpuanon.masking.bases.tca import Tca, _counts, forest_links, sorted_columns, spacing_entropy, tree_rotation
from gpuanon.numerics.chow_liu import quantile_classes

ROWS = np.array([512])
COUNTS = np.array([8])


def tree_sources(n=512, seed=0):
    """Whitened sources of two trees: b spreads with a; d is a parabola of c, and e spreads with d."""
    rng = np.random.default_rng(seed)
    a, c = rng.laplace(size=n), rng.uniform(-1, 1, n)
    b, d = np.abs(a) * rng.normal(size=n), c**2 + 0.2 * rng.normal(size=n)
    return whitened(np.column_stack([a, b, c, d, rng.normal(size=n) * np.exp(0.7 * d)]))


def whitened(S):
    S = S - S.mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(S.T, bias=True))
    return S @ vectors / np.sqrt(values) @ vectors.T


def contrast(columns, rows):
    """(b,) Σ H − Σ_T I of whitened components (b, c, length), which the rotation makes small."""
    links, strength = forest_links(quantile_classes(columns, rows, _counts(rows)), rows, _counts(rows))
    return spacing_entropy(sorted_columns(columns, rows), rows).sum(axis=1) - (links * strength).sum(axis=(1, 2)) / 2.0


def of(S):
    return float(contrast(S.T[None], np.array([len(S)]))[0])


def test_entropies_are_scipys_with_and_without_padding():
    S = tree_sources()
    expected = [differential_entropy(column, window_length=22, method="vasicek") for column in S.T]
    np.testing.assert_allclose(spacing_entropy(sorted_columns(S.T[None], ROWS), ROWS)[0], expected, rtol=1e-12)
    padded = np.concatenate([S.T, np.zeros((5, 30))], axis=1)[None]
    np.testing.assert_allclose(spacing_entropy(sorted_columns(padded, ROWS), ROWS)[0], expected, rtol=1e-12)


def test_the_contrast_is_entropies_less_the_information_of_the_strongest_forest():
    S = tree_sources()
    classes = quantile_classes(S.T[None], ROWS, COUNTS)[0]
    links, strength = forest_links(classes[None], ROWS, COUNTS)
    shared = np.array([[mutual_info_score(one, other) for one in classes] for other in classes])
    off = ~np.eye(5, dtype=bool)
    np.testing.assert_allclose(strength[0][off], shared[off], atol=1e-9)
    np.testing.assert_array_equal(links[0], links[0].T)
    assert links[0][0, 1] == links[0][2, 3] == 1
    assert links[0][:2, 2:].sum() == 0
    entropies = sum(differential_entropy(column, window_length=22, method="vasicek") for column in S.T)
    assert of(S) == pytest.approx(entropies - (links[0] * shared).sum() / 2, abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_turned_sources_are_found_as_well_as_they_were(seed):
    """From independent components the contrast falls at least to that of the sources, on the rows it was sought on."""
    S = tree_sources(seed=seed)
    X = S @ np.linalg.qr(np.random.default_rng(seed).normal(size=(5, 5)))[0]
    found, back = Tca().forward(X, Partition.whole(512))
    start, _ = Ica().forward(X, Partition.whole(512))
    assert of(found) <= min(of(start), of(S)) + 1e-9
    np.testing.assert_allclose(back(found), X, atol=1e-12)
    np.testing.assert_allclose(np.cov(found.T, bias=True), np.eye(5), atol=1e-9)


def test_the_contrast_never_rises_and_dropped_axes_stay():
    S = tree_sources(seed=7)
    X = (S @ np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]).T[None]
    alive = np.array([[True, True, True, True, False]])
    before = np.inf
    for sweeps in (1, 2, 3):
        R = tree_rotation(X, ROWS, alive, sweeps)
        np.testing.assert_allclose(R[0] @ R[0].T, np.eye(5), atol=1e-12)
        np.testing.assert_array_equal(R[0, 4], np.eye(5)[4])
        after = float(contrast(R @ X, ROWS)[0])
        assert after <= before + 1e-9
        before = after


def test_groups_do_not_influence_each_other():
    tables = [tree_sources(n, seed) for seed, n in enumerate((300, 512, 700))]
    X = np.concatenate(tables)
    groups = Partition.from_labels(np.repeat(np.arange(3), [300, 512, 700]))
    T, _ = Tca(per_group=True).forward(X, groups)
    for begin, table in zip((0, 300, 812), tables, strict=True):
        alone, _ = Tca().forward(table, Partition.whole(len(table)))
        np.testing.assert_allclose(np.abs(T[begin : begin + len(table)]), np.abs(alone), atol=1e-8)
