"""The largest value that a difference of two variances can take when each record is known by a box only.

For two columns x and y, linear forms ``s = s₁x + s₂y``, ``t = t₁x + t₂y`` and numbers A > 0, B ≥ 0, the quantity

    Q = A · Var(s) − B · Var(t)

covers what is needed of two columns: ``Cov(x, y) = (Var(x + y) − Var(x − y)) / 4``, and the sign of
``Cov(x, y) − ρ (Var(x) + Var(y)) / 2`` or of ``Cov(x, y) − b Var(x)``, by which a correlation or a slope is bisected.

A variance is the smallest mean square about any centre: ``Var(s) ≤ E(s − c)²`` for every c, and
``−Var(t) ≤ −E(t − e)² + δ²`` for every e with |E t − e| ≤ δ.  So for every cell [e − δ, e + δ] of a cover of the
possible means of t, and for every c,

    Q ≤ E max_box {A (s − c)² − B (t − e)²} + B δ²    whenever E t lies in the cell.

The maximum over a box is at a corner or on an edge, where it is that of a parabola.  The right-hand side is convex in
c, and is minimised there; any c gives a valid bound.  Cells are halved, those of the largest bound first.

All bounds hold for the exact real numbers: rounding errors are bounded and added.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host

EPS = float(np.finfo(np.float64).eps)
_STEPS = 12
"""Values of c that are tried for a cell."""
_CELLS = 48
"""Cells that are looked at."""
_FINEST = 1 / 256
"""Remainder of the finest cell, as a share of that of the whole range of means."""


@dataclass(frozen=True)
class Difference:
    """``above · Var(s) − below · Var(t)``, with s and t as the factors of x and y."""

    above: float
    s: tuple[float, float]
    below: float
    t: tuple[float, float]


COVARIANCE = Difference(0.25, (1.0, 1.0), 0.25, (1.0, -1.0))
"""Cov(x, y)."""


def correlation_form(rho: float) -> Difference:
    """``Cov(x, y) − ρ (Var(x) + Var(y)) / 2`` for −1 < ρ < 1."""
    return Difference((1 - rho) / 4, (1.0, 1.0), (1 + rho) / 4, (1.0, -1.0))


def slope_form(b: float) -> Difference:
    """``Cov(x, y) − b Var(x)``, which is ``(Var(x + z) − Var(x − z)) / 4`` with ``z = y − b x``."""
    return Difference(0.25, (1.0 - b, 1.0), 0.25, (1.0 + b, -1.0))


@dataclass(frozen=True, eq=False, repr=False)
class Pair:
    """Boxes of two columns.

    x, y  : (2, g) low and high ends
    share : (g,) share of the records in each box
    """

    x: Host
    y: Host
    share: Host

    @property
    def slack(self) -> float:
        """Bound of the relative rounding error of a weighted mean over the boxes, in any order of summation."""
        return (len(self.share) + 256) * EPS

    def mean_range(self, form: tuple[float, float]) -> tuple[float, float]:
        """Range of the mean of a linear form, rounded outward."""
        ends = [np.sort(factor * column, axis=0) for factor, column in zip(form, (self.x, self.y), strict=True)]
        low, high = (float(self.share @ (ends[0][at] + ends[1][at])) for at in (0, 1))
        error = self.slack * self.size(form)
        return low - error, high + error

    def size(self, form: tuple[float, float]) -> float:
        """Bound of the absolute value of a linear form."""
        return abs(form[0]) * float(np.abs(self.x).max()) + abs(form[1]) * float(np.abs(self.y).max())

    def bound(self, form: Difference, c: float, e: float) -> tuple[float, float]:
        """``E max_box {A (s − c)² − B (t − e)²}``, rounded up, and the mean of s where the maxima are."""
        a, b = form.above, form.below
        best = place = None
        for x, y in self._candidates(form, c, e):
            s = form.s[0] * x + form.s[1] * y
            value = a * np.square(s - c) - b * np.square(form.t[0] * x + form.t[1] * y - e)
            if best is None or place is None:
                best, place = value, s
            else:
                better = value > best
                best, place = np.where(better, value, best), np.where(better, s, place)
        assert best is not None
        size = a * (self.size(form.s) + abs(c)) ** 2 + b * (self.size(form.t) + abs(e)) ** 2
        return float(self.share @ best) + self.slack * size, float(self.share @ place)

    def _candidates(self, form: Difference, c: float, e: float) -> list[tuple[Host, Host]]:
        """The corners of each box, and on each edge the vertex of the parabola where it opens downward."""
        (s1, s2), (t1, t2) = form.s, form.t
        a, b = form.above, form.below
        found = [(x, y) for x in self.x for y in self.y]
        curve_x, curve_y = a * s1 * s1 - b * t1 * t1, a * s2 * s2 - b * t2 * t2
        if curve_x < 0:
            for y in self.y:
                vertex = (b * t1 * (t2 * y - e) - a * s1 * (s2 * y - c)) / curve_x
                found.append((np.clip(vertex, self.x[0], self.x[1]), y))
        if curve_y < 0:
            for x in self.x:
                vertex = (b * t2 * (t1 * x - e) - a * s2 * (s1 * x - c)) / curve_y
                found.append((x, np.clip(vertex, self.y[0], self.y[1])))
        return found

    def _cell(self, form: Difference, e: float, start: float, enough: float) -> tuple[float, float]:
        """The smallest bound for the means e of t over the c that are tried, and that c; ends below `enough`."""
        low, high = self.mean_range(form.s)
        c, best, best_c = min(max(start, low), high), np.inf, start
        for step in range(_STEPS):
            value, mean = self.bound(form, c, e)
            if value < best:
                best, best_c = value, c
            if best < enough:
                break
            if mean > c:  # the bound falls towards the mean of s
                low = c
            else:
                high = c
            if high - low <= 1e-9 * (abs(low) + abs(high)):
                break
            c = mean if low < mean < high and step % 2 == 0 else (low + high) / 2
        return best, best_c

    def largest(self, form: Difference, *, limit: float | None = None) -> float:
        """An upper bound of Q over all values that the boxes allow.

        limit : stop as soon as the bound is known to be below it, or a fine cell is known not to be
        """
        low, high = self.mean_range(form.t)
        half = (high - low) / 2 * (1 + 4 * EPS)
        finest = form.below * half * half * _FINEST
        start = sum(self.mean_range(form.s)) / 2
        cells: list[tuple[float, float, float, float, float]] = []

        def add(e: float, delta: float, c: float) -> None:
            # Halving [e − δ, e + δ] rounds e: the cells are a little wider, so that they cover.
            delta *= 1 + 4 * EPS
            delta += 4 * EPS * abs(e)
            remainder = form.below * delta * delta * (1 + 4 * EPS)
            value, c = self._cell(form, e, c, -np.inf if limit is None else limit - remainder)
            heapq.heappush(cells, (-(value + remainder), e, delta, c, value))

        add((low + high) / 2, half, start)
        for _ in range(_CELLS):
            top, e, delta, c, value = cells[0]
            if limit is not None and (-top < limit or value >= limit):
                break
            if form.below * delta * delta <= finest:
                break
            heapq.heappop(cells)
            add(e - delta / 2, delta / 2, c)
            add(e + delta / 2, delta / 2, c)
        return -cells[0][0]
