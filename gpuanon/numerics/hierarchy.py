"""Hierarchical categories as numbers: an indicator for every node, and the leaf whose whole path fits best.

Flat indicators put all leaves at one distance.  With an indicator for every ancestor as well, leaves of one branch lie
nearer, so they are mixed rather with each other, and a leaf that a linear method has blurred is still decoded inside
the branch that the other levels point to.  No impossible combination of levels can come out.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.errors import ParameterError


def path_matrix(ancestors: Array) -> Array:
    """(leaves, nodes) 1 where a node lies on the leaf's path, 0 elsewhere; levels from the leaves up.

    ancestors : (leaves, levels) the leaf's number in each level, from 0; the first level tells all leaves apart.  A
                level with a single node says nothing and has no column
    """
    xp = namespace(ancestors)
    if ancestors.ndim != 2 or len(xp.unique(ancestors[:, 0])) != len(ancestors):
        raise ParameterError("ancestors: (leaves, levels) with a first level that tells all leaves apart is needed")
    columns = []
    for level in range(ancestors.shape[1]):
        nodes = xp.unique(ancestors[:, level])
        if len(nodes) > 1:
            columns.append((ancestors[:, level][:, None] == nodes).astype(np.float64))
    return xp.concatenate(columns, axis=1) if columns else xp.zeros((len(ancestors), 0))


def encode_paths(leaves: Array, paths: Array, weights: Array | None = None) -> Array:
    """(n, nodes) −w and +w: whether a node lies on the path of each row's leaf (n,).

    paths   : from `path_matrix`
    weights : (nodes,) size of each node's indicator, all 1 when None
    """
    signs = 2.0 * paths[leaves] - 1.0
    return signs if weights is None else signs * weights


def decode_paths(scores: Array, paths: Array, weights: Array | None = None) -> Array:
    """(n,) the leaf whose own encoding is nearest to the row of `scores` (n, nodes); ties go to the lower leaf."""
    # With e = w (2p − 1), ‖s − e‖² = ‖s‖² + Σ w² − 2 Σ w s (2p − 1): leaves differ by the path's Σ w s alone.
    return ((scores if weights is None else scores * weights) @ paths.T).argmax(axis=1)
