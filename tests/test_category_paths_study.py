"""Hierarchical categories: encoding, decoding, and the nearest possible leaf."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from bench.studies.category_paths import decode_paths, encode_paths, path_matrix
from gpuanon.errors import ParameterError

# Six leaves, three branches, two kingdoms, one root.
ANCESTORS = np.array([[0, 0, 0, 0], [1, 0, 0, 0], [2, 1, 0, 0], [3, 1, 0, 0], [4, 2, 1, 0], [5, 2, 1, 0]])


def test_every_node_but_the_root_has_a_column():
    paths = path_matrix(ANCESTORS)
    assert paths.shape == (6, 6 + 3 + 2)
    assert (paths.sum(axis=1) == 3).all()


@given(n=st.integers(1, 30), weighted=st.booleans())
@example(n=1, weighted=False)
def test_encoded_leaves_are_decoded(n, weighted):
    leaves = np.random.default_rng(n).integers(0, 6, n)
    paths = path_matrix(ANCESTORS)
    weights = np.linspace(0.2, 2.0, 11) if weighted else None
    np.testing.assert_array_equal(decode_paths(encode_paths(leaves, paths, weights), paths, weights), leaves)


def test_decoding_finds_the_nearest_leaf():
    rng = np.random.default_rng(0)
    paths, weights = path_matrix(ANCESTORS), rng.uniform(0.5, 2, 11)
    scores = rng.normal(size=(500, 11))
    nearest = cdist(scores, encode_paths(np.arange(6), paths, weights)).argmin(axis=1)
    np.testing.assert_array_equal(decode_paths(scores, paths, weights), nearest)


def test_leaves_of_one_branch_are_nearer():
    codes = encode_paths(np.arange(6), path_matrix(ANCESTORS))
    distance = cdist(codes, codes)
    assert distance[0, 1] < distance[0, 2] < distance[0, 4]
    flat = encode_paths(np.arange(6), path_matrix(ANCESTORS[:, :1]))
    assert np.unique(cdist(flat, flat).round(12)).size == 2


def test_a_blurred_leaf_is_decoded_inside_its_branch():
    paths = path_matrix(ANCESTORS)
    scores = encode_paths(np.array([0]), paths)
    scores[0, 0], scores[0, 4] = -0.2, 0.1  # the leaf itself is lost, one of another kingdom a little ahead
    assert decode_paths(scores, paths)[0] in (0, 1)
    assert decode_paths(scores[:, :6], paths[:, :6])[0] == 4, "flat indicators would have left the branch"


def test_leaves_must_differ():
    with pytest.raises(ParameterError, match="different leaves in the first level"):
        path_matrix(np.array([[0, 0], [0, 1]]))
