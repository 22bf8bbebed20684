"""Known columns as a matrix that models can be fitted to, whatever the number of their levels.

References
----------
.. [1] D. Micci-Barreca (2001), A preprocessing scheme for high-cardinality categorical attributes, SIGKDD Explor. 3(1):
   a level is encoded by its mean response, shrunk to the overall mean by empirical Bayes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host

_POOLED = 30  # levels of fewer rows are encoded together


def level_index(codes: Host, levels: int) -> Host:
    """(n,) int64 code of each level; `levels` for a null, `levels` + 1 for a level that is not known."""
    index = np.where(np.isnan(codes), levels, codes).astype(np.int64)
    return np.where((index < 0) | (index > levels), levels + 1, index)


def shrunk_means(index: Host, Y: Host, size: int, pooled: int = _POOLED) -> Host:
    """(size, o) mean of `Y` (n, o) for each level, shrunk to the overall mean 0.

    Levels of fewer than `pooled` rows, and those without any, share one mean.  A mean of n rows is multiplied by
    n / (n + κ), where κ = σ²/τ² is the ratio of the variance within levels to that between them, estimated by the
    method of moments: the less levels differ beyond chance, and the fewer rows a level has, the nearer it comes to the
    mean of all.
    """
    counts = np.bincount(index, minlength=size)
    small = counts < pooled
    merged = np.where(small, size, np.arange(size))[index]
    n = np.bincount(merged, minlength=size + 1).astype(np.float64)
    there = n > 0
    found = np.zeros((size + 1, Y.shape[1]))
    for at in range(Y.shape[1]):
        means = np.divide(np.bincount(merged, Y[:, at], size + 1), n, out=np.zeros(size + 1), where=there)
        groups, rows = int(there.sum()), len(Y)
        within = float(((Y[:, at] - means[merged]) ** 2).sum()) / max(rows - groups, 1)
        between = float((n * (means - Y[:, at].mean()) ** 2).sum()) - (groups - 1) * within
        scale = rows - float((n**2).sum()) / rows
        tau = max(between / scale, 0.0) if scale > 0 else 0.0
        if tau > 0:
            np.divide(means * n, n + within / tau, out=found[:, at], where=there)
    return found[np.where(small, size, np.arange(size))]


@dataclass(frozen=True, eq=False, repr=False)
class _Numbers:
    """A column of numbers: nulls filled by the median and marked by an indicator; logarithms of long tails, if linear.

    shift : added before the logarithm; None for none
    """

    fill: float
    null: bool
    center: float
    scale: float
    shift: float | None

    @classmethod
    def fit(cls, values: Host, linear: bool) -> _Numbers:
        known = values[~np.isnan(values)]
        if not len(known):
            return cls(0.0, False, 0.0, 1.0, None)
        fill, shift = float(np.median(known)), None
        if linear and known.min() >= 0 and known.max() > 10 * max(float(np.mean(known)), 1e-9):
            shift = 1.0 if known.max() > 1 else float(np.mean(known)) or 1.0
        scaled = known if shift is None else np.log(known + shift)
        spread = float(scaled.std())
        return cls(fill, len(known) < len(values), float(scaled.mean()), spread if spread > 0 else 1.0, shift)

    def encode(self, values: Host) -> list[Host]:
        null = np.isnan(values)
        filled = np.where(null, self.fill, values)
        if self.shift is not None:
            filled = np.log(np.maximum(filled, 0) + self.shift)
        columns = [(filled - self.center) / self.scale]
        return [*columns, null.astype(np.float64)] if self.null else columns


@dataclass(frozen=True, eq=False, repr=False)
class _Levels:
    """A column of levels: the shrunk mean response of each level, one column for each output of the response."""

    levels: int
    means: Host

    @classmethod
    def fit(cls, codes: Host, levels: int, Y: Host) -> _Levels:
        index = level_index(codes, levels)
        means = shrunk_means(index, Y, levels + 2)
        return cls(levels, means[:, means.any(axis=0)])

    def encode(self, codes: Host) -> list[Host]:
        return list(self.means[level_index(codes, self.levels)].T)


@dataclass(frozen=True, eq=False, repr=False)
class Predictors:
    """How known columns become a matrix, for one response."""

    columns: tuple[_Numbers | _Levels, ...]

    @classmethod
    def fit(cls, X: Host, levels: Sequence[int], Y: Host, linear: bool = False) -> Predictors:
        """Fit to known columns and outputs of a response.

        Parameters
        ----------
        X      : (n, c) numbers, or codes of levels; NaN is a null
        levels : for each column the number of its levels, 0 for numbers
        Y      : (n, o) outputs of the response, each with mean 0
        linear : whether the model is linear in its predictors, so that long tails want a logarithm
        """
        return cls(
            tuple(
                _Levels.fit(X[:, at], count, Y) if count else _Numbers.fit(X[:, at], linear)
                for at, count in enumerate(levels)
            )
        )

    def matrix(self, X: Host) -> Host:
        """(m, p) float32, finite."""
        columns = [column for at, coder in enumerate(self.columns) for column in coder.encode(X[:, at])]
        if not columns:
            return np.zeros((len(X), 1), dtype=np.float32)
        return np.column_stack([column.astype(np.float32) for column in columns])
