"""The nearest groups of each group inside its cell.

`numerics.distance.k_nearest` finds nearest rows in a whole table and breaks exact ties by the lowest index.
Here all pairs of a few hundred groups are measured in every cell at once, in whole numbers, and distances that are
about equal count as ties, so that one integer sort gives the same neighbours on host and device.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.batches import even_batches
from gpuanon.arrays.compiled import use_loaded
from gpuanon.arrays.kernels import launch, limits
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each

_THREADS = 128
_COMPILED_CELLS = 4  # cells of a compiled batch: few, so that all cores are busy to the end
_BATCH = 1 << 10  # groups of a batch: with their distances they fit a core's cache
_INFINITE = 0x7F800000  # as a float's bits


def exact_bits(columns: int) -> int:
    """Most bits of integer coordinates, besides their sign, for which all sums of squares are exact."""
    return min(29, int(51 - np.log2(columns)) // 2)


def neighbours(places: Array, cells: Partition, count: int, largest: int | None = None) -> Array:
    """(count, g) for each position in ``cells.order`` the positions of the nearest groups of its cell, nearest first.

    If its cell has too few other groups, a group's own position fills the list.  Squared distances are exact, then
    rounded to float32, whose last bits are replaced by the position: of groups at about the same distance (to one part
    in 2^15, for cells of 256 groups) the first in the cell is the nearest.

    Parameters
    ----------
    places : (g, e) int32 coordinates of the groups, of at most `exact_bits` bits and a sign
    cells : sets of near groups
    count : neighbours of each group
    largest : groups of the largest cell, if that is known
    """
    largest = int(cells.sizes.max()) if largest is None else largest
    if on_device(places):
        return _neighbours_cuda(places, cells, count, largest)
    return (_neighbours_compiled if use_loaded(cells.n * largest) else _neighbours_numpy)(places, cells, count, largest)


def _position_mask(largest: int) -> int:
    """The bits of a key that hold a position inside a cell of at most `largest` groups."""
    return (1 << max(1, largest - 1).bit_length()) - 1


def _neighbours_numpy(places: Array, cells: Partition, count: int, largest: int) -> Array:
    """Sort all distances inside padded cells."""
    mask = np.int32(_position_mask(largest))
    near = np.repeat(np.arange(cells.n)[None, :], count, axis=0)

    def run(batch: Batch) -> None:
        keys = _keys(places[cells.order[batch.rows]].astype(np.float64), batch.valid, mask)
        keys.sort(axis=2)
        keys = keys[:, :, :count]
        found = np.where(keys < _INFINITE, batch.rows[:, :1, None] + (keys & mask), batch.rows[:, :, None])
        near[: keys.shape[2], batch.rows[batch.valid]] = found[batch.valid].T

    each(run, even_batches(Partition(np.arange(cells.n), cells.starts), elements=_BATCH))
    return near


def _neighbours_compiled(places: Array, cells: Partition, count: int, largest: int) -> Array:
    """Cell after cell, on all cores; the same neighbours as `_neighbours_numpy`."""
    from gpuanon.masking.groups.refine.compiled_cells import nearest

    near = np.empty((count, cells.n), dtype=np.int64)
    mask = np.int32(_position_mask(largest))

    def run(chosen: slice) -> None:
        nearest(places, cells.order, cells.starts, chosen.start, chosen.stop, mask, largest, near)

    each(run, ranges(cells.parts, _COMPILED_CELLS))
    return near


def _keys(Z: Array, valid: Array, mask: Array) -> Array:
    """(b, length, length) distances between the rows of the padded cells `Z` (b, length, e), with positions in them.

    Positive floats sort like their bits as integers.  With the position in the lowest bits, a sort is an argsort.
    """
    squares = np.einsum("bld,bld->bl", Z, Z)[:, :, None]
    ones = np.ones_like(squares)
    left = np.concatenate([-2 * Z, squares, ones], axis=2)
    right = np.concatenate([Z, ones, np.where(valid[:, :, None], squares, np.inf)], axis=2)
    position = np.arange(Z.shape[1], dtype=np.int32)
    keys = np.matmul(left, np.ascontiguousarray(right.transpose(0, 2, 1))).astype(np.float32).view(np.int32)
    keys &= ~mask
    keys |= position
    keys[:, position, position] = _INFINITE
    return keys


def _neighbours_cuda(places: Array, cells: Partition, count: int, largest: int) -> Array:
    """One thread block per cell, one thread per group (``kernels/refine_neighbours.cu``)."""
    xp, (g, e) = namespace(places), places.shape
    columns = places.T.take(cells.order, axis=1)
    lists = 4 * _THREADS * count
    room = min(largest, max(0, (limits().shared - lists) // (4 * e) - 1))
    near = xp.empty((count, g), dtype=np.int64)
    arguments = (columns, cells.starts, g, e, count, _position_mask(largest), room, near)
    shared = lists + 4 * (room + 1) * e
    launch("refine_neighbours", "neighbours", *arguments, over=cells.parts, each=1, threads=_THREADS, shared=shared)
    return near
