"""The distance of each row to its nearest rows: an inverse measure of local density."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.batches import even_batches, gather
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each

_ROWS = 1 << 11  # padded rows of a batch


def neighbour_distances(X: Array, groups: Partition, neighbours: int) -> Array:
    """(n,) distance of each row of `X` (n, d) to the farthest of its nearest `neighbours` rows inside its group.

    In a group of fewer rows: to the farthest of all.

    Cost : O(n · S · d) for groups of S rows.
    """
    xp = namespace(X)
    out = xp.empty(len(X))

    def work(batch: Batch) -> None:
        Z = gather(X, batch).astype(np.float64, copy=False)
        Z = Z - Z[:, :1]  # no cancellation against a large common offset
        squares = (Z * Z).sum(axis=2)
        D = squares[:, :, None] + squares[:, None, :] - 2.0 * (Z @ Z.transpose(0, 2, 1))
        D = xp.where(batch.valid[:, None, :], xp.maximum(D, 0.0), np.inf)
        place = xp.minimum(neighbours, batch.valid.sum(axis=1) - 1)
        ordered = sort_rows(D)
        found = xp.take_along_axis(ordered, xp.broadcast_to(place[:, None, None], (*D.shape[:2], 1)), axis=2)
        out[batch.rows[batch.valid]] = xp.sqrt(found[:, :, 0])[batch.valid]

    with one_blas_thread():
        each(work, even_batches(groups, elements=_ROWS))
    return out
