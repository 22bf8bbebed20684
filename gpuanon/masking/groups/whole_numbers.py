"""Rows rounded to whole numbers, so small that sums of their distances are exact on every device, in any order.

The scale is a power of two, the same for all columns, so that ties between whole numbers and binary fractions remain.
All columns of a table are rounded on one grid, as fine as the sums of a grouping allow: int32 on the device, with
64-bit sums; on the host float64 below 2^53, so that products by BLAS are exact too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.refine.annealing import random_words
from gpuanon.numerics.metric import Metric

_BATCH = 1 << 16
_MOST_BITS = 29  # differences of coordinates fit int32
_LEAST = -900  # smaller exponents of a range are replaced by this one
_AXES = 4  # coordinates that represent the categories of one column


@dataclass(frozen=True)
class Grid:
    """How the rows of a table are rounded: up to rounding, distances are proportional to the metric's.

    low         : (d,) minimum of each column
    scale       : () power of two by which columns are multiplied
    weights     : factor of each column
    categorical : which columns hold category codes; they stay as they are
    euclidean   : squared Euclidean distances of at most ``d · 4^bits``, else Gower's of at most about ``2^bits``
    bits        : bits of the largest number, besides the sign
    """

    low: Array
    scale: Array
    weights: tuple[float, ...]
    categorical: tuple[bool, ...]
    euclidean: bool
    bits: int

    def rows(self, X: Array, order: Array | None = None) -> Array:
        """(n, d) int32 rows of `X`, or its rows `order`."""
        if on_device(X):
            return self._whole(X if order is None else X[order]).astype(np.int32)
        rows = namespace(X).empty((len(X) if order is None else len(order), X.shape[1]), dtype=np.int32)

        def work(lines: slice) -> None:
            x = X[lines] if order is None else X[order[lines]]
            for j in range(X.shape[1]):
                rows[lines, j] = self._column(x[:, j], j)

        each(work, row_ranges(rows, _BATCH))
        return rows

    def columns(self, X: Array, order: Array) -> Array:
        """(d, m) int32 rows `order` of `X`, column by column."""
        if on_device(X):
            return namespace(X).ascontiguousarray(self._whole(X[order]).T, dtype=np.int32)
        columns = namespace(X).empty((X.shape[1], len(order)), dtype=np.int32)
        for j in range(X.shape[1]):
            columns[j] = self._column(X[order, j], j)
        return columns

    def _whole(self, X: Array) -> Array:
        """(m, d) float64 of all columns at once: on a device the number of calls counts, not the cache."""
        xp, values = namespace(X), X.astype(np.float64)
        values -= self.low
        values *= xp.asarray(np.array(self.weights))
        values *= self.scale
        xp.rint(values, out=values)
        if self.euclidean:
            values -= float(1 << (self.bits - 1))  # about zero, so that products are small
        return xp.where(xp.asarray(np.array(self.categorical)), X, values) if any(self.categorical) else values

    def _column(self, values: Array, j: int) -> Array:
        # Operation by operation, each of which rounds alike on every device.
        values = values.astype(np.float64)
        if self.categorical[j]:
            return values
        values -= self.low[j]
        values *= self.weights[j]
        values *= self.scale
        namespace(values).rint(values, out=values)
        if self.euclidean:
            values -= float(1 << (self.bits - 1))  # about zero, so that products are small
        return values

    def mismatch(self) -> Array | None:
        """(d,) int32 distance of two categories of a column, −1 for numeric ones; None for the Euclidean metric."""
        if self.euclidean:
            return None
        xp = namespace(self.low)
        mismatch = xp.full(len(self.weights), -1, dtype=np.int32)
        for j, weight in enumerate(self.weights):
            if self.categorical[j]:
                mismatch[j] = xp.rint(self.scale * weight)
        return mismatch


def grid_of(X: Array, metric: Metric, room: float) -> Grid:
    """The finest grid for the rows of `X` on which no distance exceeds ``2^room``."""
    d, euclidean = X.shape[1], metric.kind == "euclidean"
    bits = int(room - np.log2(d)) // 2 if euclidean else int(room - 2)
    bits = min(max(bits, 1), _MOST_BITS)
    categorical = (None if euclidean else metric.categorical) or (False,) * d
    weights = tuple(float(np.sqrt(w)) if euclidean else float(w) for w in metric.weights or (1.0,) * d)
    return Grid(*_low_and_scale(X, weights, categorical, euclidean, bits), weights, categorical, euclidean, bits)


def whole_numbers(X: Array, order: Array, metric: Metric, width: int) -> tuple[Array, Array | None, int]:
    """Round the rows so that ``4 · width²`` times any distance is below 2^53: for exchanges between groups.

    Returns
    -------
    rows : (n, d) int32, the rows `order` of `X`
    mismatch : as in `Grid`
    bits : bits of the largest number, besides the sign
    """
    grid = grid_of(X, metric, 51 - 2 * np.log2(width))
    return grid.rows(X, order), grid.mismatch(), grid.bits


def _low_and_scale(
    X: Array, weights: tuple[float, ...], categorical: tuple[bool, ...], euclidean: bool, bits: int
) -> tuple[Array, Array]:
    """(d,) the minimum of each column, and () the power of two that scales the largest distance to just below 2^bits.

    For the squared Euclidean metric, the largest distance along any one column to just below 4^bits.
    """
    xp = namespace(X)
    ends = each(lambda lines: (X[lines].min(axis=0), X[lines].max(axis=0)), row_ranges(X, _BATCH))
    low = xp.stack([least for least, _ in ends]).min(axis=0).astype(np.float64)
    high = xp.stack([most for _, most in ends]).max(axis=0).astype(np.float64)
    if euclidean:  # without categories
        reach = ((high - low) * xp.asarray(np.array(weights))).max()
    else:
        reach = xp.zeros((), dtype=np.float64)
        for j, weight in enumerate(weights):
            reach = reach + (weight if categorical[j] else (high[j] - low[j]) * weight)
    exponent = xp.maximum(xp.frexp(reach)[1], _LEAST)
    return low, xp.ldexp(xp.ones((), dtype=np.float64), bits - exponent)


def places_of(rows: Array, mismatch: Array | None, metric: Metric) -> Array:
    """(n, e) int32 places whose Euclidean distances approximate the metric's: a category becomes a random vector.

    Coordinates are no larger than those of `rows` may be.
    """
    if mismatch is None or metric.categorical is None or not any(metric.categorical):
        return rows
    xp, columns = namespace(rows), []
    for j, categorical in enumerate(metric.categorical):
        if not categorical:
            columns.append(rows[:, j])
            continue
        spread = mismatch[j] * float(np.sqrt(6 / _AXES))  # uniform numbers: two categories are at a distance of about 1
        for axis in range(_AXES):
            word = random_words(rows[:, j].astype(np.int64), j * _AXES + axis)
            share = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
            columns.append(xp.rint(share * spread).astype(np.int32))
    return xp.stack(columns, axis=1)
