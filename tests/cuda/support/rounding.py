"""Floating-point results rounded exactly as in IEEE 754, for operations that NumPy lacks.

Fused multiply-add, directed rounding and flushing of subnormal numbers.  What the hardware only approximates
(``ex2.approx``, ``lg2.approx``, ``rcp.approx`` …) is rounded correctly here: a real device may differ by the
two units in the last place that the PTX manual allows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Floats = np.ndarray[Any, Any]

_TINY = np.float32(np.finfo(np.float32).tiny)
_SPLITTER = np.float64(2**27 + 1)
_HALFWAY = np.uint64(0x10000000)
_BELOW_SINGLE = np.uint64(0x1FFFFFFF)


def flush(values: Floats, where: Any) -> None:
    """Replace subnormal float32 numbers by zeros of the same sign, in place."""
    small = np.abs(values) < _TINY
    if small.any():
        if where is not True:
            small &= where
        np.multiply(values, np.float32(0), out=values, where=small)


def fma64(a: Floats, b: Floats, c: Floats) -> Floats:
    """``a * b + c`` in float64 with one rounding.

    The exact product is a sum of two numbers (Dekker); the three-term sum is rounded once by rounding its
    tail to odd (Boldo and Melquiond 2008, Emulation of FMA and correctly rounded sums).
    """
    product = a * b
    high, low = _two_product(a, b, product)
    upper, upper_rest = _two_sum(c, low)
    total, total_rest = _two_sum(high, upper)
    result = total + _sum_to_odd(upper_rest, total_rest)
    # Beyond the range of the splitting: infinite, not a number or close to overflow, or a vanishing product.
    plain = product + c
    unusual = ~np.isfinite(result) | ~np.isfinite(plain) | (np.abs(product) < 1e-250)
    return np.where(unusual, plain, result)


def _two_sum(a: Floats, b: Floats) -> tuple[Floats, Floats]:
    """The rounded sum and its exact error (Knuth)."""
    total = a + b
    shadow = total - a
    return total, (a - (total - shadow)) + (b - shadow)


def _two_product(a: Floats, b: Floats, product: Floats) -> tuple[Floats, Floats]:
    """The rounded product and its exact error (Dekker, Veltkamp)."""
    a_scaled, b_scaled = a * _SPLITTER, b * _SPLITTER
    a_high, b_high = a_scaled - (a_scaled - a), b_scaled - (b_scaled - b)
    a_low, b_low = a - a_high, b - b_high
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _sum_to_odd(a: Floats, b: Floats) -> Floats:
    """The sum rounded to odd: an inexact result gets an odd last bit."""
    total, error = _two_sum(a, b)
    even = (error != 0) & ((total.view(np.uint64) & np.uint64(1)) == 0)
    if not even.any():
        return total
    return np.where(even, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def fma32(a: Floats, b: Floats, c: Floats, rounding: str = "rn") -> Floats:
    """``a * b + c`` in float32 with one rounding: the product is exact in float64."""
    return single_sum(np.multiply(a, b, dtype=np.float64), c.astype(np.float64), rounding)


def single_sum(a: Floats, b: Floats, rounding: str) -> Floats:
    """The sum of two float64 numbers rounded once to float32."""
    total = a + b
    if rounding == "rn":
        result = total.astype(np.float32)
        tie = (total.view(np.uint64) & _BELOW_SINGLE) == _HALFWAY
        if tie.any():  # the first rounding made, or kept, a tie: the lost part decides
            _, error = _two_sum(a, b)
            total = np.where(tie & (error != 0), np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)
            result = total.astype(np.float32)
        return result
    _, error = _two_sum(a, b)
    return directed(total, error, rounding)


def directed(exact: Floats, error: Floats | float, rounding: str) -> Floats:
    """float32 of ``exact + error`` (float64, `error` below its last bit), rounded as PTX's rz, rm or rp."""
    result = exact.astype(np.float32)
    wide = result.astype(np.float64)
    above = (wide > exact) | ((wide == exact) & (error < 0))
    below = (wide < exact) | ((wide == exact) & (error > 0))
    down = np.nextafter(result, np.float32(-np.inf))
    up = np.nextafter(result, np.float32(np.inf))
    if rounding == "rz":
        negative = exact < 0
        return np.where(above & ~negative, down, np.where(below & negative, up, result))
    return np.where(above, down, result) if rounding == "rm" else np.where(below, up, result)


def to_integer(values: Floats, rounding: str, target: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """Convert to an integer type: out of range goes to the nearest end, NaN to 0."""
    rounded = {"rzi": np.trunc, "rni": np.rint, "rmi": np.floor, "rpi": np.ceil}[rounding](values.astype(np.float64))
    info = np.iinfo(target)
    high = float(info.max) if info.max < 2**53 else np.nextafter(float(info.max), 0.0)
    result = np.clip(np.nan_to_num(rounded), float(info.min), high).astype(target)
    result[rounded >= float(info.max)] = info.max
    return result
