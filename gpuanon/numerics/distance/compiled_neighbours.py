"""The nearest rows in single precision, compiled: see `gpuanon.numerics.distance.distance_leaves`.

Sums may be taken in any order: whoever uses a result widens it by the rounding error.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import ZERO, compiled_bounds, inner_bounds
from gpuanon.numerics.cuts.compiled_cuts import push

LEAF = 64
"""Rows of a leaf at most: a constant, so that the loop over them is vectorised."""

_FAR = np.float32(1e35)  # further than any row
_SAMPLE = 512  # rows of a node from which its widest axis is estimated: which one it is changes no result
_DEPTH = 64  # of the tree at most: it is balanced


@compiled_bounds
def cut_leaves(points: Host, order: Host, starts: Host, low: Host, high: Host) -> None:
    """Rearrange rows into leaves of near ones, and fill the boxes of all nodes of the tree of cuts.

    A node of c leaves is cut along the axis of largest variance into one of c // 2 leaves and one of the others, with
    rows in proportion.  Nodes are in preorder: the left child follows its parent, and has 2 (c // 2) − 1 nodes.

    points    : (m, d) coordinates of the rows, rearranged
    order     : (m,) rearranged alike
    starts    : (leaves + 1,) filled with the first row of each leaf
    low, high : (2 · leaves, a) filled with the boxes along the first a axes
    """
    waiting = np.empty((_DEPTH, 5), dtype=np.int64)  # node, its first leaf, its leaves, its first row, its rows
    push(waiting, ZERO, ZERO, ZERO, len(starts) - 1, ZERO, len(points))
    starts[len(starts) - 1] = len(points)
    other = np.zeros(len(low), dtype=np.int64)  # the right child of each node; 0 for a leaf
    top = 1
    while top:
        top -= 1
        node, first, leaves = waiting[top, 0], waiting[top, 1], waiting[top, 2]
        begin, rows = waiting[top, 3], waiting[top, 4]
        if leaves == 1:
            starts[first] = begin
            _fill_box(points[begin : begin + rows], low[node], high[node])
            continue
        left = leaves // 2
        lower, other[node] = rows * left // leaves, node + 2 * left
        axis = _widest(points[begin : begin + rows : 1 + rows // _SAMPLE], low.shape[1])
        _select(points[begin : begin + rows], order[begin : begin + rows], axis, lower)
        push(waiting, top, node + 2 * left, first + left, leaves - left, begin + lower, rows - lower)
        push(waiting, top + 1, node + 1, first, left, begin, lower)
        top += 2
    for node in range(2 * len(starts) - 4, -1, -1):  # children before parents
        if other[node]:
            for j in range(low.shape[1]):
                low[node, j] = min(low[node + 1, j], low[other[node], j])
                high[node, j] = max(high[node + 1, j], high[other[node], j])


@inner_bounds
def _fill_box(points: Host, low: Host, high: Host) -> None:
    """The box of some rows along the first axes."""
    for j in range(len(low)):
        low[j] = high[j] = points[0, j]
    for i in range(1, len(points)):
        for j in range(len(low)):
            low[j], high[j] = min(low[j], points[i, j]), max(high[j], points[i, j])


@inner_bounds
def _widest(points: Host, axes: int) -> int:
    """The axis of largest variance, of the first ones."""
    widest, most = 0, np.float32(-1)
    for j in range(axes):
        total, squares = np.float32(0), np.float32(0)
        for i in range(len(points)):
            x = points[i, j] - points[0, j]
            total += x
            squares += x * x
        variance = squares - total * total / np.float32(len(points))
        if variance > most:
            widest, most = j, variance
    return widest


@inner_bounds
def _select(points: Host, order: Host, axis: int, lower: int) -> None:
    """Rearrange rows so that the first `lower` of them have the smallest values along an axis (Hoare's selection)."""
    begin, end = 0, len(points) - 1
    while begin < end:
        a, b, c = points[begin, axis], points[(begin + end) // 2, axis], points[end, axis]
        pivot = max(min(a, b), min(max(a, b), c))
        i, j = begin, end
        while i <= j:
            while points[i, axis] < pivot:
                i += 1
            while points[j, axis] > pivot:
                j -= 1
            if i <= j:
                for k in range(points.shape[1]):
                    points[i, k], points[j, k] = points[j, k], points[i, k]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if lower <= j:
            end = j
        elif lower >= i:
            begin = i
        else:
            return


@inner_bounds
def _box_distance(query: Host, low: Host, high: Host) -> Any:
    """Squared distance of a point from a box, along the axes that the box has."""
    total = np.float32(0)
    for j in range(len(low)):
        gap = max(max(low[j] - query[j], query[j] - high[j]), np.float32(0))
        total += gap * gap
    return total


@inner_bounds
def _leaf_distances(query: Host, leaf: Host, out: Host) -> None:
    """Squared distances of a point from the rows of a leaf (d · LEAF,), column after column."""
    for i in range(LEAF):
        out[i] = 0
    for j in range(len(query)):
        x, begin = query[j], j * LEAF
        for i in range(LEAF):
            gap = leaf[begin + i] - x
            out[i] += gap * gap


@inner_bounds
def _replace_largest(near: Host, rows: Host, value: Any, row: int) -> None:
    """Put a value and its row in the place of the largest in a heap, which has the largest first."""
    count, at, child = len(near), 0, 1
    while child < count:
        if child + 1 < count and near[child + 1] > near[child]:
            child += 1
        if near[child] <= value:
            break
        near[at], rows[at] = near[child], rows[child]
        at, child = child, 2 * child + 1
    near[at], rows[at] = value, row


@compiled_bounds
def nearest_in_leaves(
    queries: Host, leaves: Host, starts: Host, low: Host, high: Host, place: Host, furthest: Host
) -> None:
    """The nearest rows of each query, in any order, and the distance of the furthest of them.

    queries   : (q, d) float32
    leaves    : (t, d · LEAF) float32, column after column, each padded
    starts    : (t + 1,) the first row of each leaf
    low, high : of `cut_leaves`
    place     : (q, count) filled with rows, in the order of the leaves
    furthest  : (q,) filled with the largest of their squared distances; no other row is nearer, but for rounding
    """
    values, near = np.empty(LEAF, dtype=np.float32), np.empty(place.shape[1], dtype=np.float32)
    waiting, bounds = np.empty((_DEPTH, 3), dtype=np.int64), np.empty(_DEPTH, dtype=np.float32)
    for i in range(len(queries)):
        query, rows = queries[i], place[i]
        near[:] = _FAR
        waiting[0, 0], waiting[0, 1], waiting[0, 2], bounds[0] = 0, 0, len(leaves), 0
        top = 1
        while top:
            top -= 1
            bound, node, first, size = bounds[top], waiting[top, 0], waiting[top, 1], waiting[top, 2]
            while bound < near[0] and size > 1:  # down to the nearer child; the other one waits
                left = size // 2
                other = node + 2 * left
                here = _box_distance(query, low[node + 1], high[node + 1])
                there = _box_distance(query, low[other], high[other])
                bounds[top] = max(here, there)
                if here <= there:
                    waiting[top, 0], waiting[top, 1], waiting[top, 2] = other, first + left, size - left
                    bound, node, size = here, node + 1, left
                else:
                    waiting[top, 0], waiting[top, 1], waiting[top, 2] = node + 1, first, left
                    bound, node, first, size = there, other, first + left, size - left
                if bounds[top] < near[0]:
                    top += 1
            if bound >= near[0]:
                continue
            _leaf_distances(query, leaves[first], values)
            nearer = 0
            for j in range(LEAF):
                nearer += values[j] < near[0]
            if nearer:
                for j in range(starts[first + 1] - starts[first]):
                    if values[j] < near[0]:
                        _replace_largest(near, rows, values[j], starts[first] + j)
        furthest[i] = near[0]
