"""Microaggregation along one axis: groups of consecutive rows of a sorted column or of the first principal axis.

A column of a table may be several features of the matrix: a number and an indicator of missing values, or one indicator
per level of a category.  Rows are sorted by the last feature, ties by the one before, and so on: numbers ascend,
missing values follow, and levels are in their order.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, namespace, on_device, to_host
from gpuanon.arrays.kernels import launch, require
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import lexicographic_order
from gpuanon.arrays.threads import each
from gpuanon.masking.contract import Groups
from gpuanon.masking.groups.batched import require_k_rows
from gpuanon.masking.groups.in_blocks import Refined
from gpuanon.masking.groups.whole_numbers import grid_of
from gpuanon.numerics.metric import EUCLIDEAN, Metric

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


_CHUNK = 512
_BATCH = 256
_ELEMENTS = 1 << 22
_MOST_ENTRIES = 32
"""Largest k for which the column is cut into chunks: each has 2k − 1 entries, which cost more than chunks save."""
_BITS = 62  # of the sums of squares of a group


def univariate(values: Array, k: int) -> Partition:
    """Sort the column and group every k consecutive rows; the last group has k to 2k − 1.  Ties: the lower row first.

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

    Optimal groups are consecutive in the sorted column, and a group of 2k rows is never better than its two halves.  So
    the best groups are a shortest path whose nodes are the places between the sorted values.  Of equally good paths
    the one with the smaller last group is taken.

    Values are rounded to a grid (for k = 5 of 2^27 steps between the smallest and the largest), on which sums of
    squares are whole numbers: the groups are the same on every device.

    Parameters
    ----------
    values : (n,) array, or (n, f) the features of one column: then the groups are the best of all groups of
        consecutive rows of the sorted column, by the squared errors of all features
    k : least rows in a group

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows, of this column alone.
    Cost      : O(n (log n + k² + k f)), in lock step over chunks of the column; for k > 32 row by row.

    References
    ----------
    .. [1] S. L. Hansen, S. Mukherjee (2003), A polynomial algorithm for optimal univariate microaggregation, IEEE
       Trans. Knowl. Data Eng. 15(4).
    """
    require_k_rows(Partition.whole(len(values)), k)
    rows = sorted_rows(values)
    features = values.reshape(len(values), -1)
    grid = grid_of(features, EUCLIDEAN, _BITS - 2 * np.log2(2 * k - 1))
    chunks = len(values) // max(_CHUNK, 8 * k) if k <= _MOST_ENTRIES else 1
    first = first_of_group(grid.rows(features, rows), k, max(1, chunks))
    return _from_sorted(namespace(values).cumsum(first) - 1, rows)


def sorted_rows(values: Array) -> Array:
    """(n,) the rows of a column (n,) or its features (n, f) in ascending order; ties: the lower row first."""
    xp = namespace(values)
    if values.ndim == 1 or values.shape[1] == 1:
        return xp.argsort(values.reshape(-1), kind="stable")
    return lexicographic_order(list(values.T))  # the last key is the primary one


def _from_sorted(labels: Array, rows: Array) -> Partition:
    """The partition in which ``rows[i]`` has the label ``labels[i]``."""
    by_row = namespace(rows).empty(len(rows), dtype=np.int64)
    by_row[rows] = labels
    return Partition.from_labels(by_row)


def first_of_group(ordered: Array, k: int, chunks: int) -> Array:
    """(n,) True where an optimal group of the ordered whole numbers (n, f) begins.

    chunks : number of chunks, of at least 2k rows each
    """
    xp = namespace(ordered)
    n, features = ordered.shape
    borders = xp.arange(chunks + 1, dtype=np.int64) * n // chunks
    if on_device(ordered):
        return first_of_group_cuda(ordered, borders, k)
    count = max(1, min(_BATCH, _ELEMENTS * chunks // (n * features)))
    batches = ranges(chunks, count)
    entries = 2 * k - 1 if chunks > 1 else 1
    between = np.concatenate(each(lambda batch: _Chunks(ordered, borders, batch, k).path_lengths(entries), batches))
    # The shortest path through all chunks: (min, +) products, from the only entry of the first chunk.
    best = np.full(entries, np.inf)
    best[0] = 0
    came = np.empty((chunks, entries), dtype=np.int64)
    for at in range(chunks):
        through = best[:, None] + between[at]
        came[at] = through.argmin(axis=0)
        best = through.min(axis=0)
    entry = np.zeros(chunks + 1, dtype=np.int64)  # the last chunk ends at n
    for at in range(chunks - 1, -1, -1):
        entry[at : at + 1] = came[at][entry[at + 1 : at + 2]]
    enter, leave = entry[:-1], entry[1:]
    first = np.zeros(n, dtype=bool)
    for cuts in each(lambda batch: _Chunks(ordered, borders, batch, k).cuts(enter[batch], leave[batch]), batches):
        first[cuts] = True
    return first


class _Chunks:
    """Shortest paths over chunks of the ordered column, all chunks in lock step.

    A node is a place between two values, an edge is a group, and its length is the group's sum of squared errors.  The
    entry of a path into a chunk is its first node there, at most 2k − 2 places after the start of the chunk.
    """

    def __init__(self, ordered: Host, borders: Host, chosen: slice, k: int) -> None:
        self.k = k
        self.begin, self.size = borders[:-1][chosen], (borders[1:] - borders[:-1])[chosen]
        self.length = int(self.size.max())
        self.reach = self.length + 2 * k - 1
        index = self.begin[:, None] + np.arange(self.reach)
        values = ordered[np.minimum(index, len(ordered) - 1)]
        values = values.astype(np.int64)
        # A feature that is constant in a chunk adds no error: of many levels a chunk of sorted rows has few.
        varies = (values != values[:, :1]).any(axis=1)
        most = np.argsort(~varies, axis=1, kind="stable")[:, : max(1, int(varies.sum(axis=1).max()))]
        values = np.take_along_axis(values, most[:, None, :], axis=2)
        self.sums = np.pad(np.cumsum(values, axis=1), ((0, 0), (1, 0), (0, 0)))
        self.squares = np.pad(np.cumsum((values**2).sum(axis=2), axis=1), ((0, 0), (1, 0)))
        self.end = len(ordered) - self.begin  # no node beyond

    def _edges(self, at: int) -> tuple[Host, Host]:
        """(steps,) starts of the groups that end at node `at`, and (chunks, steps) their lengths; smallest first."""
        starts = np.arange(at - self.k, max(at - 2 * self.k, -1), -1)
        total = self.sums[:, at, None] - self.sums[:, starts]
        square = self.squares[:, at, None] - self.squares[:, starts]
        lengths = ((at - starts) * square - (total**2).sum(axis=2)) / (at - starts)
        # An edge starts inside the chunk and does not pass the end of the column.
        return starts, np.where((starts >= self.size[:, None]) | (at > self.end[:, None]), np.inf, lengths)

    def _paths(self, entries: Host, keep: bool) -> tuple[Host, Host]:
        """(reach + 1, chunks, entries) shortest path to each node and, if `keep`, the size of its last edge."""
        chunks, count = entries.shape
        path = np.full((self.reach + 1, chunks, count), np.inf)
        path[entries, np.arange(chunks)[:, None], np.arange(count)] = 0
        steps = np.zeros(path.shape if keep else (0,), dtype=np.int64)
        for at in range(self.k, self.reach):
            starts, lengths = self._edges(at)
            through = path[starts] + lengths.T[:, :, None]
            if keep:
                steps[at] = through.argmin(axis=0) + self.k  # not used for nodes that are entries
            path[at] = np.minimum(path[at], through.min(axis=0))
        return path, steps

    def path_lengths(self, entries: int) -> Host:
        """(chunks, entries, entries) length of the shortest path from each entry to each entry of the next chunk."""
        chunk, entry = np.arange(len(self.size)), np.arange(entries)
        path, _ = self._paths(np.broadcast_to(entry, (len(chunk), entries)), keep=False)
        leave = self.size[:, None] + entry
        return path[leave[:, None, :], chunk[:, None, None], entry[None, :, None]]

    def cuts(self, entry: Host, leave: Host) -> Host:
        """Nodes of the shortest paths that enter each chunk at `entry` and the next one at `leave`."""
        _, steps = self._paths(entry[:, None], keep=True)
        at = self.size + leave
        found = []
        while len(here := np.flatnonzero(at > entry)):
            at[here] -= steps[at[here], here, 0]
            found.append(self.begin[here] + at[here])
        return np.concatenate(found)


class _OneColumn(Groups):
    """Groups of one column: those of several columns are formed, and masked, one after another.

    Such a release is not k-anonymous over several columns: in each by itself, k records or more share every value.
    """

    per_column: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    k: int = Field(ge=2)


class Univariate(_OneColumn):
    """Every k neighbours of each sorted column by itself (individual ranking): k share a value, not a combination."""

    use: Literal["univariate"] = "univariate"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return univariate(X, self.k)


class OptimalUnivariate(_OneColumn):
    """The same with the groups of least squared error there are in each column (Hansen, Mukherjee 2003).

    A run in parts finds the best groups of each cell.
    """

    use: Literal["optimal-univariate"] = "optimal-univariate"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return optimal_univariate(X, self.k)


_DISTANCE_BITS = 44
"""About 2^20 whole numbers along the widest column, which leaves 30 bits for the axis."""


def first_axis(X: Array, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Sort the rows along the first principal axis of `X` (n, d) and group every k consecutive rows; the last has more.

    Parameters
    ----------
    X : (n, d) array
    k : least rows in a group
    metric : Euclidean; its weights scale the columns

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows (fewer than k rows are an error).
    Cost      : O(n (d² + log n)).

    Rows and axis are rounded to whole numbers, so that covariances and projections are exact sums: equal rows have
    equal projections, ties go to the lowest row, and the groups are the same on every device, whatever its BLAS.
    """
    require_k_rows(Partition.whole(len(X)), k)
    grid = grid_of(X, metric, _DISTANCE_BITS)
    rows = grid.rows(X)
    axis = _axis(rows, grid.bits)
    return univariate(sum(rows[:, j] * share for j, share in enumerate(axis)), k)


def _axis(rows: Array, bits: int) -> list[float]:
    """(d,) the first principal axis of whole numbers of so many bits, rounded to whole numbers."""
    n, d = rows.shape
    # The last bits are dropped where a sum of n products would exceed 2^53.
    dropped = max(0, -(-(2 * (bits - 1) + n.bit_length() - 53) // 2))
    coarse = (rows >> dropped).astype(np.float64)
    total = coarse.sum(axis=0)
    products = coarse.T @ coarse - total[:, None] * total[None, :] / n
    # A d × d matrix, solved on the host: where two axes are equally long, devices would find different ones.
    axis = np.linalg.eigh(to_host(products))[1][:, -1]
    # The sign of an axis is arbitrary: its largest entry is made positive.
    axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
    shares: list[float] = np.rint(axis * 2.0 ** (52 - bits - d.bit_length())).tolist()
    return shares


class FirstAxis(Refined):
    """Every k neighbours along the first principal axis of all rows (Lasko 2007, ch. 2)."""

    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["first-axis"] = "first-axis"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("groups"):
            groups = first_axis(X, self.k, metric)
        return self._refined(X, metric, groups)
