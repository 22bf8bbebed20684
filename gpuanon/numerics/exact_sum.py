"""Exact sums of float64, so that the order and the partitioning of the rows change nothing.

A float64 is a multiple of 2^-1074; a sum is kept as one Python integer in this unit.  So the sums of a distributed run,
merged over its parts, equal those of one pass over the table to the bit.

References
----------
.. [1] S. M. Rump, T. Ogita, S. Oishi (2008), Accurate floating-point summation I, SIAM J. Sci. Comput. 31(1):
   ExtractVector splits off, error-free, the leading bits of all terms, whose sum is then exact.
.. [2] T. J. Dekker (1971), A floating-point technique for extending the available precision, Numer. Math. 18:
   the product of two numbers as a sum of two.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.errors import ParameterError

_UNIT = 1074  # the smallest positive float64 is 2^-1074
_CHUNK = 1 << 15  # rows whose temporaries fit the cache
_DEVICE_CHUNK = 1 << 24  # on a device fewer launches count: a sum of so many still takes 28 bits of each term at once
_SCALE = 600  # huge and tiny terms are scaled by 2^∓600, so that neither overflow nor underflow can happen
_SPLITTER = 2.0**27 + 1


@dataclass(frozen=True, repr=False)
class ExactMoments:
    """Count, sum and sum of squares of finite float64 values, exact and mergeable.

    total   : Σ x in units of 2^-1074
    squares : Σ x² in units of 2^-2148
    """

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: Array) -> ExactMoments:
        """The moments of `values` (n,), which must be finite: the same on the host and on a device."""
        values = namespace(values).ascontiguousarray(values, dtype=np.float64)
        total = squares = 0
        chunk = _DEVICE_CHUNK if on_device(values) else _CHUNK
        for start in range(0, len(values), chunk):
            for part, exponent in _ranges(values[start : start + chunk]):
                total += _shift(_sum(part), exponent)
                squares += _shift(_sum_of_squares(part), _UNIT + 2 * exponent)
        return cls(len(values), total, squares)

    def merge(self, other: ExactMoments) -> ExactMoments:
        """The moments of both sets of values together."""
        return ExactMoments(self.count + other.count, self.total + other.total, self.squares + other.squares)

    @property
    def mean(self) -> float:
        """The mean, correctly rounded (0 for no values)."""
        return float(Fraction(self.total, self.count << _UNIT)) if self.count else 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation (divisor n), rounded once; no cancellation, however large the mean."""
        spread = self.count * self.squares - self.total**2  # n² · variance, in units of 2^-2148
        return math.isqrt(spread << 128) / (self.count << (_UNIT + 64)) if self.count else 0.0


def exact_sum(values: Array) -> float:
    """The sum of finite `values` (n,), rounded once: equal to `math.fsum`, but vectorised."""
    return float(Fraction(ExactMoments.of(values).total, 1 << _UNIT))


def _ranges(values: Array) -> list[tuple[Array, int]]:
    """Split by magnitude into parts, each scaled by a power of two against overflow and underflow; and exponents."""
    xp = namespace(values)
    size = xp.abs(values)
    most = float(size.max())
    if not math.isfinite(most):
        raise ParameterError("values: finite numbers are needed")
    if most <= 2.0**400 and float(size.min()) >= 2.0**-400:
        return [(values, 0)]
    huge, tiny = size > 2.0**400, (size < 2.0**-400) & (size > 0)
    if not (bool(huge.any()) or bool(tiny.any())):
        return [(values, 0)]
    common = values[~(huge | tiny)]
    parts = [(common, 0), (xp.ldexp(values[huge], -_SCALE), _SCALE), (xp.ldexp(values[tiny], _SCALE), -_SCALE)]
    return [(part, exponent) for part, exponent in parts if len(part)]


def _shift(number: int, bits: int) -> int:
    """`number` times 2^bits, which is a whole number here: every float64 is a multiple of 2^-1074."""
    return number << bits if bits >= 0 else number >> -bits


def _sum(values: Array) -> int:
    """Σ values in units of 2^-1074, by repeated extraction of the leading bits [1, algorithm 3.3]."""
    xp = namespace(values)
    total, rest, leading = 0, values, xp.empty_like(values)
    room = 2.0 ** (len(values) + 2).bit_length()
    while (largest := max(float(rest.max()), -float(rest.min()))) > 0:
        sigma = room * 2.0 ** math.frexp(largest)[1]
        xp.add(rest, sigma, out=leading)
        leading -= sigma
        rest = xp.subtract(rest, leading, out=None if rest is values else rest)  # exact
        # Multiples of ulp(sigma)/2 whose every partial sum stays below sigma: no order of addition rounds.
        numerator, denominator = float(leading.sum()).as_integer_ratio()
        total += numerator << (_UNIT - denominator.bit_length() + 1)
    return total


def _sum_of_squares(values: Array) -> int:
    """Σ values² in units of 2^-1074: each square as a sum of two floats [2], both summed exactly."""
    shifted = values * _SPLITTER
    high = shifted - (shifted - values)
    low = values - high
    product = values * values
    error = ((high * high - product) + 2 * high * low) + low * low
    return _sum(product) + _sum(error)
