"""What a box costs: the width that it adds to the ranges of the wanted statistics.

A record adds ``f(x)`` to a statistic, its influence, and a box with n records the n-fold width of the range of f over
the box.  Influences are quadratic: with the sensitivities ``a_i = |∂f / ∂x_i|`` at the middle of the box, which are
constants or linear forms ``|g_i|``, the width is ``Σ_i a_i w_i`` as long as no ``g_i`` changes its sign inside the box.
Where one does, |g_i| is replaced by the least that the box allows: for a product the half-width of the other factor,
which is exact unless both factors change their signs; for a square two tangents of the exact width.

The sum of the sensitivities of a box's records is equal to first order only: one record far from the others makes a
box wide, and hardly changes that sum.

All operations are elementwise, in a fixed order, and the sensitivities are rounded down to whole numbers, so small that
all costs are exact: host and device find the same costs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima
from gpuanon.masking.groups.boxes.sensitivities import FLOOR, Form, Gradient

BITS = 24
"""Of a coordinate."""
FEW = 64
"""Boxes of k rows, united, whose cost is exact."""


def whole_coordinates(X: Array) -> Array:
    """(n, d) int32: the columns of `X` on one grid, of 2^24 steps over the widest range: widths stay comparable."""
    xp = namespace(X)
    low = X.min(axis=0)
    return xp.rint((X - low) * _steps(X)).astype(np.int32)


def _steps(X: Array) -> Array:
    """Of the grid, per unit of `X`."""
    xp = namespace(X)
    return ((1 << BITS) - 1) / xp.maximum((X.max(axis=0) - X.min(axis=0)).max(), 1e-300)


@dataclass(frozen=True, repr=False)
class BoxCost:
    """The cost of boxes on the grid.

    middle   : (d,) twice the means of the columns
    constant : (d,) sensitivities that are the same everywhere
    forms    : those that are linear forms of twice the distance from the means
    least    : smallest sensitivity
    """

    middle: tuple[float, ...]
    constant: tuple[float, ...]
    forms: tuple[Form, ...]
    least: float = 1.0

    @classmethod
    def of(cls, X: Array, gradient: Gradient, k: int) -> BoxCost:
        """For the rows of `X` (n, d); no sensitivity is below `FLOOR` times the mean of all."""
        low, high = (to_host(ends).astype(np.float64) for ends in (X.min(axis=0), X.max(axis=0)))
        far = np.maximum(np.abs(low - gradient.mean), np.abs(high - gradient.mean))
        most = np.array(gradient.constant)
        for form in gradient.forms:
            reach = 2 * sum(abs(factor) * far[j] for j, factor in form.factors)  # widths are at most twice `far`
            for i, weight in form.weights:
                most[i] += weight * reach
        bits = min(20, max(4, int(52 - BITS - np.log2(2 * FEW * k) - np.log2(X.shape[1]))))
        scale = ((1 << bits) - 1) / max(float(most.max()), 1e-300)
        steps = float(_steps(X))
        mean = float(gradient.sensitivities(X).mean())
        return cls(
            tuple(np.rint(2 * (gradient.mean - low) * steps).tolist()),
            tuple(np.rint(scale * np.array(gradient.constant)).tolist()),
            tuple(form.times(0.5 * scale / steps) for form in gradient.forms),
            max(1.0, float(np.rint(FLOOR * scale * mean))),
        )

    def sensitivities(self, low: Array, high: Array) -> list[Array]:
        """d arrays of whole float64: those of boxes with the ends low, high (d, …)."""
        xp = namespace(low)
        width = high - low
        twice = [low[j] + high[j] - middle for j, middle in enumerate(self.middle)]
        found = [xp.full(low.shape[1:], constant) for constant in self.constant]
        for form in self.forms:
            size = form.least(xp, twice, width)
            for i, weight in form.weights:
                found[i] += weight * size
        return [xp.maximum(xp.floor(a), self.least) for a in found]

    def per_record(self, low: Array, high: Array) -> Array:
        """(…) whole float64: cost of boxes with the ends low, high (d, …), for each record in them."""
        total = namespace(low).zeros(low.shape[1:])
        for j, a in enumerate(self.sensitivities(low, high)):
            a *= high[j] - low[j]
            total += a
        return total

    def of_groups(self, x: Array, groups: Partition) -> Array:
        """(g,) whole float64 cost of each group's tight box."""
        low, high = (segment(x, groups).T.astype(np.float64) for segment in (segment_minima, segment_maxima))
        return self.per_record(low, high) * groups.sizes
