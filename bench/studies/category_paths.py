"""Hierarchical categories as numbers: one indicator per node, decoded to the leaf whose path fits best.

With indicators of the leaves only, all leaves are at one distance.  With indicators of the ancestors too, leaves of
one branch are nearer, so they are rather mixed with each other, and a leaf that a linear method has blurred is still
decoded inside the branch that the other levels indicate.  Impossible combinations of levels cannot occur.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.errors import ParameterError


def path_matrix(ancestors: Array) -> Array:
    """(leaves, nodes) 1 where a node lies on the leaf's path, 0 elsewhere; levels from the leaves up.

    ancestors : (leaves, levels) the leaf's number in each level, from 0; in the first level all are different.  A level
                with a single node has no column
    """
    xp = namespace(ancestors)
    if ancestors.ndim != 2 or len(xp.unique(ancestors[:, 0])) != len(ancestors):
        raise ParameterError("ancestors: (leaves, levels) with different leaves in the first level is needed")
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
    # With e = w (2p − 1), ‖s − e‖² = ‖s‖² + Σ w² − 2 Σ w s (2p − 1): leaves differ by Σ w s over their path only.
    return ((scores if weights is None else scores * weights) @ paths.T).argmax(axis=1)
