"""Microaggregation of one column: groups of neighbours in the sorted column, of fixed size or optimal.

A column of a table may be several features of a matrix: a number and whether it is missing, or one indicator for each
level of a category.  Its rows are sorted by the last feature, of equals by the one before, and so on: numbers ascend,
what is missing comes after them, and levels come in their order.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.lockstep import require_k_rows

_CHUNK = 512
_BATCH = 256
_CELLS = 1 << 22
_MOST_ENTRIES = 64
"""Beyond this k the column is not cut into chunks: their entries would cost more than they save."""


def univariate(values: Array, k: int) -> Partition:
    """Sort the column; every k neighbours are a group, the last of k to 2k − 1 rows.  Of equals the lower row is first.

    values : (n,) array, or (n, f) the features of one column

    Guarantee : every group holds at least k rows, of this column alone.
    Cost      : O(n log n).
    """
    xp = namespace(values)
    require_k_rows(Partition.whole(len(values)), k)
    groups = len(values) // k
    return _from_sorted(xp.minimum(xp.arange(len(values)) // k, groups - 1), sorted_rows(values))


def optimal_univariate(values: Array, k: int) -> Partition:
    """The groups of one column, k to 2k − 1 rows each, with the least sum of squared errors [1]_.

    Optimal groups are neighbours in the sorted column, and a group of 2k rows is never better than its two halves; so
    the best groups are a shortest path over the places between the sorted values.  Of equally good ones, the smaller
    last group is taken.

    Parameters
    ----------
    values : (n,) array, or (n, f) the features of one column: then the groups are the best of all that are
        neighbours in the sorted column, by the squared errors of all features
    k : least rows in a group

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows, of this column alone.
    Cost      : O(n (log n + k² + k f)), in lock step over stretches of the column; for k > 64 row by row.

    References
    ----------
    .. [1] S. L. Hansen, S. Mukherjee (2003), A polynomial algorithm for optimal univariate microaggregation, IEEE
       Trans. Knowl. Data Eng. 15(4).
    """
    require_k_rows(Partition.whole(len(values)), k)
    rows = sorted_rows(values)
    features = values.reshape(len(values), -1).astype(np.float64, copy=False)
    return _from_sorted(namespace(values).cumsum(_first_of_group(features[rows], k)) - 1, rows)


def sorted_rows(values: Array) -> Array:
    """(n,) the rows of a column (n,) or its features (n, f) in ascending order; of equals the lower row is first."""
    xp = namespace(values)
    if values.ndim == 1 or values.shape[1] == 1:
        return xp.argsort(values.reshape(-1), kind="stable")
    return xp.lexsort(xp.ascontiguousarray(values.T))  # the last key is the first to decide


def _from_sorted(labels: Array, rows: Array) -> Partition:
    """The partition in which ``rows[i]`` has the label ``labels[i]``."""
    by_row = namespace(rows).empty(len(rows), dtype=np.int64)
    by_row[rows] = labels
    return Partition.from_labels(by_row)


def _first_of_group(ordered: Array, k: int) -> Array:
    """(n,) True where an optimal group of the ordered values (n, f) begins."""
    xp = namespace(ordered)
    n, features = ordered.shape
    chunks = max(1, n // max(_CHUNK, 8 * k)) if k <= _MOST_ENTRIES else 1
    borders = xp.arange(chunks + 1) * n // chunks
    count = max(1, min(_BATCH, _CELLS * chunks // (n * features)))
    batches = [slice(at, min(chunks, at + count)) for at in range(0, chunks, count)]
    entries = 2 * k - 1 if chunks > 1 else 1
    between = xp.concatenate(each(lambda batch: _Stretches(ordered, borders, batch, k).path_lengths(entries), batches))
    # The shortest path through all stretches: (min, +) products, from the only entry of the first one.
    best = xp.full(entries, np.inf)
    best[0] = 0
    came = xp.empty((chunks, entries), dtype=np.int64)
    for at in range(chunks):
        through = best[:, None] + between[at]
        came[at] = through.argmin(axis=0)
        best = through.min(axis=0)
    entry = xp.zeros(chunks + 1, dtype=np.int64)  # the last stretch ends at n
    for at in range(chunks - 1, -1, -1):
        entry[at : at + 1] = came[at][entry[at + 1 : at + 2]]
    enter, leave = entry[:-1], entry[1:]
    first = xp.zeros(n, dtype=bool)
    for cuts in each(lambda batch: _Stretches(ordered, borders, batch, k).cuts(enter[batch], leave[batch]), batches):
        first[cuts] = True
    return first


class _Stretches:
    """Shortest paths over stretches of the ordered column, all stretches in lock step.

    A node is a place between two values, an edge a group, its length the group's sum of squared errors.  A path enters
    a stretch at its first node there, at most 2k − 2 places after the stretch's begin.
    """

    def __init__(self, ordered: Array, borders: Array, chosen: slice, k: int) -> None:
        xp = self.xp = namespace(ordered)
        self.k = k
        self.begin, self.size = borders[:-1][chosen], (borders[1:] - borders[:-1])[chosen]
        self.length = int(self.size.max())
        self.reach = self.length + 2 * k - 1
        index = self.begin[:, None] + xp.arange(self.reach)
        values = ordered[xp.minimum(index, len(ordered) - 1)]
        values = values - values[:, self.length // 2, None]  # small numbers: their squares cancel little
        # What is the same in a whole stretch adds no error: of many levels, a stretch of sorted rows has few.
        varies = (values != 0).any(axis=1)
        most = xp.argsort(~varies, axis=1, kind="stable")[:, : max(1, int(varies.sum(axis=1).max()))]
        values = xp.take_along_axis(values, most[:, None, :], axis=2)
        self.sums = xp.pad(xp.cumsum(values, axis=1), ((0, 0), (1, 0), (0, 0)))
        self.squares = xp.pad(xp.cumsum((values**2).sum(axis=2), axis=1), ((0, 0), (1, 0)))
        self.end = len(ordered) - self.begin  # no node beyond

    def _edges(self, at: int) -> tuple[Array, Array]:
        """(steps,) starts of the groups that end at node `at`, and (stretches, steps) their lengths; shortest first."""
        xp = self.xp
        starts = xp.arange(at - self.k, max(at - 2 * self.k, -1), -1)
        total = self.sums[:, at, None] - self.sums[:, starts]
        square = self.squares[:, at, None] - self.squares[:, starts]
        lengths = xp.maximum(0, square - (total**2).sum(axis=2) / (at - starts))
        # An edge leaves from inside the stretch, and does not pass the column's end.
        return starts, xp.where((starts >= self.size[:, None]) | (at > self.end[:, None]), np.inf, lengths)

    def _paths(self, entries: Array, keep: bool) -> tuple[Array, Array]:
        """(reach + 1, stretches, entries) shortest path to each node, and the steps of its last edge when kept."""
        xp = self.xp
        stretches, count = entries.shape
        path = xp.full((self.reach + 1, stretches, count), np.inf)
        path[entries, xp.arange(stretches)[:, None], xp.arange(count)] = 0
        steps = xp.zeros(path.shape if keep else (0,), dtype=np.int64)
        for at in range(self.k, self.reach):
            starts, lengths = self._edges(at)
            through = path[starts] + lengths.T[:, :, None]
            if keep:
                steps[at] = through.argmin(axis=0) + self.k  # of a node that is an entry no step is ever asked for
            path[at] = xp.minimum(path[at], through.min(axis=0))
        return path, steps

    def path_lengths(self, entries: int) -> Array:
        """(stretches, entries, entries) length of the shortest path from each entry to each entry of the next one."""
        xp = self.xp
        stretch, entry = xp.arange(len(self.size)), xp.arange(entries)
        path, _ = self._paths(xp.broadcast_to(entry, (len(stretch), entries)), keep=False)
        leave = self.size[:, None] + entry
        return path[leave[:, None, :], stretch[:, None, None], entry[None, :, None]]

    def cuts(self, entry: Array, leave: Array) -> Array:
        """Nodes of the shortest paths that enter each stretch at `entry` and the next one at `leave`."""
        xp = self.xp
        _, steps = self._paths(entry[:, None], keep=True)
        at = self.size + leave
        found = []
        while len(here := xp.flatnonzero(at > entry)):
            at[here] -= steps[at[here], here, 0]
            found.append(self.begin[here] + at[here])
        return xp.concatenate(found)
