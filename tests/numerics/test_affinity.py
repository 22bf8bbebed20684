"""Affinity within parts, against scikit-learn's kernel and the matrices written out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sklearn.metrics.pairwise import rbf_kernel

from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.numerics.spectral import affinity as module
from gpuanon.numerics.spectral.affinity import affinity, degrees, normalised_product


def written_out(X, sigma, labels):
    """S, by scikit-learn."""
    S = np.zeros((len(X), len(X)))
    for number, label in enumerate(np.unique(labels)):
        rows = np.flatnonzero(labels == label)
        width = sigma[number] if np.ndim(sigma) else sigma
        S[np.ix_(rows, rows)] = rbf_kernel(X[rows].astype(np.float64), gamma=0.5 / width**2)
    np.fill_diagonal(S, 0)
    return S


@given(
    st.integers(1, 60), st.integers(1, 5), st.integers(1, 12), st.booleans(), st.sampled_from([np.float64, np.float32])
)
@example(40, 1, 1, True, np.float64)
@example(1, 1, 1, False, np.float32)
def test_the_product_equals_that_of_the_stored_matrix(n, parts, d, one_sigma, dtype):
    rng = np.random.default_rng(n + 100 * parts)
    X, V = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(n, 4)).astype(dtype)
    labels = rng.integers(0, parts, n)
    p = Partition.from_labels(labels)
    sigma = 1.5 if one_sigma else rng.uniform(0.5, 3, p.parts)
    S = written_out(X, sigma, labels)
    D = S.sum(axis=1)
    exact = {"rtol": 2000 * np.finfo(dtype).eps, "atol": 200 * np.finfo(dtype).eps}
    found = degrees(X, sigma, p)
    assert found.dtype == dtype
    np.testing.assert_allclose(found, D, **exact)
    inverse = np.where(D > 0, 1 / np.sqrt(np.where(D > 0, D, 1)), 0)
    product = normalised_product(X, sigma, D.astype(dtype), V, p)
    np.testing.assert_allclose(product, inverse[:, None] * S @ (inverse[:, None] * V), **exact)
    assert product.dtype == dtype


def test_without_a_partition_the_table_is_one_part():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4)) + 1000  # far from 0, where a product of large numbers would cancel
    S = np.exp(-((X[:, None] - X[None]) ** 2).sum(axis=2) / (2 * 0.8**2)) - np.eye(300)
    np.testing.assert_allclose(affinity(X, 0.8), S, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(degrees(X, 0.8), S.sum(axis=1), rtol=1e-12)


def test_long_parts_are_cut_into_tiles(monkeypatch):
    rng = np.random.default_rng(1)
    X, V = rng.normal(size=(400, 3)), rng.normal(size=(400, 2))
    whole = degrees(X, 1.0), normalised_product(X, 1.0, degrees(X, 1.0), V)
    monkeypatch.setattr(module, "_AFFINITIES", 3000)
    np.testing.assert_allclose(degrees(X, 1.0), whole[0], rtol=1e-13)
    np.testing.assert_allclose(normalised_product(X, 1.0, whole[0], V), whole[1], rtol=1e-12, atol=1e-15)


def test_a_part_does_not_depend_on_other_parts_to_the_bit():
    rng = np.random.default_rng(2)
    X, V = rng.normal(size=(500, 3)), rng.normal(size=(500, 3))
    p = Partition.from_labels(rng.integers(0, 9, 500))
    rows = p.order[p.starts[4] : p.starts[5]]
    D = degrees(X, 0.7, p)
    assert np.array_equal(degrees(X[rows], 0.7), D[rows])
    alone = normalised_product(X[rows], 0.7, D[rows], V[rows])
    assert np.array_equal(normalised_product(X, 0.7, D, V, p)[rows], alone)


def test_the_largest_eigenvector_is_the_root_of_the_degrees():
    """D^{-1/2} S D^{-1/2} maps D^{1/2} 1 to itself."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 5))
    p = Partition.from_labels(rng.integers(0, 3, 200))
    D = degrees(X, 1.0, p)
    root = np.sqrt(D)[:, None]
    np.testing.assert_allclose(normalised_product(X, 1.0, D, root, p), root, rtol=1e-12)


@pytest.mark.parametrize(
    ("sigma", "rows", "message"),
    [
        (0.0, 4, "sigma"),
        (-1.0, 4, "sigma"),
        (np.array([1.0, 0.0]), 4, "sigma"),
        (np.ones(3), 4, "sigma"),
        (1.0, 3, "within"),
    ],
)
def test_invalid_arguments_are_refused(sigma, rows, message):
    with pytest.raises(ParameterError, match=message):
        degrees(np.ones((4, 2)), sigma, Partition.from_labels(np.arange(rows) % 2))


def test_vectors_must_have_as_many_rows_as_the_table():
    with pytest.raises(ParameterError, match="V"):
        normalised_product(np.ones((4, 2)), 1.0, np.ones(4), np.ones((3, 2)))
    with pytest.raises(ParameterError, match="X"):
        degrees(np.ones((4, 2), dtype=np.int64), 1.0)
