"""How much a statistic changes with the values of a record, the density of records, and the optimal boxes that follow.

For a statistic C and a record x the sensitivity is ``a_i = |∂C / ∂x_i|``, times the number N of records [1, sec. II].
Statistics are taken in units of the columns' standard deviations, so that a set of them can be added up.

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI.  Slip: the sensitivity of the standard deviation lacks 1 / N there.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gamma, pi
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.batches import even_batches, gather, scatter
from gpuanon.arrays.partition import Batch, Partition, segment_maxima, segment_minima
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each
from gpuanon.numerics.cuts.median_blocks import blocks

FLOOR = 1e-3
"""Smallest sensitivity, as a share of the mean: a sensitivity of zero would make a box infinitely wide."""

_NEAREST_COLUMNS = 3
"""Up to so many columns the density is that of the k nearest records, beyond that of blocks."""


@dataclass(frozen=True)
class Term:
    """A statistic of columns of a matrix, by number, and its weight in a set; of a regression the explained first."""

    kind: str
    columns: tuple[int, ...]
    weight: float = 1.0


@dataclass(frozen=True)
class Form:
    """A linear form of the columns' distances from their means, whose absolute value is a sensitivity.

    factors : (column, factor) pairs
    own     : the column to which it is the sensitivity, if the form depends on it too
    weights : (column, weight) pairs: the columns whose sensitivity it is
    """

    factors: tuple[tuple[int, float], ...]
    own: int | None
    weights: tuple[tuple[int, float], ...]

    def times(self, number: float) -> Form:
        """With other weights, of single precision: rounding errors of means and covariances do not reach them."""
        weights = tuple((i, float(np.float32(weight * number))) for i, weight in self.weights)
        return Form(tuple((j, float(np.float32(factor))) for j, factor in self.factors), self.own, weights)

    def value(self, columns: list[Array]) -> Array:
        """Its absolute value."""
        return abs(sum(factor * columns[j] for j, factor in self.factors))

    def least(self, xp: Any, twice: list[Array], width: Array) -> Array:
        """Twice the absolute value in the middle of boxes, or what it is on average where its sign changes inside.

        twice : twice the middles of boxes, by column
        """
        size = value = self.value(twice)
        for j, factor in self.factors:
            reach = abs(factor) * width[j]
            size = xp.maximum(size, 0.25 * reach + 0.5 * value if j == self.own else reach)
        return size


@dataclass(frozen=True, eq=False)
class Gradient:
    """The sensitivities ``N · Σ_t w_t |∂C_t / ∂x_i|`` of a set of statistics.

    mean     : (d,) of the whole table
    constant : (d,) what is the same for all records
    forms    : the rest
    """

    mean: Host
    constant: Host
    forms: tuple[Form, ...]

    @classmethod
    def of(cls, terms: tuple[Term, ...], mean: Host, covariance: Host) -> Gradient:
        """Of the columns with this mean (d,) and covariance (d, d)."""
        deviation = _deviations(covariance)
        r = covariance / deviation[:, None] / deviation[None, :]
        constant = np.zeros(len(mean))
        forms: dict[tuple[tuple[tuple[int, float], ...], int | None], dict[int, float]] = {}
        for term in terms:
            if term.kind == "mean":
                constant[term.columns[0]] += term.weight / deviation[term.columns[0]]
            for i, weight, row in _rows(term, r):
                factors = tuple((j, float(row[j] / deviation[j])) for j in np.flatnonzero(row).tolist())
                weights = forms.setdefault((factors, i if row[i] else None), {})
                weights[i] = weights.get(i, 0.0) + term.weight * weight / deviation[i]
        found = tuple(Form(factors, own, tuple(weights.items())) for (factors, own), weights in forms.items())
        return cls(np.asarray(mean), constant, found)

    def sensitivities(self, X: Array) -> Array:
        """(n, d) for each row of `X`."""
        xp = namespace(X)
        z = [X[:, j].astype(np.float64) - float(mean) for j, mean in enumerate(self.mean)]
        out = xp.zeros(X.shape, dtype=np.float64) + xp.asarray(self.constant)
        for form in self.forms:
            size = form.value(z)
            for i, weight in form.weights:
                out[:, i] += weight * size
        return out


def sensitivities(X: Array, terms: tuple[Term, ...], mean: Host, covariance: Host) -> Array:
    """(n, d) ``N · Σ_t w_t |∂C_t / ∂x_i|`` for each row of `X`, not below `FLOOR` times the mean of all.

    mean, covariance : (d,), (d, d) of the whole table
    """
    out = Gradient.of(terms, mean, covariance).sensitivities(X)
    return namespace(X).maximum(out, max(FLOOR * float(out.mean()), 1e-12))


def _rows(term: Term, r: Host) -> list[tuple[int, float, Host]]:
    """Forms of a term that is not a mean: column, weight, and factors (d,) of the standardised columns."""
    unit, i = np.eye(len(r)), term.columns[0]
    if term.kind == "mean":
        return []
    if term.kind in ("variance", "sd"):
        return [(i, 2.0 if term.kind == "variance" else 1.0, unit[i])]
    if term.kind in ("covariance", "correlation"):
        j = term.columns[1]
        rho = float(r[i, j]) if term.kind == "correlation" else 0.0
        return [(i, 1.0, unit[j] - rho * unit[i]), (j, 1.0, unit[i] - rho * unit[j])]
    # Coefficients c = S⁻¹ s: S⁻¹ x to the explained column, S⁻¹ e − (S⁻¹ x) c' to the others.
    inverse, c, on = _solved(r, term)
    levers = inverse @ unit[on]
    residual = unit[i] - c @ unit[on]
    found = [(i, 1.0, lever) for lever in levers]
    for at, j in enumerate(on):
        found += [(j, 1.0, inverse[m, at] * residual - c[at] * lever) for m, lever in enumerate(levers)]
    return found


def _deviations(covariance: Host) -> Host:
    """(d,) standard deviations; 1 for a constant column."""
    variance = np.diag(covariance)
    return np.sqrt(np.where(variance > 1e-12, variance, 1.0))


def _solved(r: Host, term: Term) -> tuple[Host, Host, list[int]]:
    """Inverse correlation of the regressors, standardised coefficients, and the regressors."""
    on = list(term.columns[1:])
    inverse = np.linalg.pinv(r[np.ix_(on, on)], hermitian=True)
    return inverse, inverse @ r[on, term.columns[0]], on


def standard_error(X: Host, terms: tuple[Term, ...], mean: Host, covariance: Host) -> float:
    """``Σ_t w_t · √N · s.e.(C_t)``, from the spread of each statistic's influence over the rows of a sample."""
    deviation = _deviations(covariance)
    z, r = (X - mean) / deviation, covariance / deviation[:, None] / deviation[None, :]
    total = 0.0
    for term in terms:
        u, v = z[:, term.columns[0]], z[:, term.columns[-1]]
        if term.kind == "regression":
            inverse, c, on = _solved(r, term)
            influence = (z[:, on] @ inverse) * (u - z[:, on] @ c)[:, None]
            total += term.weight * float(influence.std(axis=0).sum())
            continue
        rho = float(r[term.columns[0], term.columns[-1]])
        influence = {
            "mean": u,
            "variance": u * u,
            "sd": u * u / 2,
            "covariance": u * v,
            "correlation": u * v - rho * (u * u + v * v) / 2,
        }[term.kind]
        total += term.weight * float(influence.std())
    return total


def local_density(X: Array, k: int) -> Array:
    """(n,) records per unit volume near each row of `X` (n, d).

    Rows are cut into blocks of about 8k near rows.  In up to three columns the density is k over the volume of the
    ball that reaches the k-th nearest row of the block; beyond it is that of the block: its rows over the volume of its
    tight box, which m rows of a uniform density fill to (m − 1) / (m + 1) along each column.

    Cost : O(n k d), all blocks in lock step.
    """
    xp = namespace(X)
    n, d = X.shape
    parts = blocks(X, Partition.whole(n, X), max(8 * k, 64))
    out = xp.empty((n, 1), dtype=np.float64)
    if d > _NEAREST_COLUMNS:
        m = parts.sizes.astype(np.float64)
        width = (segment_maxima(X, parts) - segment_minima(X, parts)).astype(np.float64)
        fill = ((m + 1) / xp.maximum(m - 1, 1))[:, None]
        logs = xp.log(m) - xp.log(xp.maximum(width * fill, 1e-9)).sum(axis=1)
        return xp.exp(logs)[parts.labels()]
    ball = pi ** (d / 2) / gamma(d / 2 + 1)

    def nearest(batch: Batch) -> None:
        Z = gather(X, batch).astype(np.float64)
        square = xp.zeros((*batch.rows.shape, batch.rows.shape[1]))
        for j in range(d):
            square += xp.square(Z[:, :, None, j] - Z[:, None, :, j])
        square = xp.where(batch.valid[:, None, :], square, np.inf)
        near = min(k, Z.shape[1] - 1)
        reach = xp.sqrt(_of_rank(square, near))
        reach = xp.where(xp.isfinite(reach), reach, xp.sqrt(xp.where(batch.valid[:, None, :], square, 0).max(axis=2)))
        scatter((near / (ball * xp.maximum(reach, 1e-9) ** d))[:, :, None], batch, out)

    each(nearest, even_batches(parts))
    return out[:, 0]


def _of_rank(values: Array, rank: int) -> Array:
    """The value of this rank along the last axis, from 0."""
    if on_device(values):
        return sort_rows(values)[..., rank]
    return np.partition(values, rank, axis=-1)[..., rank]


def optimal_multiplier(a: Array, density: Array, k: int) -> Array:
    """(n,) the multiplier c of the optimal half-widths ``Δ_i = c / a_i``, for sensitivities `a` (n, d), `density` (n,).

    These minimise Σ a_i Δ_i subject to ``ρ Π 2Δ_i ≥ k``, which then holds with equality [1].
    """
    xp = namespace(a)
    log_volume = xp.log(k / density)  # log Π 2Δ_i
    return 0.5 * xp.exp(xp.minimum((log_volume + xp.log(a).sum(axis=1)) / a.shape[1], 700.0))


def dismissal_threshold(c: Host, columns: int, error: float, rows: int, most: float = 1.0) -> float:
    """The largest contribution c(x) that is kept: it minimises ``n Σ_{c ≤ c₀} c / N + A / √#{c ≤ c₀}`` [1, sec. III].

    c     : (m,) contributions of a sample of the records, times N
    error : A, the statistic's standard error times √N
    rows  : N
    most  : share of the records that may be dismissed

    Cost : one sort.
    """
    ordered = np.sort(c)
    kept = np.arange(1, len(c) + 1) * (rows / len(c))
    objective = columns * np.cumsum(ordered) / len(c) + error / np.sqrt(kept)
    first = max(0, int(np.ceil((1 - most) * len(c))) - 1)
    return float(ordered[first + int(np.argmin(objective[first:]))])
