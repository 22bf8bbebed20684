"""Rows as whole numbers, so small that sums of their distances are exact, on every device and in every order."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.groups.annealing import random_words
from gpuanon.numerics.distance import Metric

_LEAST = -900  # exponent below which a range counts as this one
_AXES = 4  # of the space in which the categories of a column lie


def whole_numbers(X: Array, order: Array, metric: Metric, width: int) -> tuple[Array, Array | None, int]:
    """Round the rows so that ``4 · width²`` times any distance is below 2^53.

    The scale is a power of two: whole numbers and binary fractions keep their ties.

    Returns
    -------
    rows : (n, d) int32, the rows `order` of `X`: their distances go with the metric's, weights being in the columns
    mismatch : (d,) int32 what two categories of a column are apart, −1 for numeric columns; None for the Euclidean
        metric
    bits : of the largest number
    """
    euclidean = metric.kind == "euclidean"
    bits = int(51 - np.log2(width**2 * X.shape[1])) // 2 if euclidean else int(49 - 2 * np.log2(width))
    bits = min(bits, 29)
    return _euclidean(X, order, metric, bits) if euclidean else _gower(X, order, metric, bits)


def _scale(reach: Array, bits: int) -> Array:
    """() the power of two that brings `reach` just below 2^bits."""
    xp = namespace(reach)
    exponent = xp.maximum(xp.frexp(reach)[1], _LEAST)
    return xp.ldexp(xp.ones((), dtype=np.float64), bits - exponent)


def _euclidean(X: Array, order: Array, metric: Metric, bits: int) -> tuple[Array, None, int]:
    """One scale for all columns; 0 lies in the middle of the widest."""
    xp, d = namespace(X), X.shape[1]
    roots = [float(np.sqrt(weight)) for weight in metric.weights or (1.0,) * d]
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    reach = xp.zeros((), dtype=np.float64)
    for j, root in enumerate(roots):
        reach = xp.maximum(reach, (high[j] - low[j]) * root)
    scale = _scale(reach, bits)
    rows = xp.empty(X.shape, dtype=np.int32)
    for j, root in enumerate(roots):
        rows[:, j] = xp.rint((X[order, j].astype(np.float64) - low[j]) * root * scale) - (1 << (bits - 1))
    return rows, None, bits


def _gower(X: Array, order: Array, metric: Metric, bits: int) -> tuple[Array, Array, int]:
    """The largest distance there can be is below 2^bits; categories stay as they are."""
    xp, d = namespace(X), X.shape[1]
    weights = [float(weight) for weight in metric.weights or (1.0,) * d]
    categorical = metric.categorical or (False,) * d
    low, high = X.min(axis=0).astype(np.float64), X.max(axis=0).astype(np.float64)
    reach = xp.zeros((), dtype=np.float64)
    for j, weight in enumerate(weights):
        reach = reach + (weight if categorical[j] else (high[j] - low[j]) * weight)
    scale = _scale(reach, bits)
    rows, mismatch = xp.empty(X.shape, dtype=np.int32), xp.full(d, -1, dtype=np.int32)
    for j, weight in enumerate(weights):
        if categorical[j]:
            rows[:, j] = X[order, j]
            mismatch[j] = xp.rint(scale * weight)
        else:
            rows[:, j] = xp.rint((X[order, j].astype(np.float64) - low[j]) * weight * scale)
    return rows, mismatch, bits


def places_of(rows: Array, mismatch: Array | None, metric: Metric) -> Array:
    """(n, e) int32 rows as places whose Euclidean distances go with the metric's: categories become random directions.

    No coordinate is larger than those of `rows` may be.
    """
    if mismatch is None or metric.categorical is None or not any(metric.categorical):
        return rows
    xp, columns = namespace(rows), []
    for j, categorical in enumerate(metric.categorical):
        if not categorical:
            columns.append(rows[:, j])
            continue
        spread = mismatch[j] * float(np.sqrt(6 / _AXES))  # uniform numbers, so that two categories are about 1 apart
        for axis in range(_AXES):
            word = random_words(rows[:, j].astype(np.int64), j * _AXES + axis)
            share = (word >> np.uint64(11)).astype(np.float64) * 2.0**-53 - 0.5
            columns.append(xp.rint(share * spread).astype(np.int32))
    return xp.stack(columns, axis=1)
