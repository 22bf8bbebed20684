"""Where the groups lie, and which are near each other, compiled: see `cells` and `neighbours` for the algorithms.

Sums are those of whole numbers, and exact; what is rounded is rounded in the order of the NumPy twins.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import compiled, inner_exact

_INFINITE = np.int32(0x7F800000)  # as a float's bits


@compiled
def locate(
    places: Host,
    members: Host,
    sizes: Host,
    finer: float,
    mirrors: Host,
    chosen: tuple[int, int],
    out: tuple[Host, Host],
) -> None:
    """Find the mean places of groups, in whole numbers `finer` times as fine, and along mirrored axes.

    mirrors : (m, e) unit vectors;  chosen : the first group, and that behind the last
    out     : (g, e) int32 whole numbers and (g, e) float32 coordinates, filled
    """
    whole, axes = out
    e = places.shape[1]
    centre, total = np.empty(e), np.empty(e, np.int64)
    for a in range(chosen[0], chosen[1]):
        total[:] = 0
        for i in range(sizes[a]):
            row = members[a, i]
            for j in range(e):
                total[j] += places[row, j]
        for j in range(e):
            centre[j] = total[j] / sizes[a]
            whole[a, j] = np.int32(np.rint(centre[j] * finer))
        for m in range(len(mirrors)):
            along = 0.0
            for j in range(e):
                along += centre[j] * mirrors[m, j]
            for j in range(e):
                centre[j] -= along * (2 * mirrors[m, j])
        for j in range(e):
            axes[a, j] = np.float32(centre[j])


@inner_exact
def _measure(columns: Host, squares: Host, a: int, n: int, apart: Host) -> None:
    """Squared distances of the group `a` from the n groups of its cell into `apart`."""
    e = len(columns)
    for i in range(n):
        apart[i] = squares[i] + squares[a]
    for j in range(0, e - 3, 4):  # four columns at a time: `apart` is read and written less often
        f, g, h, m = -2 * columns[j, a], -2 * columns[j + 1, a], -2 * columns[j + 2, a], -2 * columns[j + 3, a]
        for i in range(n):
            apart[i] += f * columns[j, i] + g * columns[j + 1, i] + h * columns[j + 2, i] + m * columns[j + 3, i]
    for j in range(e - e % 4, e):
        f = -2 * columns[j, a]
        for i in range(n):
            apart[i] += f * columns[j, i]


@compiled
def nearest(
    places: Host, order: Host, starts: Host, first_cell: int, last_cell: int, mask: np.int32, largest: int, near: Host
) -> None:
    """Fill `near` (count, g) for the cells from `first_cell` to before `last_cell`.

    mask    : bits of a key that hold a position inside a cell
    largest : groups of the largest of these cells
    """
    e = places.shape[1]
    columns, squares, apart = np.empty((e, largest)), np.empty(largest), np.empty(largest)
    rounded = np.empty(largest, np.float32)
    keys = rounded.view(np.int32)
    for cell in range(first_cell, last_cell):
        begin = starts[cell]
        n = starts[cell + 1] - begin
        for i in range(n):
            squares[i] = 0.0
            for j in range(e):
                columns[j, i] = places[order[begin + i], j]
                squares[i] += columns[j, i] * columns[j, i]
        for a in range(n):
            _measure(columns, squares, a, n, apart)
            for i in range(n):
                rounded[i] = np.float32(apart[i])
            for i in range(n):
                keys[i] = (keys[i] & ~mask) | np.int32(i)
            keys[a] = _INFINITE
            last = np.int32(-1)
            for slot in range(len(near)):
                least = _INFINITE
                for i in range(n):
                    key = keys[i] if keys[i] > last else _INFINITE
                    least = min(least, key)
                near[slot, begin + a] = begin + (least & mask) if least < _INFINITE else begin + a
                last = least
