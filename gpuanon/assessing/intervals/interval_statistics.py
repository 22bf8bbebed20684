"""Guaranteed ranges of statistics when each record is known by a box only.

A range holds for every table whose records lie in the boxes, so also for those records of the original that were
released.  Statistics have the divisor N, as in [1].  Ends are rounded outward.

mean        : exact: the means of the ends, by exact sums
variance    : lower end exact, ``min_m Σ dist(m, [low, high])² / N``; upper end ``min_m Σ max((low − m)², (high − m)²)
              / N``, which exceeds the exact one (NP-hard in general) by little; both are convex in m
covariance  : cells of the means, with a rigorous remainder (`gpuanon.assessing.intervals.box_quadratic`)
correlation : bisection of r on the sign of ``Cov − r (α Var_x + Var_y / α) / 2`` over cells of α
slope       : bisection of b on the sign of ``Cov − b Var_x``
several regressors : the interval normal equations, enclosed after preconditioning (Krawczyk)

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI.
.. [2] H. T. Nguyen, V. Kreinovich, B. Wu, G. Xiang (2012), Computing statistics under interval and fuzzy uncertainty.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.intervals.box_quadratic import COVARIANCE, EPS, Pair, correlation_form, slope_form
from gpuanon.errors import InputError
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.exact_sum import ExactMoments

Range = tuple[float, float]

_FIRST_STEP = 1 << 14
_BISECTIONS = 7
_ALPHA_CELL = 0.03
"""Half-width of a cell of log α: within it the product of the deviations is right to 4.5e-4."""
_MOST_ALPHA_CELLS = 16


@dataclass(frozen=True, eq=False, repr=False)
class IntervalBoxes:
    """Different boxes, and how many records lie in each.

    low, high : (g, d) ends
    counts    : (g,) int64 records
    """

    low: Host
    high: Host
    counts: Host

    @classmethod
    def of(cls, low: Host, high: Host, counts: Host | None = None) -> IntervalBoxes:
        """Equal boxes are counted together."""
        low, high = (np.asarray(ends, dtype=np.float64) + 0.0 for ends in (low, high))  # one zero
        if not len(low):
            raise InputError("interval statistics need at least one record")
        if not (np.isfinite(low).all() and np.isfinite(high).all()):
            raise InputError("interval statistics need finite ends")
        if (low > high).any():
            raise InputError(f"{int((low > high).any(axis=1).sum())} boxes have a low end above their high end")
        labels = equal_rows(np.hstack([low, high]))
        _, first, place = np.unique(labels, return_index=True, return_inverse=True)
        weights = np.ones(len(low), dtype=np.int64) if counts is None else counts
        total = np.zeros(len(first), dtype=np.int64)
        np.add.at(total, place.reshape(-1), weights)
        return cls(low[first], high[first], total)

    def merge(self, other: IntervalBoxes) -> IntervalBoxes:
        """The boxes of both."""
        both = [np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("low", "high", "counts")]
        return IntervalBoxes.of(*both)

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.counts.sum())

    def mean(self, j: int) -> Range:
        """Range of the mean of column `j`; exact, then rounded outward."""
        low, high = (_mean(ends[:, j], self.counts) for ends in (self.low, self.high))
        return _below(low), _above(high)

    def variance(self, j: int) -> Range:
        """Range of the variance of column `j`."""
        column = self._columns[j]
        low, high = column.variance
        return max(0.0, _scaled_down(low, 2 * column.exponent)), _scaled_up(high, 2 * column.exponent)

    def deviation(self, j: int) -> Range:
        """Range of the standard deviation of column `j`."""
        low, high = self._columns[j].variance
        exponent = self._columns[j].exponent
        low, high = math.sqrt(max(low, 0.0)) * (1 - 2 * EPS), math.sqrt(high) * (1 + 2 * EPS)
        return _scaled_down(low, exponent), _scaled_up(high, exponent)

    def covariance(self, i: int, j: int) -> Range:
        """Range of the covariance of columns `i` and `j`."""
        first, second = self._columns[i], self._columns[j]
        exponent = first.exponent + second.exponent
        upper = Pair(first.ends, second.ends, self._share).largest(COVARIANCE)
        lower = -Pair(-first.ends[::-1], second.ends, self._share).largest(COVARIANCE)
        return _scaled_down(lower, exponent), _scaled_up(upper, exponent)

    def correlation(self, i: int, j: int) -> Range:
        """Range of the correlation of columns `i` and `j`; [−1, 1] where a column may be constant."""
        first, second = self._columns[i], self._columns[j]
        if min(first.variance[0], second.variance[0]) <= 0:
            return -1.0, 1.0
        upper = self._largest_correlation(first, second)
        return -self._largest_correlation(first.negated(), second), upper

    def slope(self, i: int, j: int) -> Range:
        """Range of the slope of the regression of column `j` on column `i` alone; infinite if `i` may be constant."""
        first, second = self._columns[i], self._columns[j]
        if first.variance[0] <= 0:
            return -math.inf, math.inf
        # Both in units of their own deviations, so that the two forms are of the same size.
        x, y = first.divided(math.sqrt(first.variance[1])), second.divided(math.sqrt(second.variance[1] or 1.0))
        exponent = y.exponent - x.exponent
        upper = self._largest_slope(x, y)
        lower = -self._largest_slope(x, y.negated())
        factor = y.unit / x.unit
        lower, upper = (end * factor + sign * abs(end * factor) * 8 * EPS for end, sign in ((lower, -1), (upper, 1)))
        return _scaled_down(lower, exponent), _scaled_up(upper, exponent)

    def _largest_correlation(self, x: _Column, y: _Column) -> float:
        x, y = x.divided(math.sqrt(x.variance[1])), y.divided(math.sqrt(y.variance[1]))
        ends = [0.5 * math.log(v) for v in (y.variance[0] / x.variance[1], y.variance[1] / x.variance[0])]
        ends = [ends[0] - 1e-12, ends[1] + 1e-12]
        count = min(_MOST_ALPHA_CELLS, max(1, math.ceil((ends[1] - ends[0]) / (2 * _ALPHA_CELL))))
        half = (ends[1] - ends[0]) / (2 * count) * (1 + 1e-12)
        cells = [ends[0] + (2 * at + 1) * half for at in range(count)]
        near = min(cells, key=abs) if count % 2 else (ends[0] + ends[1]) / 2
        pairs = {at: Pair(x.ends, y.divided(math.exp(at)).ends, self._share) for at in {*cells, near}}
        stretch = math.cosh(half) * (1 + 1e-12)

        def below(r: float) -> bool:
            """Whether no table in the boxes has a correlation of `r` or more."""
            if r >= 0:  # σ_x σ_y ≥ (α Var_x + Var_y / α) / (2 cosh t) where α is within e^±t of σ_y / σ_x
                return all(pairs[at].largest(correlation_form(r / stretch), limit=0.0) < 0 for at in cells)
            return pairs[near].largest(correlation_form(r), limit=0.0) < 0  # −r σ_x σ_y ≤ −r (α Var_x + Var_y / α) / 2

        return _bisected(below, _middle_correlation(x, y, self._share), 1.0)

    def _largest_slope(self, x: _Column, y: _Column) -> float:
        pair = Pair(x.ends, y.ends, self._share)
        most = pair.largest(COVARIANCE)
        highest = most / (x.variance[0] if most > 0 else x.variance[1])
        highest += abs(highest) * 1e-12
        lowest = _middle_covariance(x, y, self._share) / max(_middle_covariance(x, x, self._share), x.variance[0])
        return _bisected(lambda b: pair.largest(slope_form(b), limit=0.0) < 0, min(lowest, highest), highest)

    @cached_property
    def _share(self) -> Host:
        return self.counts / self.rows

    @cached_property
    def _columns(self) -> list[_Column]:
        return [_Column.of(self.low[:, j], self.high[:, j], self._share) for j in range(self.low.shape[1])]


@dataclass(frozen=True, eq=False, repr=False)
class _Column:
    """One column, centred and scaled by 2^-exponent and by 1 / unit: ends (2, g), rounded outward."""

    ends: Host
    share: Host
    exponent: int
    unit: float = 1.0

    @classmethod
    def of(cls, low: Host, high: Host, share: Host) -> _Column:
        exponent = math.frexp(max(float(np.abs(low).max()), float(np.abs(high).max())))[1]
        ends = _outward(np.ldexp(np.stack([low, high]), -exponent))
        centre = float(share @ (ends[0] / 2 + ends[1] / 2))
        ends = _outward(ends - centre)
        spread = math.frexp(max(float(np.abs(ends).max()), 2.0**-500))[1]
        return cls(_outward(np.ldexp(ends, -spread)), share, exponent + spread)

    def negated(self) -> _Column:
        return _Column(-self.ends[::-1], self.share, self.exponent, self.unit)

    def divided(self, unit: float) -> _Column:
        return _Column(_outward(self.ends / unit), self.share, self.exponent, self.unit * unit)

    @cached_property
    def variance(self) -> Range:
        """Range of the variance of the scaled column."""
        low, high = self.ends
        size = float(np.abs(self.ends).max())
        slack = (len(low) + 64) * EPS

        def upper(m: float) -> tuple[float, float]:
            far = np.where(np.abs(low - m) > np.abs(high - m), low, high)
            return float(self.share @ np.square(far - m)), float(self.share @ far) - m

        best, (a, b) = math.inf, (float(low.min()), float(high.max()))
        for _ in range(60):  # the derivative is −2 (mean of the far ends − m)
            m = (a + b) / 2
            value, rest = upper(m)
            best = min(best, value + slack * (size + abs(m)) ** 2 * 4)
            a, b = (m, b) if rest > 0 else (a, m)

        def slope(m: float) -> float:
            """Half the derivative of Σ dist(m, box)² / N."""
            return float(self.share @ (np.maximum(m - high, 0) - np.maximum(low - m, 0)))

        error = slack * 4 * size
        # The minimum is not left of a point where the function certainly falls, nor right of one where it rises.
        left, right = (float(low.min()), float(high.max())), (float(low.min()), float(high.max()))
        for _ in range(60):
            m = sum(left) / 2
            left = (m, left[1]) if slope(m) <= -error else (left[0], m)
            m = sum(right) / 2
            right = (right[0], m) if slope(m) >= error else (m, right[1])
        a, b = left[0], right[1]
        apart = np.maximum(np.maximum(low - b, a - high), 0)
        least = float(self.share @ np.square(apart))
        return max(0.0, least * (1 - slack) - 1e-300), best


def regression(boxes: IntervalBoxes, target: int, on: list[int]) -> tuple[list[Range], str]:
    """Ranges of the coefficients of the regression of a column on others, the constant first; and how they were found.

    One regressor: bisection.  Several: ``Σ_xx c = Σ_x0`` with the ranges of the covariances, preconditioned by the
    inverse R of the middle matrix.  Where ``|I − R Σ_xx|`` has a spectral radius below 1, every solution lies within
    ``(I − |I − R Σ_xx|)⁻¹ |R (Σ_x0 − Σ_xx c̃)|`` of the middle solution c̃; else nothing is known: infinite ranges.
    """
    if len(on) == 1:
        slopes, how = [boxes.slope(on[0], target)], "bisection of the slope"
    else:
        slopes, how = _enclosed(boxes, target, on), "interval normal equations (Krawczyk)"
    low, high = boxes.mean(target)
    for slope, j in zip(slopes, on, strict=True):
        first, last = _product(slope, boxes.mean(j))
        low, high = _below_float(low - last), _above_float(high - first)
    return [(low, high), *slopes], how


def _enclosed(boxes: IntervalBoxes, target: int, on: list[int]) -> list[Range]:
    """The coefficients of several regressors, in units of the columns' deviations until the end."""
    columns = [boxes._columns[j] for j in [*on, target]]
    units = [math.sqrt(column.variance[1]) or 1.0 for column in columns]
    scaled = [column.divided(unit) for column, unit in zip(columns, units, strict=True)]
    d = len(on)
    middle, radius = np.zeros((d, d + 1)), np.zeros((d, d + 1))
    for i in range(d):
        for j in range(i, d + 1):
            if i == j:
                low, high = scaled[i].variance
            else:
                high = Pair(scaled[i].ends, scaled[j].ends, boxes._share).largest(COVARIANCE)
                low = -Pair(scaled[i].negated().ends, scaled[j].ends, boxes._share).largest(COVARIANCE)
            for place in {(i, j), (j, i)} if j < d else {(i, j)}:
                middle[place] = (low + high) / 2
                radius[place] = (high - low) / 2 * (1 + 4 * EPS) + 4 * EPS * max(abs(low), abs(high))
    nothing = [(-math.inf, math.inf)] * d
    try:
        inverse = np.linalg.inv(middle[:, :d])
    except np.linalg.LinAlgError:
        return nothing
    rounding = 1e-14 * d * np.abs(inverse) @ np.abs(middle)  # of the products below
    solution = inverse @ middle[:, d]
    defect = np.abs(np.eye(d) - inverse @ middle[:, :d]) + np.abs(inverse) @ radius[:, :d] + rounding[:, :d]
    if float(np.max(np.abs(np.linalg.eigvals(defect)))) >= 0.999:
        return nothing
    rest = np.abs(inverse @ (middle[:, d] - middle[:, :d] @ solution))
    rest += np.abs(inverse) @ (radius[:, d] + radius[:, :d] @ np.abs(solution))
    rest += rounding[:, d] + rounding[:, :d] @ np.abs(solution)
    wide = np.linalg.solve(np.eye(d) - defect, rest) * (1 + 1e-9)
    if not (np.eye(d) @ wide >= defect @ wide + rest * (1 - 1e-12)).all():
        return nothing  # the solution of the small system could not be verified
    out = []
    for at in range(d):
        factor = Fraction(scaled[d].unit) / Fraction(scaled[at].unit)
        factor *= Fraction(2) ** (columns[d].exponent - columns[at].exponent)
        ends = (Fraction(float(solution[at] - wide[at])), Fraction(float(solution[at] + wide[at])))
        out.append((_below(ends[0] * factor), _above(ends[1] * factor)))
    return out


def _bisected(below: Callable[[float], bool], low: float, high: float) -> float:
    """A number of which `below` is certain, near the smallest, or `high`, which is known to be an upper bound.

    From `low`, steps grow until `below` is certain; then the last step is bisected.
    """
    step = (high - low) / _FIRST_STEP
    while low + step < high:
        if below(low + step):
            high = low + step
            break
        low, step = low + step, 4 * step
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if below(middle) else (middle, high)
    return high


def _middle_covariance(x: _Column, y: _Column, share: Host) -> float:
    """Covariance of the middles of the boxes: a place to start from, which promises nothing."""
    u, v = x.ends.mean(axis=0), y.ends.mean(axis=0)
    return float(share @ (u * v) - (share @ u) * (share @ v))


def _middle_correlation(x: _Column, y: _Column, share: Host) -> float:
    """Correlation of the middles of the boxes."""
    spread = _middle_covariance(x, x, share) * _middle_covariance(y, y, share)
    return min(1.0, max(-1.0, _middle_covariance(x, y, share) / math.sqrt(spread))) if spread > 0 else -1.0


def _mean(values: Host, counts: Host) -> Fraction:
    """The mean of `values`, each counted so often, without rounding: one exact sum per bit of the counts."""
    total = 0
    for bit in range(int(counts.max()).bit_length()):
        chosen = values[(counts >> bit) & 1 == 1]
        if len(chosen):
            total += ExactMoments.of(chosen).total << bit
    return Fraction(total, int(counts.sum()) << 1074)


def rounded_outward(total: int, count: int) -> Range:
    """The mean of `count` numbers whose sum is `total` in units of 2^-1074, as the floats next to it."""
    mean = Fraction(total, count << 1074)
    return _below(mean), _above(mean)


def _product(one: Range, other: Range) -> Range:
    """Range of a product."""
    if any(map(math.isinf, one)):
        return (0.0, 0.0) if other == (0.0, 0.0) else (-math.inf, math.inf)
    ends = [a * b for a in one for b in other]
    return _below_float(min(ends)), _above_float(max(ends))


def _below(number: Fraction) -> float:
    """The largest float that is not above `number`."""
    found = _float(number)
    return found if not math.isinf(found) and Fraction(found) <= number else math.nextafter(found, -math.inf)


def _above(number: Fraction) -> float:
    return -_below(-number)


def _float(number: Fraction) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _below_float(number: float) -> float:
    return math.nextafter(number, -math.inf)


def _above_float(number: float) -> float:
    return math.nextafter(number, math.inf)


def _outward(ends: Host) -> Host:
    """Low ends (row 0) one step down, high ends (row 1) one step up."""
    return np.stack([np.nextafter(ends[0], -np.inf), np.nextafter(ends[1], np.inf)])


def _scaled_down(number: float, exponent: int) -> float:
    return _below(Fraction(number) * Fraction(2) ** exponent) if math.isfinite(number) else number


def _scaled_up(number: float, exponent: int) -> float:
    return _above(Fraction(number) * Fraction(2) ** exponent) if math.isfinite(number) else number
