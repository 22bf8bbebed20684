"""From real numbers to values that a column can hold: inside its bounds, on its lattice, with the moments kept.

A masked coordinate is a real number.  A column holds multiples of a step between its smallest and largest value, or, if
it has no step, numbers of one sign.  Rounding to the nearest and clipping shift mean and variance, much so where a
column has few values: a Poisson variable of mean 1.2 gains 5 % in its mean.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Draws

FINE = 16.0
"""Steps in a standard deviation from which the nearest value is taken: the variance of rounding is below 0.04 %."""

_BITS = 20  # of a step; what differs by less is equal, so that devices and thread counts round alike
_WHOLE = 1 << _BITS
MOST_STEPS = 2.0 ** (62 - _BITS)
"""Steps in a value that can be rounded at random: beyond, the nearest is taken."""

_FEWEST = 30  # rows whose moments are worth keeping
_ROUNDS = 60
_CLOSE = 1e-5
_ATOM = 0.05  # share of a value at an end of the range from which it is a value of its own
_SAME = 1e-9  # of a deviation: what a value may be off by rounding


@dataclass(frozen=True)
class ColumnBefore:
    """What a lattice has to know of a column before it was masked.

    center  : what nulls were filled by
    present : share of rows with a value
    at_low, at_high : shares of these at the bounds of the lattice
    """

    center: float
    present: float = 1.0
    at_low: float = 0.0
    at_high: float = 0.0


@dataclass(frozen=True)
class Lattice:
    """The values that a column may be given.

    step      : values are multiples of it; None: any number
    low, high : bounds; ±inf for none
    coarse    : whether the step is large against the spread of the column
    linear    : whether values are masked as they are: of one that is masked as its logarithm the moments that a method
                keeps are those of the logarithm, and its own are not to be restored
    """

    step: float | None
    low: float
    high: float
    coarse: bool
    linear: bool = True

    def settle(
        self, values: Host, null: Host | None, draws: Draws, groups: Host | None, was: ColumnBefore | None = None
    ) -> Host:
        """(m,) values inside the bounds and on the lattice.

        values : (m,) finite
        null   : (m,) rows that are released as nulls, or None
        draws  : of the m rows
        groups : (m,) numbers from 0 of the groups whose rows have one value and are to receive one; the mean is kept.
                 None: each row for itself, and the variance is kept as well; what lies beyond a bound is led back by
                 a smooth increasing function, and a bound that 5 % of the values had keeps its share
        was    : the column before; None: without nulls, and with no share at its bounds
        """
        here = np.ones(len(values), dtype=bool) if null is None else ~null
        if groups is None:
            values = self._calibrated(values, here, draws, was or ColumnBefore(0.0))
        values = np.clip(values, self.low, self.high)
        if self.step is None or not len(values):
            return values
        if not self.coarse:
            return np.asarray(np.clip(np.rint(values / self.step) * self.step, self.low, self.high))
        if groups is not None:
            values = _of_groups(values / self.step, draws, groups) * self.step
        else:
            values[here] = _rounded(values[here] / self.step, draws.take(np.flatnonzero(here))) * self.step
        return values

    def _calibrated(self, values: Host, here: Host, draws: Draws, was: ColumnBefore) -> Host:
        """The values with the shares of the bounds, and the others after ``bounded(a + c y)``.

        a and c are such that mean and variance are those that the mask gave.  Nulls are filled by one value before
        they are masked: what a mask carried from rows with a value to rows without one is missing in the former, and
        is counted there.
        """
        own = values[here]
        if len(own) < _FEWEST or not self._moved(own, was):
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            off = values - was.center
            mean = float(off.sum()) / (was.present * len(values))
            variance = float((off**2).sum()) / (was.present * len(values)) - mean**2
        if not 0 < variance < np.inf:
            return values
        settled, inner, open_, moments = self._at_bounds(
            own, (was.center + mean, variance), draws.take(np.flatnonzero(here)), was
        )
        settled[open_] = inner._with_moments(own[open_], *moments) if self.linear else inner._clipped(own[open_])
        out = values.copy()
        out[here] = settled
        return out

    def _moved(self, own: Host, was: ColumnBefore) -> bool:
        """Whether a mask gave values that the column cannot hold, or took some from its bounds."""
        if bool((own < self.low).any() or (own > self.high).any()):
            return True
        if self.step is not None:
            return (self.coarse or was.present < 1 or max(was.at_low, was.at_high) >= _ATOM) and self._off(own)
        near = _SAME * float(own.std())
        lost = [
            share >= _ATOM and int((np.abs(own - end) <= near).sum()) != round(share * len(own))
            for end, share in ((self.low, was.at_low), (self.high, was.at_high))
        ]
        return was.present < 1 or any(lost)

    def _at_bounds(
        self, own: Host, moments: tuple[float, float], draws: Draws, was: ColumnBefore
    ) -> tuple[Host, Lattice, Host, tuple[float, float]]:
        """The values with the lowest and highest at the bounds, the lattice, rows and moments of those between.

        A bound whose share leaves no room for the moments is passed over.
        """
        settled, open_, inner = own.copy(), np.ones(len(own), dtype=bool), self
        order: Host | None = None
        for end, share, side in ((self.low, was.at_low, 1), (self.high, was.at_high, -1)):
            count, left = round(share * len(own)), int(open_.sum())
            if share < _ATOM or left - count < _FEWEST:
                continue
            (mean, variance), gap = moments, side * (self.step or 0.0)
            rest = (mean * left - end * count) / (left - count)
            squares = ((variance + (mean - end) ** 2) * left) / (left - count) - (rest - end) ** 2
            if squares <= 0 or side * (rest - end - gap) <= 0:
                continue
            order = _ascending(own, self.step or float(own.std()) or 1.0, draws) if order is None else order
            chosen = order[:count] if side > 0 else order[len(own) - count :]
            settled[chosen], open_[chosen], moments = end, False, (rest, squares)
            inner = replace(inner, low=end + gap) if side > 0 else replace(inner, high=end + gap)
        return settled, inner, open_, moments

    def _clipped(self, values: Host) -> Host:
        return np.clip(values, self.low, self.high)

    def _with_moments(self, own: Host, mean: float, variance: float) -> Host:
        """``bounded(a + c y)`` of this mean and variance."""
        soft = self._softness(own, variance)
        centred = own - own.mean()
        a, c = mean, (variance / float(own.var())) ** 0.5 if own.var() > 0 else 1.0
        for _ in range(_ROUNDS):
            settled = self._bounded(a + c * centred, soft)
            off_mean, off_variance = float(settled.mean()) - mean, self._variance(settled) / variance
            if abs(off_mean) < _CLOSE * variance**0.5 and abs(off_variance - 1) < _CLOSE:
                break
            a -= off_mean
            c *= min(max(off_variance, 0.25), 4.0) ** -0.5
        return settled

    def _off(self, own: Host) -> bool:
        """Whether a value is not on the lattice."""
        assert self.step is not None
        units = own / self.step
        return bool((np.abs(units - np.rint(units)) * _WHOLE >= 0.5).any())

    def _softness(self, own: Host, variance: float) -> tuple[float, float]:
        """How far from each bound values are compressed: twice the depth of those beyond it, a deviation at most."""
        depths = (np.maximum(self.low - own, 0.0), np.maximum(own - self.high, 0.0))
        most = variance**0.5
        low, high = (min(most, 2.0 * float(np.sqrt((d[d > 0] ** 2).mean()))) if d.any() else 0.0 for d in depths)
        return low, high

    def _bounded(self, values: Host, soft: tuple[float, float]) -> Host:
        """Values inside the bounds: ``low + s log(1 + exp((y − low) / s))``, and the same from above."""
        if np.isfinite(self.low):
            values = self.low + _softplus(values - self.low, soft[0])
        if np.isfinite(self.high):
            values = self.high - _softplus(self.high - values, soft[1])
        return np.clip(values, self.low, self.high)

    def _variance(self, settled: Host) -> float:
        """Of the values after rounding at random, which adds f (1 − f) squared steps for a fraction f."""
        variance = float(settled.var())
        if self.step is None or not self.coarse:
            return variance
        fraction = settled / self.step % 1.0
        return variance + self.step**2 * float((fraction * (1.0 - fraction)).mean())


def _softplus(x: Host, s: float) -> Host:
    """s log(1 + exp(x / s)); for s = 0 its limit, the larger of x and 0."""
    above = np.maximum(x, 0.0)
    return above if s == 0 else np.asarray(above + s * np.log1p(np.exp(-np.abs(x) / s)))


def _ascending(values: Host, unit: float, draws: Draws) -> Host:
    """(m,) rows in ascending order of their values; those that differ by less than 2⁻²⁰ units at random."""
    return np.lexsort((draws.child("ends").keys(), np.rint(values / unit * _WHOLE)))


def _of_groups(units: Host, draws: Draws, groups: Host) -> Host:
    """(m,) whole numbers, one for each group; groups of one size are rounded together."""
    sizes = np.bincount(groups)
    first = np.empty(len(sizes), dtype=np.int64)
    order = np.argsort(draws.records, kind="stable")[::-1]
    first[groups[order]] = order  # the last write wins: the lowest record
    return _rounded(units[first], draws.take(first), sizes)[groups]


def _rounded(units: Host, draws: Draws, sizes: Host | None = None) -> Host:
    """(m,) whole numbers: j + 1 with the probability f for j + f, so that every expectation is kept.

    The sums of fractions in ascending order of the values decide (systematic sampling from one random start): the
    number of values that are rounded up between any two whole numbers is off by less than 1, so that also mean and
    variance of this very draw are kept.

    sizes : (m,) weights of the values; those of one weight follow each other
    """
    if not len(units):
        return units
    fixed = np.rint(units * _WHOLE).astype(np.int64)
    by = (draws.child("ties").keys(), fixed)
    order = np.lexsort(by if sizes is None else (*by, sizes))
    first = draws.take(np.array([np.argmin(draws.records)])).child("start")
    start = int(first.uniform(1)[0, 0] * _WHOLE)
    passed = np.cumsum(fixed[order] & (_WHOLE - 1)) + start >> _BITS
    up = np.empty(len(fixed), dtype=np.int64)
    up[order] = np.diff(passed, prepend=0)
    return np.asarray(((fixed >> _BITS) + up).astype(np.float64))
