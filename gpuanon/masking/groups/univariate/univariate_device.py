"""Optimal groups of one sorted column on a GPU (``kernels/univariate.cu``), with the arithmetic of the host."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.kernels import launch, require

_THREADS = 128
_NODES = 1 << 18  # of a column without chunks that one launch visits: a display driver stops a launch of two seconds


def first_of_group_cuda(ordered: Array, borders: Array, k: int) -> Array:
    """(n,) True where an optimal group of the ordered whole numbers (n, f) begins.

    borders : (chunks + 1,) int64 first row of each chunk, and n
    """
    xp, (n, features), chunks = namespace(ordered), ordered.shape, len(borders) - 1
    require(8 * n * (2 * features + 3), "the running sums of one column")
    sums, squares = xp.zeros((features, n + 1), dtype=np.int64), xp.zeros(n + 1, dtype=np.int64)
    for j in range(features):
        values = ordered[:, j].astype(np.int64)
        xp.cumsum(values, out=sums[j, 1:])
        squares[1:] += values * values
    squares[1:] = xp.cumsum(squares[1:])
    column = (sums, squares, n, features, k)
    entry = xp.zeros(chunks + 1, dtype=np.int32)
    if chunks > 1:
        entries = 2 * k - 1
        between = xp.empty((chunks, entries, entries), dtype=np.float64)
        launch("univariate", "chunk_paths", *column, borders, entries, between, over=chunks, each=1, threads=_THREADS,
               shared=8 * (entries * 2 * k + k))  # fmt: skip
        came = xp.empty((chunks, entries), dtype=np.int32)
        launch("univariate", "chunk_entries", between, chunks, entries, came, entry, over=1, each=1, threads=_THREADS,
               shared=16 * entries)  # fmt: skip
    steps = xp.empty(n + chunks * 2 * k, dtype=np.int32)
    first = xp.zeros(n, dtype=np.uint8)
    nodes = -(-n // chunks) + 2 * k
    ring = xp.empty(2 * k, dtype=np.float64) if chunks == 1 else None
    for begin in range(0, nodes, _NODES):
        end, shared = min(begin + _NODES, nodes), 8 * k if chunks == 1 else 24 * k
        launch("univariate", "chunk_cuts", *column, borders, entry, begin, end, ring, steps, first, over=chunks, each=1,
               threads=_THREADS, shared=shared)  # fmt: skip
    return first.view(bool)
