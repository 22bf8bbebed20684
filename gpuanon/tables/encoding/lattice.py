"""From real numbers to values that a column can hold: inside its bounds, on its lattice, with the moments kept.

A masked coordinate is a real number.  A column holds multiples of a step between its smallest and largest value, or, if
it has no step, numbers of one sign.  Rounding to the nearest and clipping shift mean and variance, much so where a
column has few values: a Poisson variable of mean 1.2 gains 5 % in its mean.
"""

from __future__ import annotations

from dataclasses import dataclass

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

    def settle(self, values: Host, null: Host | None, draws: Draws, groups: Host | None) -> Host:
        """(m,) values inside the bounds and on the lattice.

        values : (m,) finite
        null   : (m,) rows that are released as nulls, or None
        draws  : of the m rows
        groups : (m,) numbers from 0 of the groups whose rows have one value and are to receive one; the mean is kept.
                 None: each row for itself, and the variance is kept as well; what lies beyond a bound is led back by
                 a smooth increasing function
        """
        here = np.ones(len(values), dtype=bool) if null is None else ~null
        if groups is None and self.linear:
            values = self._calibrated(values, here)
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

    def _calibrated(self, values: Host, here: Host) -> Host:
        """The values after ``bounded(a + c y)``, with a and c such that mean and variance are those of `values`.

        Nulls are filled by one value before they are masked: squares that a mask carried from rows with a value to rows
        without one are missing in the former, and are counted there.
        """
        own = values[here]
        beyond = bool((own < self.low).any() or (own > self.high).any())
        moved = len(own) < len(values) if self.step is None else self.coarse and self._off(own)
        if len(own) < _FEWEST or not (beyond or moved):
            return values
        with np.errstate(over="ignore", invalid="ignore"):
            rest = values[~here]
            mean, variance = float(own.mean()), float(own.var())
            variance += float(rest.var()) * len(rest) / len(own) if len(rest) else 0.0
        if not 0 < variance < np.inf:
            return values
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
        out = values.copy()
        out[here] = settled
        return out

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
