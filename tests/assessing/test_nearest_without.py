"""The rows nearest without a column, against all distances."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.risk.linkability import nearest_without
from gpuanon.errors import ParameterError


def naive(X, Y, features):
    kept = [j for j in range(Y.shape[1]) if j not in features]
    D = ((X[:, None, kept] - Y[None, :, kept]) ** 2).sum(axis=2)
    return np.nonzero(D.min(axis=1, keepdims=True) * (1 + 1e-12) >= D)


@pytest.mark.parametrize("kind", ["normal", "far", "tied", "tiny", "few"])
def test_it_finds_what_all_distances_give(kind):
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(70, 5)), rng.normal(size=(1500, 5))
    if kind == "far":
        X, Y = X * 1e4 + 1e6, Y * 1e4 + 1e6
    if kind == "tied":
        X, Y = np.round(X), np.round(Y)
    if kind == "tiny":
        X, Y = X * 1e-6, Y * 1e-6
        Y[:700] = X[3]  # many copies, in whole tiles and in parts of them
    if kind == "few":
        Y = Y[:3]
    sets = [[0], [4], [1, 3], [0, 1, 2, 3]]
    for features, (query, row) in zip(sets, nearest_without(X, Y, sets), strict=True):
        expected = naive(X, Y, features)
        assert np.array_equal(query, expected[0])
        assert np.array_equal(row, expected[1])


def test_all_features_cannot_be_left_out():
    X = np.zeros((2, 2))
    with pytest.raises(ParameterError, match="left_out"):
        nearest_without(X, X, [[0, 1]])
    with pytest.raises(ParameterError, match="left_out"):
        nearest_without(X, X, [[]])
