"""The k nearest rows of a table, all pairs looked at, without an n × m matrix.

On the host scikit-learn's tiled brute-force search finds candidates (a few more than k, because it computes
``|x|² + |y|² − 2 x·y``, which rounds), and their distances are computed anew from differences: a copy is at
distance 0, not at 1e-8.  Rows that occur more than once are searched once.  On a device the fused kernel of
`gpuanon.numerics.distance` does it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

Floats = np.ndarray[Any, Any]
Ints = np.ndarray[Any, Any]

_SPARE = 3
_SAME = 1 + 1e-12


@dataclass(frozen=True, eq=False)
class Neighbours:
    """The k nearest rows of each query.

    squared : (n, k) squared Euclidean distances from differences, ascending
    index   : (n, k) rows of Y; among equal rows of Y the lowest come first
    ties    : (n,) number of rows of Y at the smallest distance (equal to a relative 1e-12)
    """

    squared: Array
    index: Array
    ties: Array


def nearest(X: Array, Y: Array, k: int) -> Neighbours:
    """The `k` rows of `Y` (m, d) nearest to each row of `X` (n, d) by squared Euclidean distance.

    No row is overlooked, except for one whose squared distance differs from the k-th by less than the rounding of
    the search (about 1e-14 of the squared norms in double precision).

    Cost : n · m · d; memory O(n k + m d).
    """
    if not 1 <= k <= len(Y):
        raise ParameterError(f"k: from 1 to the number of rows searched ({len(Y)}) is allowed, got {k}")
    if X.shape[1] != Y.shape[1]:
        raise ParameterError(f"columns: both tables need the same number, got {X.shape[1]} and {Y.shape[1]}")
    if on_device(X):
        return _nearest_on_device(X, Y, k)
    X, Y = np.asarray(X, dtype=np.float64), np.asarray(Y, dtype=np.float64)
    if not (np.isfinite(X).all() and np.isfinite(Y).all()):
        raise ParameterError("columns: distances need finite numbers", hint="encode or fill missing values first")
    if len(X) == 0 or X.shape[1] == 0:
        index = np.broadcast_to(np.arange(k), (len(X), k)).copy()
        return Neighbours(np.zeros((len(X), k)), index, np.full(len(X), len(Y)))
    distinct = _Distinct.of(Y)
    # Two at least: one nearest row alone does not say whether it is tied.
    squared, places = _candidates(X, distinct.rows, min(max(k, 2), len(distinct.rows)))
    ties = _ties(X, distinct, squared, places)
    return Neighbours(*distinct.expand(squared, places, k), ties)


def squared_to(X: Array, Y: Array, index: Array) -> Array:
    """(n, c) squared distances, from differences, of each row of `X` from the rows `index` (n, c) of `Y`."""
    xp = namespace(X)
    out = xp.empty(index.shape, dtype=np.float64)
    step = max(1, (1 << 22) // max(1, index.shape[1] * X.shape[1]))

    def fill(at: int) -> None:
        difference = Y[index[at : at + step]] - X[at : at + step, None, :]
        out[at : at + step] = (difference * difference).sum(axis=2)

    each(fill, range(0, len(X), step))
    return out


@dataclass(frozen=True, eq=False)
class _Distinct:
    """The distinct rows of a table, and where each occurs: ``order[starts[u]:starts[u + 1]]``, ascending."""

    rows: Floats
    order: Ints
    starts: Ints

    @classmethod
    def of(cls, Y: Floats) -> _Distinct:
        """Rows are compared byte by byte; adding 0 makes -0 and 0 the same."""
        data = np.ascontiguousarray(Y + 0.0)
        as_bytes = data.view(np.dtype((np.void, data.dtype.itemsize * data.shape[1])))[:, 0]
        _, first, inverse, counts = np.unique(as_bytes, return_index=True, return_inverse=True, return_counts=True)
        return cls(data[first], np.argsort(inverse, kind="stable"), np.concatenate([[0], np.cumsum(counts)]))

    def counts(self) -> Ints:
        """How often each distinct row occurs."""
        return np.diff(self.starts)

    def expand(self, squared: Floats, places: Ints, k: int) -> tuple[Floats, Ints]:
        """(n, k) distances and rows of the table, from those of the distinct rows."""
        upto = np.concatenate(
            [np.zeros((len(places), 1), dtype=np.int64), self.counts()[places].cumsum(axis=1)], axis=1
        )
        wanted = np.arange(k)
        column = (upto[:, 1:, None] <= wanted).sum(axis=1)  # the distinct row that fills each of the k places
        place = np.take_along_axis(places, column, 1)
        offset = wanted - np.take_along_axis(upto, column, 1)
        return np.take_along_axis(squared, column, 1), self.order[self.starts[place] + offset]


def _candidates(X: Floats, Y: Floats, k: int) -> tuple[Floats, Ints]:
    """Search, then order the candidates by distances from differences; ties go to the lower place."""
    from sklearn.neighbors import NearestNeighbors

    centre = Y.mean(axis=0)  # smaller norms, less rounding
    search = NearestNeighbors(n_neighbors=min(k + _SPARE, len(Y)), algorithm="brute").fit(Y - centre)
    places = np.sort(search.kneighbors(X - centre, return_distance=False), axis=1)
    squared = squared_to(X, Y, places)
    order = np.argsort(squared, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(squared, order, 1), np.take_along_axis(places, order, 1)


def _ties(X: Floats, distinct: _Distinct, squared: Floats, places: Ints) -> Ints:
    """(n,) rows at the smallest distance; where all that were found tie, the whole table is looked at."""
    counts = distinct.counts()
    limit = squared[:, :1] * _SAME
    tied = squared <= limit
    ties: Ints = np.where(tied, counts[places], 0).sum(axis=1)
    complete = len(distinct.rows) == squared.shape[1]
    unsure = np.empty(0, dtype=np.int64) if complete else np.flatnonzero(tied.all(axis=1))

    def recount(row: int) -> int:
        difference = distinct.rows - X[row]
        return int(counts[(difference * difference).sum(axis=1) <= limit[row, 0]].sum())

    ties[unsure] = each(recount, unsure.tolist())
    return ties


def _nearest_on_device(X: Array, Y: Array, k: int) -> Neighbours:
    """The same through the fused kernel."""
    raise NotImplementedError
