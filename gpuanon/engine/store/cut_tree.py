"""A tree of median cuts, grown on a sample, that assigns any row to a cell.

Cells are regions of the encoded space, numbered along the leaves of the tree, so that cells with consecutive numbers
are near each other.  A tree depends on its sample only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace
from gpuanon.errors import ParameterError


@dataclass(frozen=True, eq=False, repr=False)
class CutTree:
    """Inner node v sends a row to `left[v]` when its column `axis[v]` is at most `value[v]`, else to `right[v]`.

    A child c ≥ 0 is a node; c < 0 is the cell −1 − c.  Node 0 is the root; without nodes there is one cell.
    """

    axis: Host
    value: Host
    left: Host
    right: Host

    @property
    def cells(self) -> int:
        """Number of cells."""
        return len(self.axis) + 1

    def __repr__(self) -> str:
        return f"CutTree({self.cells} cells)"  # not the cuts: they are values of the table

    def assign(self, X: Array) -> Array:
        """(n,) int64 cell of each row of `X` (n, d)."""
        xp = namespace(X)
        place = xp.full(len(X), 0 if len(self.axis) else -1, dtype=np.int64)
        axis, value, left, right = (like(part, X) for part in (self.axis, self.value, self.left, self.right))
        rows = xp.arange(len(X))
        while True:
            inside = rows[place[rows] >= 0]
            if not len(inside):
                return -1 - place
            node = place[inside]
            place[inside] = xp.where(X[inside, axis[node]] <= value[node], left[node], right[node])
            rows = inside


def grow(sample: Host, cells: int) -> CutTree:
    """Cut the sample (s, d) into `cells` cells of nearly equal size, each time along the axis of largest variance.

    Equal values are never separated: with few distinct rows cells may stay empty.
    """
    if cells < 1 or len(sample) < cells:
        raise ParameterError(f"cells: 1 to {len(sample)} are allowed, one per sampled row, got {cells}")
    axis, value = np.zeros(cells - 1, np.int64), np.zeros(cells - 1)
    left, right = np.zeros(cells - 1, np.int64), np.zeros(cells - 1, np.int64)
    made = 0

    def cut(rows: Host, leaves: int, first_cell: int) -> int:
        nonlocal made
        if leaves == 1:
            return -1 - first_cell
        node, made = made, made + 1
        part = sample[rows]
        column = int(np.argmax(part.var(axis=0))) if len(rows) else 0
        lower_leaves = leaves // 2
        ordered = np.sort(part[:, column])
        at = len(rows) * lower_leaves // leaves
        axis[node] = column
        value[node] = 0.5 * (ordered[at - 1] + ordered[at]) if 0 < at < len(rows) else 0.0
        below = part[:, column] <= value[node]
        left[node] = cut(rows[below], lower_leaves, first_cell)
        right[node] = cut(rows[~below], leaves - lower_leaves, first_cell + lower_leaves)
        return node

    cut(np.arange(len(sample)), cells, 0)
    return CutTree(axis, value, left, right)


def unite(counts: Host, least: int) -> Host:
    """(cells,) new number of each cell: consecutive cells are merged until every cell has at least `least` rows.

    counts : (cells,) rows of each cell; their sum must be at least `least`
    """
    numbers, current, held = np.zeros(len(counts), np.int64), 0, 0
    for cell, count in enumerate(counts):
        numbers[cell] = current
        held += int(count)
        if held >= least:
            current, held = current + 1, 0
    if held < least and current > 0:  # the remaining cells join the last full one
        numbers[numbers == current] = current - 1
    return numbers
