"""The distribution of largest entropy with given moments, inside a box: fitted by its dual, drawn by Metropolis.

Among all densities on the box with these moments, the one of largest entropy is ``exp(λ · f(x))``, f the functions
whose means are given.  The dual is convex; it is solved by Newton's method on a sample from the normal distribution
that has the same mean and covariance, and new rows are drawn by a Metropolis–Hastings chain that proposes from it.

References
----------
.. [1] E. T. Jaynes (1957), Information theory and statistical mechanics, Phys. Rev. 106(4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, like, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_maxima, segment_means, segment_minima
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError

Host = np.ndarray[Any, Any]

_CANDIDATES = 1 << 14
_NEWTON = 60
_STEPS = 24


@dataclass(frozen=True, eq=False, repr=False)
class MomentSums:
    """Sums over rows, which can be merged: their number, Σ f(x), and the extremes of each column."""

    rows: int
    sums: Host
    low: Host
    high: Host

    @classmethod
    def of(cls, X: Array, degree: int) -> MomentSums:
        """Of the rows of `X` (n, d)."""
        whole = Partition.whole(len(X), like=X)
        if not len(X):
            d = X.shape[1]
            return cls(
                0, np.zeros(functions(np.zeros((1, d)), degree).shape[1]), np.full(d, np.inf), np.full(d, -np.inf)
            )
        means = segment_means(functions(X, degree), whole)[0]
        extremes = namespace(X).concatenate([means, segment_minima(X, whole)[0], segment_maxima(X, whole)[0]])
        found, d = to_host(extremes), X.shape[1]
        return cls(len(X), len(X) * found[: -2 * d], found[-2 * d : -d], found[-d:])

    def merge(self, other: MomentSums) -> MomentSums:
        """The sums over the rows of both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        return MomentSums(self.rows + other.rows, self.sums + other.sums, low, high)

    def __repr__(self) -> str:
        return f"MomentSums({self.rows} rows, {len(self.low)} columns)"


def functions(X: Array, degree: int) -> Array:
    """(n, p) the columns, their products in pairs, and from the third to the `degree`-th power of each."""
    xp = namespace(X)
    first, second = (xp.asarray(at) for at in np.triu_indices(X.shape[1]))
    return xp.concatenate([X, X[:, first] * X[:, second], *(X**power for power in range(3, degree + 1))], axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class MaximumEntropy:
    """The density ``exp(λ · f(x)) N(x; m, F Fᵀ)`` on a box.

    mean, factor : of the normal distribution that is proposed from
    weights      : (p,) λ
    low, high    : the box; infinite for columns of about two values
    """

    mean: Host
    factor: Host
    weights: Host
    low: Host
    high: Host
    degree: int

    @classmethod
    def fit(cls, sums: MomentSums, degree: int, draws: Draws) -> MaximumEntropy:
        """Fit to the moments; refused where a sample of proposals cannot meet them."""
        target = sums.sums / sums.rows
        d = len(sums.low)
        mean = target[:d]
        second = np.zeros((d, d))
        second[np.triu_indices(d)] = target[d : d + d * (d + 1) // 2]
        second = second + np.triu(second, 1).T
        values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
        factor = vectors * np.sqrt(np.where(values > 1e-12 * max(values.max(), 1e-300), values, 0.0))
        candidates = Draws(draws.key, np.arange(_CANDIDATES, dtype=np.int64), draws.path + "/candidates").normal(d)
        X = mean + candidates @ factor.T
        # A column of two values has the largest variance of all on its range: there is no density.  It is let free.
        free = np.diag(second) - mean**2 > _SPREAD * (mean - sums.low) * (sums.high - mean)
        low, high = np.where(free, -np.inf, sums.low), np.where(free, np.inf, sums.high)
        inside = ((low - _SLACK <= X) & (high + _SLACK >= X)).all(axis=1)
        weights = _dual(functions(X[inside], degree), target) if inside.sum() > 1 else None
        if weights is None:
            raise ParameterError(
                f"degree: the moments up to degree {degree} cannot be met by a density near the normal one",
                hint="a lower degree, a transform for skewed columns, or sequential-synthesis",
            )
        return cls(mean, factor, weights, low, high, degree)

    def sample(self, draws: Draws, like_: Array) -> Array:
        """(n, d) rows, one for each record of `draws`, after 24 steps of a chain each."""
        xp = namespace(like_)
        d = len(self.mean)
        mean, factor, weights = like(self.mean, like_), like(self.factor.T, like_), like(self.weights, like_)
        low, high = like(self.low, like_), like(self.high, like_)
        rows = mean + xp.zeros((len(draws.records), d))
        height = xp.full(len(rows), -np.inf)
        for step in range(_STEPS):
            own = draws.child(str(step))
            new = mean + own.normal(d) @ factor
            outside = ((new < low - _SLACK) | (new > high + _SLACK)).any(axis=1)
            reached = xp.where(outside, -np.inf, functions(new, self.degree) @ weights)
            with np.errstate(invalid="ignore"):
                better = xp.log(own.child("accept").uniform(1)[:, 0]) < reached - height
            moves = ~outside & (better | xp.isneginf(height))
            rows = xp.where(moves[:, None], new, rows)
            height = xp.where(moves, reached, height)
        return xp.clip(rows, low, high)


_SLACK = 1e-9
_SPREAD = 0.5  # of the largest variance; a uniform column has a third of it


def _dual(F: Host, target: Host) -> Host | None:
    """(p,) λ at which the weighted mean of `F` (m, p) is `target`; None where no weights of the sample reach it."""
    scale = np.maximum(F.std(axis=0), 1e-12)
    G = (F - target) / scale
    weights = np.zeros(F.shape[1])

    def value(at: Host) -> tuple[float, Host]:
        heights = G @ at
        top = heights.max()
        p = np.exp(heights - top)
        return float(top + np.log(p.sum())), p / p.sum()

    current, p = value(weights)
    for _ in range(_NEWTON):
        gradient = p @ G
        if np.abs(gradient).max() < 1e-3:
            return np.asarray(weights / scale) if 1.0 / (p @ p) > 0.02 * len(p) else None
        hessian = (G * p[:, None]).T @ G - np.outer(gradient, gradient)
        step = np.linalg.solve(hessian + 1e-9 * np.eye(len(hessian)) * max(1.0, np.trace(hessian)), gradient)
        size = 1.0
        while size > 1e-6:
            reached, there = value(weights - size * step)
            if reached < current - 1e-4 * size * float(gradient @ step):
                break
            size /= 2
        else:
            return None
        weights, current, p = weights - size * step, reached, there
    return None
