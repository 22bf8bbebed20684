"""Kolmogorov–Smirnov distances of two samples, on NumPy or CuPy arrays.

Only distances are computed, no p-values: an original and its release are dependent samples, for which the
two-sample test is not valid.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError


def ks_excess(x: Array, y: Array) -> float:
    """One-sided distance ``sup_v F_x(v) − F_y(v)``: how far `x` lies to the left of (is smaller than) `y`."""
    x, y = _sorted(x, y)
    return _excess(x, y)


def ks_distance(x: Array, y: Array, weights: tuple[Array, Array] | None = None) -> float:
    """Two-sided distance ``sup_v |F_x(v) − F_y(v)|`` of two samples, (n,) and (m,), and the weights of their values."""
    if weights is not None:
        return _weighted_distance(x, y, *weights)
    x, y = _sorted(x, y)
    return max(_excess(x, y), _excess(y, x))


def ks_distances(X: Array, Y: Array, weights: tuple[Array, Array] | None = None) -> Host:
    """(d,) two-sided distance of each column of `X` (n, d) from the same column of `Y` (m, d); with weights of rows."""
    if X.shape[1] != Y.shape[1]:
        raise ParameterError(f"columns: both samples need the same number, got {X.shape[1]} and {Y.shape[1]}")
    if weights is None:
        return distances_from(sorted_columns(X), Y)
    return np.array(each(lambda j: ks_distance(X[:, j], Y[:, j], weights), range(X.shape[1])), dtype=np.float64)


def sorted_columns(X: Array) -> list[Array]:
    """The columns of `X` (n, d), each in ascending order: for distances of several samples from the same one."""
    xp = namespace(X)
    return each(lambda j: xp.sort(X[:, j]), range(X.shape[1]))


def distances_from(columns: Sequence[Array], Y: Array) -> Host:
    """(d,) two-sided distance of each column of `Y` (m, d) from a sample in ascending order."""

    def one(j: int) -> float:
        x, y = columns[j], namespace(Y).sort(Y[:, j])
        _check_rows(x, y)
        return max(_excess(x, y), _excess(y, x))

    return np.array(each(one, range(len(columns))), dtype=np.float64)


def ks_critical(n: float, m: float, alpha: float = 0.05) -> float:
    """The distance that two *independent* samples of `n` and `m` rows exceed with probability `alpha` (asymptotic)."""
    if not 0 < alpha < 1:
        raise ParameterError(f"alpha: a number between 0 and 1 is allowed, got {alpha}")
    return math.sqrt(-math.log(alpha / 2) * (1 + m / n) / (2 * m))


def _sorted(x: Array, y: Array) -> tuple[Array, Array]:
    """Both samples in ascending order."""
    _check_rows(x, y)
    xp = namespace(x)
    return xp.sort(x), xp.sort(y)


def _check_rows(x: Array, y: Array) -> None:
    """A distribution function needs at least one value."""
    if len(x) == 0 or len(y) == 0:
        raise ParameterError(f"samples: at least one row each is needed, got {len(x)} and {len(y)}")


def _excess(x: Array, y: Array) -> float:
    """``sup F_x − F_y`` of sorted samples.

    F_x − F_y rises at values of x only, so its supremum is at one of them (or 0, left of all values).  Of equal
    values of x the last one has the largest rank.
    """
    xp = namespace(x)
    share_x = xp.arange(1, len(x) + 1) / len(x)
    share_y = xp.searchsorted(y, x, side="right") / len(y)
    return max(0.0, float((share_x - share_y).max()))


def _weighted_distance(x: Array, y: Array, weight_x: Array, weight_y: Array) -> float:
    """``sup |F_x − F_y|`` of samples whose values have weights: the difference is read after the last of equal ones."""
    _check_rows(x, y)
    xp = namespace(x)
    both = xp.concatenate([x, y])
    order = xp.argsort(both, kind="stable")
    steps = xp.concatenate([weight_x / weight_x.sum(), -(weight_y / weight_y.sum())])[order]
    ordered = both[order]
    last = xp.concatenate([ordered[1:] != ordered[:-1], xp.ones(1, dtype=bool)])
    return float(xp.abs(xp.cumsum(steps)[last]).max())
