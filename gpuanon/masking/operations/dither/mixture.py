"""The Gaussian mixture of a partition, one component per group; all groups at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_covariances, segment_means, segment_sums
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.masking.operations.dither.rosenblatt import whiten
from gpuanon.numerics.equal_rows import equal_rows

_ROWS = 1 << 14  # rows that one thread draws at a time
_GRAIN = 2.0**30  # components whose entries all agree to 1 / _GRAIN are merged
_NOTHING = 200.0  # subtracted from the log weight of a group without weight: negligible, but far from underflow


@dataclass(frozen=True, eq=False)
class Mixture:
    """Normal components.

    means       : (c, d)
    factors     : (c, d, d) lower triangular L with L Lᵀ the covariance
    whitening   : (c, d, d) L⁻¹
    log_weights : (c,) up to a constant
    """

    means: Array
    factors: Array
    whitening: Array
    log_weights: Array

    def draw(self, component: Array, draws: Draws) -> Array:
        """(n, d) one draw from the component of each record."""
        xp = namespace(self.means)
        d = self.means.shape[1]

        def some(rows: slice) -> Array:
            mine = component[rows]
            normal = draws.take(rows).normal(d).astype(self.means.dtype, copy=False)
            noisy = self.means[mine]
            for j in range(d):
                for i in range(j + 1):
                    noisy[:, j] += self.factors[mine, j, i] * normal[:, i]
            return noisy

        return xp.concatenate(each(some, row_ranges(component, _ROWS)))

    def merged(self, parts: Partition, top: float | Array | None = None) -> tuple[Mixture, Array]:
        """The components sorted by part, equal ones of a part merged, and the (parts + 1,) offsets of the parts.

        top : subtracted from log weights before they are added up; by default the largest of them

        Groups of equal records, common in discretised tables, have equal components; merging them is exact.
        """
        xp = namespace(self.means)
        entries = xp.concatenate([self.means, self.factors.reshape(len(self.means), -1)], axis=1)
        part = parts.labels()
        same = Partition.from_labels(equal_rows(xp.rint(entries * _GRAIN), part))
        one = same.order[same.starts[:-1]]
        top = self.log_weights.max() if top is None else top
        weights = segment_sums(xp.exp(self.log_weights - top), same)
        united = Mixture(self.means[one], self.factors[one], self.whitening[one], xp.log(weights) + top)
        return united, xp.searchsorted(part[one], xp.arange(parts.parts + 1, dtype=np.int64))


def group_mixture(X: Array, groups: Partition, jitter: float, weights: Array | None = None) -> Mixture:
    """N(mean, covariance + jitter · I) of each group, weighted by the group's share of the rows or of `weights`."""
    means, covariances, totals = group_moments(X, groups, weights)
    factors, whitening = whiten(covariances, jitter)
    return Mixture(means, factors, whitening, log_weights_of(totals, groups))


def log_weights_of(totals: Array, groups: Partition) -> Array:
    """(g,) logarithms of the total weights (g,) of the groups.

    A group without weight is negligible beside the others; if no group has weight, sizes are the weights.
    """
    xp = namespace(totals)
    return xp.log(xp.where(totals > 0, totals, groups.sizes)) - xp.where(totals > 0, 0.0, _NOTHING)


def group_means(X: Array, groups: Partition, weights: Array | None = None) -> tuple[Array, Array]:
    """(g, d) means and (g,) total weights, as in `group_moments`."""
    if weights is None:
        return segment_means(X, groups), groups.sizes.astype(X.dtype)
    totals, w, divisors = _shares(X, groups, weights)
    return segment_sums(w * X, groups) / divisors, totals


def _shares(X: Array, groups: Partition, weights: Array) -> tuple[Array, Array, Array]:
    """(g,) total weights, (n, 1) weights of the rows (1 in a group without weight) and (g, 1) their sums."""
    totals = segment_sums(weights.astype(X.dtype, copy=False), groups)
    w = namespace(X).where((totals > 0)[groups.labels()], weights, 1).astype(X.dtype, copy=False)[:, None]
    return totals, w, segment_sums(w, groups)


def group_moments(X: Array, groups: Partition, weights: Array | None = None) -> tuple[Array, Array, Array]:
    """(g, d) means, (g, d, d) covariances (divisor: the total weight) and (g,) total weights, in two passes.

    A group without weight has the unweighted moments of its records, and a total of 0.
    """
    xp = namespace(X)
    if weights is None:
        return segment_means(X, groups), segment_covariances(X, groups), groups.sizes.astype(X.dtype)
    totals, w, divisors = _shares(X, groups, weights)
    means = segment_sums(w * X, groups) / divisors
    Z = X - means[groups.labels()]
    d = X.shape[1]
    covariances = xp.empty((groups.parts, d, d), dtype=X.dtype)
    for j in range(d):
        products = segment_sums(w * Z[:, j : j + 1] * Z[:, : j + 1], groups) / divisors
        covariances[:, j, : j + 1] = products
        covariances[:, : j + 1, j] = products
    return means, covariances, totals
