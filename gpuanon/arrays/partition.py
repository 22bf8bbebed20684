"""`Partition`: n rows divided into g parts, the data structure of every grouping.

All functions work on all parts at once, on the device of their arrays, and are repeatable to the bit: they use sorts
and segment reductions, no floating-point atomics.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays import segments
from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.sorting import argsort_labels
from gpuanon.arrays.threads import each

_SPREAD_ROWS = 1 << 15  # rows of a task on the host


@dataclass(frozen=True, eq=False)
class Partition:
    """Part ``p`` holds the rows ``order[starts[p]:starts[p + 1]]``, in ascending order of row.

    order  : (n,) int64, a permutation of the rows
    starts : (g + 1,) int64, offsets into `order`; no part is empty
    """

    order: Array
    starts: Array

    @classmethod
    def whole(cls, n: int, like: Array | None = None) -> Partition:
        """One part that holds all `n` rows, on the device of `like`; no part when there are no rows."""
        xp = np if like is None else namespace(like)
        return cls(xp.arange(n, dtype=np.int64), xp.arange(0, n + 1, max(1, n), dtype=np.int64))

    @classmethod
    def from_labels(cls, labels: Array) -> Partition:
        """Rows with equal labels share a part; parts ascend by label; labels without rows make no part."""
        xp = namespace(labels)
        order = argsort_labels(labels)
        sorted_labels = labels[order]
        first = xp.flatnonzero(sorted_labels[1:] != sorted_labels[:-1]) + 1
        ends = xp.asarray([len(labels)] if len(labels) else [], dtype=np.int64)
        return cls(order, xp.concatenate([xp.zeros(1, dtype=np.int64), first.astype(np.int64), ends]))

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.order)

    @property
    def parts(self) -> int:
        """Number of parts."""
        return len(self.starts) - 1

    @property
    def sizes(self) -> Array:
        """(g,) rows in each part."""
        return self.starts[1:] - self.starts[:-1]

    def part_of_sorted(self) -> Array:
        """(n,) the part of each position of `order`."""
        xp = namespace(self.order)
        marks = xp.zeros(self.n + 1, dtype=np.int64)
        marks[self.starts[1:-1]] = 1  # no part is empty, so offsets are distinct
        return xp.cumsum(marks[:-1])

    def labels(self) -> Array:
        """(n,) the part of each row."""
        labels = namespace(self.order).empty(self.n, dtype=np.int64)
        labels[self.order] = self.part_of_sorted()
        return labels

    def spread(self, values: Array) -> Array:
        """(n, ...) for each row the line of `values` (g, ...) that belongs to its part; on the host on all cores."""
        labels = self.labels()
        rows = namespace(values).empty((self.n, *values.shape[1:]), dtype=values.dtype)

        def work(lines: slice) -> None:
            rows[lines] = values.take(labels[lines], axis=0)

        each(work, row_ranges(labels, _SPREAD_ROWS))
        return rows


def segment_sums(X: Array, p: Partition) -> Array:
    """(g, ...) sums of the rows of `X` over each part, in `X`'s dtype.

    Floating-point rows are summed in float64, in an order that depends on the part only.
    """
    return segments.sums(X, p.order, p.starts)


def segment_means(X: Array, p: Partition) -> Array:
    """(g, ...) mean row of each part, in `X`'s dtype (float64 for whole numbers)."""
    return segments.means(X, p.order, p.starts)


def segment_minima(X: Array, p: Partition) -> Array:
    """(g, ...) smallest value of each column in each part."""
    return segments.extremes(X, p.order, p.starts, "minima")


def segment_maxima(X: Array, p: Partition) -> Array:
    """(g, ...) largest value of each column in each part."""
    return segments.extremes(X, p.order, p.starts, "maxima")


def segment_covariances(X: Array, p: Partition) -> Array:
    """(g, d, d) covariance of each part (divisor: the part's size), two passes for accuracy, in `X`'s dtype."""
    return segments.covariances(X, p.order, p.starts)


def ranks_within(values: Array, p: Partition) -> Array:
    """(n,) rank of each row's value inside its part, from 0; ties go to the lower row."""
    xp = namespace(values)
    ranks = xp.empty(p.n, dtype=np.int64)
    ranks[sort_within(values, p)] = xp.arange(p.n, dtype=np.int64) - p.starts[p.part_of_sorted()]
    return ranks


def sort_within(values: Array, p: Partition) -> Array:
    """(n,) rows, part after part, ascending by value inside each part; ties go to the lower row."""
    xp = namespace(values)
    by_value = xp.argsort(values[p.order], kind="stable")
    if p.parts <= 1:
        return p.order[by_value]
    # A stable sort by part after the sort by value.
    part = p.part_of_sorted()[by_value].astype(np.uint16 if p.parts <= 1 << 16 else np.uint32, copy=False)
    return p.order[by_value[argsort_labels(part)]]


def shuffle_within(keys: Array, p: Partition) -> Array:
    """(n,) for each row the row whose place it takes: a uniform permutation inside each part.

    keys : (n,) independent random numbers, one per row
    """
    source = namespace(keys).empty(p.n, dtype=np.int64)
    source[p.order] = sort_within(keys, p)
    return source


@dataclass(frozen=True)
class Batch:
    """Parts padded to a common length.

    parts : (b,) numbers of the parts
    rows  : (b, length) row numbers; padding repeats the part's first row
    valid : (b, length) False where padded
    """

    parts: Array
    rows: Array
    valid: Array
