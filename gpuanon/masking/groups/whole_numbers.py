"""Rows rounded to whole numbers, so small that sums of their distances are exact on every device, in any order."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.annealing import random_words
from gpuanon.numerics.distance import Metric

_BATCH = 1 << 16
_LEAST = -900  # smaller exponents of a range are replaced by this one
_AXES = 4  # coordinates that represent the categories of one column


def whole_numbers(X: Array, order: Array, metric: Metric, width: int) -> tuple[Array, Array | None, int]:
    """Round the rows so that ``4 · width²`` times any distance is below 2^53.

    The scale is a power of two and the same for all columns, so that ties of whole numbers and binary fractions stay.

    Returns
    -------
    rows : (n, d) int32, the rows `order` of `X`: up to rounding, their distances are proportional to the metric's;
        weights are multiplied into the columns, category codes are unchanged
    mismatch : (d,) int32 distance of two categories of a column, −1 for numeric columns; None for the Euclidean
        metric
    bits : bits of the largest number, besides the sign
    """
    xp, d = namespace(X), X.shape[1]
    euclidean = metric.kind == "euclidean"
    bits = int(51 - np.log2(width**2 * d)) // 2 if euclidean else int(49 - 2 * np.log2(width))
    bits = min(max(bits, 1), 29)
    categorical = (None if euclidean else metric.categorical) or (False,) * d
    weights = [float(np.sqrt(w)) if euclidean else float(w) for w in metric.weights or (1.0,) * d]
    low, scale = _low_and_scale(X, weights, categorical, euclidean, bits)
    middle = 1 << (bits - 1) if euclidean else 0
    rows = xp.empty(X.shape, dtype=np.int32)

    def work(lines: slice) -> None:
        x = X[order[lines]]
        for j, weight in enumerate(weights):
            column = x[:, j].astype(np.float64)
            rows[lines, j] = column if categorical[j] else xp.rint((column - low[j]) * weight * scale) - middle

    each(work, row_ranges(order, _BATCH))
    if euclidean:
        return rows, None, bits
    mismatch = xp.full(d, -1, dtype=np.int32)
    for j, weight in enumerate(weights):
        if categorical[j]:
            mismatch[j] = xp.rint(scale * weight)
    return rows, mismatch, bits


def _low_and_scale(
    X: Array, weights: list[float], categorical: tuple[bool, ...], euclidean: bool, bits: int
) -> tuple[Array, Array]:
    """(d,) the minimum of each column, and () the power of two that scales the largest distance to just below 2^bits.

    For the squared Euclidean metric, the largest distance along any one column to just below 4^bits.
    """
    xp = namespace(X)
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    reach = xp.zeros((), dtype=np.float64)
    for j, weight in enumerate(weights):
        wide = weight if categorical[j] else (high[j] - low[j]) * weight
        reach = xp.maximum(reach, wide) if euclidean else reach + wide
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
