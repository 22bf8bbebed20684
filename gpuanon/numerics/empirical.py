"""Empirical conditional distributions of the rows of a table, and their inverses, for all rows at once.

Rows are sorted lexicographically inside their block.  The rows that agree with x̂ on the first j columns are then
one stretch of that order, inside it column j is ascending, and a conditional quantile is a position in the stretch:
a product without weights, a search in the running sum of the weights with them.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition


def lexicographic(X: Array, blocks: Partition) -> Array:
    """(n,) rows, block after block, ascending inside a block by column 0, then 1, …; ties go to the lower row."""
    xp = namespace(X)
    order = blocks.order
    keys = [X[order, j] for j in reversed(range(X.shape[1]))]
    return order[xp.lexsort(xp.stack([*keys, blocks.part_of_sorted().astype(X.dtype)]))]


def conditional_inverse(u: Array, X: Array, blocks: Partition, weights: Array | None = None) -> Array:
    """Inverse empirical conditional distribution functions, column after column (eq. 7–9 of Wei et al. 2018).

    ``x̂_j`` is the smallest value v of column j with ``F_j(v | x̂_<j) ≥ u_j``, where F_j is the distribution of
    column j over the rows of the block whose first j values equal ``x̂_<j``.  There always are such rows, so x̂ is a
    row of the table.

    Parameters
    ----------
    u : (n, d) in [0, 1], row i for row i of `X`
    X : (n, d) the table; columns in the order of conditioning
    blocks : row i is transformed by the distribution of its own block
    weights : (n,) of the rows, at least 0 and not all 0 in a block; None for all 1

    Returns
    -------
    (n,) int64 the row that x̂ equals; among equal rows the lowest

    Notes
    -----
    Cost : one lexicographic sort and d passes over the rows; memory O(n).
    """
    low, _, order = conditional_stretches(u, X, blocks, weights)
    return order[low]


def conditional_stretches(
    u: Array, X: Array, blocks: Partition, weights: Array | None = None
) -> tuple[Array, Array, Array]:
    """`conditional_inverse` as stretches: the rows equal to x̂ of row i are ``order[low[i]:high[i]]``.

    Returns
    -------
    (n,) low, (n,) high, (n,) order
    """
    xp = namespace(X)
    n, d = X.shape
    order = lexicographic(X, blocks)
    labels = blocks.labels()
    low, high = blocks.starts[labels], blocks.starts[labels + 1]
    running = None if weights is None else running_weights(weights[order], blocks)
    new = xp.zeros(n, dtype=bool)
    new[blocks.starts[:-1]] = True
    for j in range(d):
        place = _quantile_place(u[:, j], low, high, running)
        values = X[order, j]
        new[1:] |= values[1:] != values[:-1]
        starts = xp.concatenate([xp.flatnonzero(new), xp.asarray([n])])
        run = (xp.cumsum(new) - 1)[place]
        low, high = starts[run], starts[run + 1]
    return low, high, order


def running_weights(weights: Array, blocks: Partition) -> Array:
    """(n + 1,) running sum of weights that lie block after block, each block scaled to a mean weight of 1.

    The scale keeps the sum as exact far into the table as at its start; it cancels inside a block.
    """
    xp = namespace(weights)
    totals = xp.add.reduceat(weights, blocks.starts[:-1])
    scaled = weights * (blocks.sizes / totals)[blocks.part_of_sorted()]
    return xp.concatenate([xp.zeros(1, dtype=np.float64), xp.cumsum(scaled, dtype=np.float64)])


def _quantile_place(u: Array, low: Array, high: Array, running: Array | None) -> Array:
    """(n,) first place of each stretch at which the share of the stretch, up to and with it, reaches u."""
    xp = namespace(u)
    if running is None:
        place = low + xp.ceil(u * (high - low)).astype(np.int64) - 1
    else:
        target = running[low] + u * (running[high] - running[low])
        place = xp.searchsorted(running, target, side="left") - 1
    return xp.clip(place, low, high - 1)
