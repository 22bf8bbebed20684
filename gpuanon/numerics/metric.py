"""The distance of two rows: which one it is, and when two of them are tied."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Array, namespace

_TIED = {np.dtype(np.float64): 1 + 1e-12, np.dtype(np.float32): 1 + 2.0**-16}


@dataclass(frozen=True)
class Metric:
    """The distance of two encoded rows.

    euclidean : Σ_j w_j (x_j − y_j)²                            (squared, weighted)
    gower     : Σ_j w_j g_j / Σ_j w_j,  g_j = |x_j − y_j| for numeric columns (scaled to range 1 beforehand),
                [x_j ≠ y_j] for the categorical ones (category codes)

    weights     : one per column, or None for all 1
    categorical : one flag per column (gower only), or None for none
    """

    kind: Literal["euclidean", "gower"] = "euclidean"
    weights: tuple[float, ...] | None = None
    categorical: tuple[bool, ...] | None = None


EUCLIDEAN = Metric()


def tie_limit(least: Array) -> Array:
    """The largest distances at which rows are tied with the nearest, which is at the distance `least`."""
    return least * least.dtype.type(_TIED[least.dtype])


def weighted(X: Array, metric: Metric) -> Array:
    """`X` as contiguous floats; under the Euclidean metric its columns are scaled by the roots of the weights."""
    xp = namespace(X)
    X = xp.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if metric.kind == "euclidean" and metric.weights is not None:
        X = X * xp.asarray(np.sqrt(np.asarray(metric.weights, dtype=X.dtype)))
    return X
