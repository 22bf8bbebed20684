"""The normal quantile function by correctly rounded operations only, so that every device gives the same bits.

Wichura's rational approximations [1] (relative error 1e-16) on sums, products, quotients and square roots, each rounded
by itself, and a logarithm of our own: those of mathematics libraries differ in the last bits between processors.
``kernels/normal_quantile.cuh`` does the same operations in the same order.

References
----------
.. [1] M. J. Wichura (1988), Algorithm AS 241: the percentage points of the normal distribution, Appl. Stat. 37(3),
   477–484: PPND16.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host

Coefficients = tuple[float, ...]
"""Of a polynomial, the highest power first."""

# |p − ½| ≤ 0.425: (p − ½) times a ratio in 0.425² − (p − ½)².
_MIDDLE: tuple[Coefficients, Coefficients] = (
    (2.5090809287301226727e3, 3.3430575583588128105e4, 6.7265770927008700853e4, 4.5921953931549871457e4,
     1.3731693765509461125e4, 1.9715909503065514427e3, 1.3314166789178437745e2, 3.3871328727963666080),
    (5.2264952788528545610e3, 2.8729085735721942674e4, 3.9307895800092710610e4, 2.1213794301586595867e4,
     5.3941960214247511077e3, 6.8718700749205790830e2, 4.2313330701600911252e1, 1.0),
)  # fmt: skip
# Beyond: a ratio in √(−log p) − 1.6 up to √(−log p) = 5, and in √(−log p) − 5 from there.
_NEAR: tuple[Coefficients, Coefficients] = (
    (7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1, 1.27045825245236838258,
     3.64784832476320460504, 5.76949722146069140550, 4.63033784615654529590, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
     6.89767334985100004550e-1, 1.67638483018380384940, 2.05319162663775882187, 1.0),
)  # fmt: skip
_FAR: tuple[Coefficients, Coefficients] = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3, 2.65321895265761230930e-2,
     2.96560571828504891230e-1, 1.78482653991729133580, 5.46378491116411436990, 6.65790464350110377720),
    (2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
     1.48753612908506148525e-2, 1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0),
)  # fmt: skip

# 2 artanh(s) = 2 s (1 + s²/3 + s⁴/5 + …): with |s| ≤ 0.172 what is left out is below 1e-17.
_ARTANH: Coefficients = (1 / 19, 1 / 17, 1 / 15, 1 / 13, 1 / 11, 1 / 9, 1 / 7, 1 / 5, 1 / 3, 1.0)
_LN2 = 0.6931471805599453
_ROOT_OF_HALF = np.float64(0.7071067811865476).view(np.int64)
_FRACTION = np.int64(52)  # bits


def normal_quantile(p: Host) -> Host:
    """(n,) float64 x with Φ(x) = p, for (n,) float64 `p` with 0 < p < 1."""
    q = p - 0.5
    r = q * q
    np.subtract(0.180625, r, out=r)
    np.maximum(r, 0.0, out=r)  # values of the tails are replaced below; here the ratio must only be finite
    x = _ratio(r, *_MIDDLE)
    x *= q
    tail = np.flatnonzero(np.abs(q, out=r) > 0.425)
    x[tail] = np.copysign(_upper_tail(np.minimum(p[tail], 1 - p[tail])), q[tail])
    return x


def _upper_tail(p: Host) -> Host:
    """x > 0 with 1 − Φ(x) = p, for p < 0.075."""
    r = np.sqrt(_minus_log(p))
    x = _ratio(r - 1.6, *_NEAR)
    far = np.flatnonzero(r > 5)
    x[far] = _ratio(r[far] - 5, *_FAR)
    return x


def _ratio(x: Host, numerator: Coefficients, denominator: Coefficients) -> Host:
    over = _polynomial(x, numerator)
    over /= _polynomial(x, denominator)
    return over


def _polynomial(x: Host, coefficients: Coefficients) -> Host:
    """Horner's scheme; products and sums are rounded one by one."""
    value = x * coefficients[0]
    for coefficient in coefficients[1:-1]:
        value += coefficient
        value *= x
    value += coefficients[-1]
    return value


def _minus_log(p: Host) -> Host:
    """−log p of normal numbers: p = m 2^k with √½ ≤ m < √2, and log m = 2 artanh((m − 1) / (m + 1))."""
    bits = p.view(np.int64)
    k = (bits - _ROOT_OF_HALF) >> _FRACTION
    m = (bits - (k << _FRACTION)).view(np.float64)
    s = (m - 1.0) / (m + 1.0)
    return k * -_LN2 - 2.0 * s * _polynomial(s * s, _ARTANH)
