"""Distances between rows on the host, from differences: `gpuanon.numerics.distance.distance` for NumPy arrays.

Every function here and the kernels sum a distance in float64 in the same order.  So a copy has distance 0, and equal
rows have equal distances, to the bit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.numerics.metric import Metric

_GROUP, _CHUNK = 4, 16  # columns, as in the kernels
_TILE = 1 << 15  # distances of a tile: with its temporaries it fits a core's cache
_PANEL = 1 << 20  # distances of some rows from all others that one thread holds
_ROWS = 1 << 14  # pairs that one thread computes at a time


@dataclass(frozen=True, eq=False)
class Columns:
    """A table (m, d) as the columns of a metric.

    values      : (d, m) float64, or (d, b, c) in blocks of c rows
    weights     : (d,) those of Gower's metric sum to 1
    categorical : (d,) whether only equality counts
    """

    values: Host
    weights: Host
    categorical: Host
    squared: bool

    @classmethod
    def of(cls, Y: Host, metric: Metric) -> Columns:
        """The table's columns, each one contiguous."""
        d = Y.shape[1]
        weights = np.ones(d) if metric.weights is None else np.asarray(metric.weights, dtype=np.float64)
        gower = metric.kind == "gower"
        if gower and weights.sum():
            weights = weights / weights.sum()
        flags = np.zeros(d, dtype=bool) if metric.categorical is None or not gower else np.asarray(metric.categorical)
        return cls(np.ascontiguousarray(Y.T, dtype=np.float64), weights, flags, not gower)

    def over(self, Y: Host) -> Columns:
        """The rows `Y` (m, d) float64 themselves in place of these, not copied: for pairs of which few are measured."""
        return replace(self, values=Y.T)

    @property
    def rows(self) -> int:
        """Rows of the table."""
        return int(self.values.shape[1])

    def tile(self, X: Host, tile: slice) -> Host:
        """(q, t) distances of the rows of `X` (q, d) from the rows `tile` of the table."""
        X = X.astype(np.float64, copy=False)

        def difference(j: int, out: Host) -> None:
            np.subtract(X[:, j, None], self.values[j, None, tile], out=out)

        return self._summed(difference, (len(X), tile.stop - tile.start))

    def pairs(self, X: Host, index: Host) -> Host:
        """(q, c) distances of the rows of `X` (q, d) from the rows `index` (q, c) of the table, or its blocks (q,)."""
        near = self.values.T.take(index, axis=0) if self.values.T.flags.c_contiguous else None  # of `over`: whole rows

        def difference(j: int, out: Host) -> None:
            column = self.values[j].take(index, axis=0) if near is None else near[..., j]
            np.subtract(X[:, j, None], column, out=out)

        return self._summed(difference, (*index.shape, *self.values.shape[2:]))

    def along(self, X: Host) -> Host:
        """(m,) distances of the columns of `X` (d, m) from the rows of the table, one by one."""

        def difference(j: int, out: Host) -> None:
            np.subtract(X[j], self.values[j], out=out)

        return self._summed(difference, self.values.shape[1:])

    def _summed(self, difference: Callable[[int, Host], None], shape: tuple[int, ...]) -> Host:
        """Sum the terms of the columns in groups of four, then in chunks of sixteen, then all: the kernels' order."""
        d = len(self.values)
        total, part, group, share = np.zeros(shape), np.empty(shape), np.empty(shape), np.empty(shape)
        for chunk in range(0, d, _CHUNK):
            for first in range(chunk, min(d, chunk + _CHUNK), _GROUP):
                for j in range(first, min(d, first + _GROUP)):
                    out = group if j == first else share
                    difference(j, out)
                    self._share(j, out)
                    if j != first:
                        group += share
                if first == chunk:
                    part, group = group, part
                else:
                    part += group
            total += part
        return total

    def _share(self, j: int, difference: Host) -> None:
        """Replace the differences of column j by its term of the distance, in place."""
        if self.squared:
            np.multiply(difference, difference, out=difference)
        elif self.categorical[j]:
            np.not_equal(difference, 0, out=difference, casting="unsafe")
        else:
            np.abs(difference, out=difference)
        if self.weights[j] != 1:
            difference *= self.weights[j]


def row_panels(n: int, m: int) -> list[slice]:
    """Ranges of `n` rows whose distances from `m` others fit a panel."""
    height = max(1, min(_PANEL // max(1, m), 1024))
    return ranges(n, height)


def tiles(height: int, m: int) -> list[slice]:
    """Ranges of `m` rows whose distances from `height` rows fit the cache."""
    width = max(64, _TILE // max(1, height))
    return ranges(m, width)


def panel(X: Host, columns: Columns) -> Host:
    """(q, m) distances of a few rows from the whole table."""
    out = np.empty((len(X), columns.rows))
    for tile in tiles(len(X), columns.rows):
        out[:, tile] = columns.tile(X, tile)
    return out


def distances(X: Host, Y: Host, metric: Metric) -> Host:
    """(n, m) all distances, in `X`'s dtype."""
    out = np.empty((len(X), len(Y)), dtype=X.dtype)
    columns = Columns.of(Y, metric)

    def fill(rows: slice) -> None:
        for tile in tiles(rows.stop - rows.start, len(Y)):
            out[rows, tile] = columns.tile(X[rows], tile)

    each(fill, row_panels(len(X), len(Y)))
    return out


def paired(X: Host, Y: Host, metric: Metric, index: Host) -> Host:
    """(n,) distance of ``X[i]`` and ``Y[index[i]]``."""
    return all_pairs(X, Columns.of(Y, metric), index[:, None])[:, 0]


def all_pairs(X: Host, columns: Columns, index: Host) -> Host:
    """(n, c) distances of ``X[i]`` and the rows ``index[i]`` of the table, on all cores."""
    out = np.empty(index.shape)
    step = max(1, _ROWS // max(1, index.shape[1]))

    def fill(at: int) -> None:
        rows = slice(at, at + step)
        out[rows] = columns.pairs(X[rows].astype(np.float64, copy=False), index[rows])

    each(fill, range(0, len(X), step))
    return out


def row_sums(X: Host, Y: Host, metric: Metric) -> Host:
    """(n,) sums of the distances without a loop over pairs: O((n + m) log m) per column."""
    columns = Columns.of(Y, metric)

    def share(j: int) -> Host:
        x, y = X[:, j].astype(np.float64), columns.values[j]
        if columns.squared:
            return _squares(x, y)
        return _mismatches(x, y) if columns.categorical[j] else _gaps(x, y)

    total = np.zeros(len(X))
    if len(Y):
        for weight, sums in zip(columns.weights, each(share, range(X.shape[1])), strict=True):
            total += weight * sums
    return total


def _squares(x: Host, y: Host) -> Host:
    """Σ_j (x − y_j)² = m (x − ȳ)² + Σ_j (y_j − ȳ)²."""
    mean = y.mean()
    return np.asarray(len(y) * (x - mean) ** 2 + ((y - mean) ** 2).sum())


def _gaps(x: Host, y: Host) -> Host:
    """Σ_j |x − y_j|, from prefix sums of the sorted y, relative to their median so that little cancels."""
    ordered = np.sort(y)
    middle = ordered[len(y) // 2]
    prefix = np.concatenate([[0.0], np.cumsum(ordered - middle)])
    below = np.searchsorted(ordered, x)
    return np.asarray((x - middle) * (2 * below - len(y)) + prefix[-1] - 2 * prefix[below])


def _mismatches(x: Host, y: Host) -> Host:
    """Σ_j [x ≠ y_j]."""
    ordered = np.sort(y)
    equal = np.searchsorted(ordered, x, side="right") - np.searchsorted(ordered, x)
    return np.asarray(len(y) - equal, dtype=np.float64)
