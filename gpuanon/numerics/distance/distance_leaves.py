"""Candidates for the nearest rows, from a tree of leaves of near rows: compiled, for any number of columns.

The rows of the table are turned to their principal axes and cut into leaves of at most 64 near rows by balanced median
cuts.  Each node of the tree of cuts has a box along the leading axes.  A query goes down to the nearer boxes first, and
leaves out those that are further than the last of its candidates.

All that is in single precision.  Every bound is widened by its rounding error, and distances are computed again from
differences by whoever asks for candidates, so that the result is that of the other searches, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import use_loaded
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.numerics.distance.distance_tiles import Frame

_AXES = 16  # leading axes along which nodes have boxes
_PIECE = 1 << 13  # rows that are turned at a time
_QUERIES = 1024  # that a thread answers at a time
_ROWS_PER_QUERY = 128  # that NumPy's time for a query is worth, in the unit of `use_compiled`
_HUGE = 1e15  # larger squares may overflow single precision
_PADDING = 1e15
_TINY = 1e-280  # smaller squares lose digits, and nothing is proven of them


def worth_compiling(queries: int) -> bool:
    """Whether so many queries are answered here."""
    return use_loaded(_ROWS_PER_QUERY * queries)


@dataclass(frozen=True, eq=False)
class Leaves:
    """A table in leaves of near rows, ready to be searched by squared Euclidean distance.

    frame     : the coordinates
    order     : (m,) the rows, leaf by leaf; those of leaf t are ``order[starts[t]:starts[t + 1]]``
    points    : (leaves, d · LEAF) float32 coordinates, column after column, padded
    low, high : (nodes, a) the boxes along the leading axes
    """

    frame: Frame
    order: Host
    starts: Host
    points: Host
    low: Host
    high: Host

    @classmethod
    def of(cls, table: Host, weights: Host) -> Leaves:
        """The leaves of a table (m, d)."""
        from gpuanon.numerics.distance.compiled_neighbours import LEAF, cut_leaves

        (m, d), frame = table.shape, Frame.of(table, weights)
        leaves = -(-m // LEAF)
        order, starts = np.arange(m), np.empty(leaves + 1, dtype=np.int64)
        low, high = np.empty((2, 2 * leaves, min(_AXES, d)), dtype=np.float32)
        cut_leaves(_turned(frame, table), order, starts, low, high)
        points = np.full((leaves, d, LEAF), _PADDING, dtype=np.float32)
        for some in ranges(leaves, _PIECE // LEAF):  # turned again: the same, but for rounding, which bounds allow for
            begin, sizes = starts[some], np.diff(starts[some.start : some.stop + 1])
            leaf, at = np.repeat(np.arange(len(begin)), sizes), np.arange(begin[0], begin[0] + sizes.sum())
            points[some][leaf, :, at - begin[leaf]] = frame.coordinates(table[order[at]])
        return cls(frame, order, starts, points.reshape(leaves, -1), low, high)

    def propose(self, X: Host, count: int) -> tuple[Host, Host]:
        """(q, count) rows of the table, and (q,) a lower bound of the distances of all others."""
        from gpuanon.numerics.distance.compiled_neighbours import nearest_in_leaves

        place, bound = np.empty((len(X), count), dtype=np.int64), np.empty(len(X))

        def answer(rows: slice) -> None:
            Z = self.frame.coordinates(X[rows])
            norms = np.sqrt((Z * Z).sum(axis=1))
            far = norms > _HUGE
            Z[far] = 0
            found, furthest = np.empty((len(Z), count), dtype=np.int64), np.empty(len(Z), dtype=np.float32)
            nearest_in_leaves(Z.astype(np.float32), self.points, self.starts, self.low, self.high, found, furthest)
            place[rows] = self.order[found]
            bound[rows] = np.where(far, 0.0, self._lowered(furthest.astype(np.float64), norms))

        each(answer, ranges(len(X), _QUERIES))
        return place, bound

    def _lowered(self, furthest: Host, norms: Host) -> Host:
        """Squared distances in the table's unit, less the rounding error of those of the rows that are as near.

        Rounding moves a point by 2⁻²⁴ of its length.  A row at most that far from a query is at most so much longer
        than it, and no row is longer than 1.
        """
        if self.frame.unit < _TINY:
            return np.zeros(len(norms))
        d, root = len(self.frame.scale), np.sqrt(furthest)
        reach = np.minimum(norms + 1, 2 * norms + 1.01 * root) + 1e-6
        moved = 2.0**-24 * reach + 4 * np.sqrt(d) * self.frame.blur
        nearest = np.maximum(root * (1 - (d + 8) * 2.0**-24) - moved, 0)
        return np.asarray(nearest**2 * ((1 - 1e-12) * self.frame.unit))


def _turned(frame: Frame, table: Host) -> Host:
    """(m, d) float32 coordinates of the rows of a table."""
    Z = np.empty(table.shape, dtype=np.float32)
    for rows in ranges(len(table), _PIECE):
        Z[rows] = frame.coordinates(table[rows])
    return Z


def warm_compiled() -> None:
    """Compile the functions of the search, or load their machine code; to be called where numba is installed."""
    rows = np.arange(256.0).reshape(128, 2)
    Leaves.of(rows, np.ones(2)).propose(rows, 2)
