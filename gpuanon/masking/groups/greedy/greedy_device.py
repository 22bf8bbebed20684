"""Greedy groupings on a GPU, one thread block per part (``kernels/kmember.cu``, ``kernels/mdav.cu``).

They follow the same rules as `kmember` and `mdav` on the host, with the same whole numbers and exact sums, so the
groups are the same, ties included.  Only the size of the largest part is copied to the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.kernels import free_bytes, launch, limits, pieces_of_parts
from gpuanon.arrays.partition import Partition, sort_within
from gpuanon.masking.groups.whole_numbers import Grid

_STATIC_SHARED = 1024  # at most, for the reductions over the warps of a thread block
_ROWS_PER_THREAD = 4  # as in the kernels
_MOST_THREADS = 512
_WARP = 32

KMEMBER_WORDS, MDAV_WORDS = 2, 1
"""64-bit numbers that the kernels store per row besides its columns, which are 32-bit."""


@dataclass(frozen=True)
class Layout:
    """Resources of a launch.

    rows    : rows that fit the shared memory of a thread block
    shared  : bytes of shared memory
    threads : threads of a thread block
    """

    rows: int
    shared: int
    threads: int


def kmember_cuda(X: Array, within: Partition, k: int, grid: Grid) -> Partition:
    """Greedy k-member clusters of the parts of `within`; every part has at least `k` rows."""
    return _group("kmember", X, within, k, grid, per_row=KMEMBER_WORDS, per_block=0, extra=_pair_sums)


def mdav_cuda(X: Array, within: Partition, k: int, grid: Grid) -> Partition:
    """MDAV groups of the parts of `within`; every part has at least `k` rows."""
    return _group("mdav", X, within, k, grid, per_row=MDAV_WORDS, per_block=16 * X.shape[1], extra=_levels)


def _group(
    kernel: str,
    X: Array,
    within: Partition,
    k: int,
    grid: Grid,
    *,
    per_row: int,
    per_block: int,
    extra: Callable[[Array, Array, Grid], tuple[Array | None, ...]],
) -> Partition:
    """Launch `kernel`, one thread block per part, and number the groups part after part.

    per_row   : 64-bit numbers that the kernel stores per row besides its columns
    per_block : bytes that it stores per part
    extra     : columns, starts, grid → arguments of the kernel after those of the metric
    """
    xp, d = namespace(X), X.shape[1]
    counts = within.sizes // k
    first = xp.cumsum(counts) - counts  # number of each part's first group
    labels = xp.empty(within.n, dtype=np.int64)
    largest = int(within.sizes.max())
    layout = _layout(largest, 4 * d + 8 * per_row, per_block)
    mismatch = grid.mismatch()
    # Per row: its columns, their levels with codes and counts, what the kernel stores, its place and its label, and a
    # column while it is rounded.
    bytes_per_row = 4 * 4 * d + 8 * per_row + 5 * 8
    for parts, rows in _pieces(within, bytes_per_row):
        order, m = within.order[rows], rows.stop - rows.start
        columns, starts = grid.columns(X, order), within.starts[parts.start : parts.stop + 1] - rows.start
        scratch = xp.empty((per_row, m), dtype=np.int64) if largest > layout.rows else None
        found = xp.empty(m, dtype=np.int64)
        more = extra(columns, starts, grid)
        arguments = (columns, starts, first[parts], d, k, mismatch, *more, layout.rows, m, scratch, found)
        over = parts.stop - parts.start
        launch(kernel, kernel, *arguments, over=over, each=1, threads=layout.threads, shared=layout.shared)
        labels[order] = found
    return Partition.from_labels(labels)


def _pieces(within: Partition, bytes_per_row: int) -> Iterator[tuple[slice, slice]]:
    """Ranges of parts, with their rows, that fit the free memory; usually all parts at once."""
    if within.n * bytes_per_row < free_bytes() // 2:
        yield slice(0, within.parts), slice(0, within.n)
        return
    starts = to_host(within.starts)
    for parts in pieces_of_parts(starts, bytes_per_row):
        yield parts, slice(int(starts[parts.start]), int(starts[parts.stop]))


def _layout(largest: int, per_row: int, per_block: int) -> Layout:
    """Shared memory for the largest part, or for as many rows as fit; larger parts stay in global memory.

    per_row, per_block : bytes
    """
    available = limits().shared - _STATIC_SHARED - per_block
    rows = min(largest, max(0, available // per_row - 1))  # the stride of a column is odd
    threads = min(_MOST_THREADS, -(-largest // (_WARP * _ROWS_PER_THREAD)) * _WARP)
    return Layout(rows, (rows + 1) * per_row + per_block, threads)


def _pair_sums(columns: Array, starts: Array, grid: Grid) -> tuple[Array]:
    """Scratch for the sum of pairwise distances of each cluster, with which joining rows are compared."""
    return (namespace(columns).empty(columns.shape[1], dtype=np.int64),)


def _levels(columns: Array, starts: Array, grid: Grid) -> tuple[Array | None, ...]:
    """For each categorical column: each row's level (rank of its code in its part), the levels' codes, and zeros.

    (d, m) each, or None if no column is categorical.  The kernel counts levels in the zeros.
    """
    if not any(grid.categorical):
        return None, None, None
    xp = namespace(columns)
    p = Partition(xp.arange(columns.shape[1], dtype=np.int64), starts)
    part, start = p.part_of_sorted(), p.starts[:-1]
    levels, codes = xp.zeros_like(columns), xp.zeros_like(columns)
    for j in np.flatnonzero(grid.categorical):
        order = sort_within(columns[j], p)
        ascending = columns[j][order]
        new = xp.zeros(p.n, dtype=np.int64)
        new[1:] = ascending[1:] != ascending[:-1]
        new[start] = 1
        level = xp.cumsum(new) - 1
        level -= level[start][part]
        levels[j, order] = level
        codes[j, start[part] + level] = ascending
    return levels, codes, xp.zeros_like(columns)
