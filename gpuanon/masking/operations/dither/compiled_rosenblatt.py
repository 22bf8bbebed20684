"""The elementwise steps of `rosenblatt` on a tile, compiled: the operations of NumPy in its order, each rounded alike.

Matrix products and exponentials stay with NumPy, whose rounding no compiled function repeats.
"""

from __future__ import annotations

import math

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import compiled


@compiled
def negate_half_squares(y: Host, exponent: Host) -> None:
    """−y²/2 into `exponent`."""
    for i in range(len(y)):
        exponent[i] = y[i] * y[i] * -0.5


@compiled
def weigh(y: Host, density: Host, numerator: Host, denominator: Host, posterior: Host, below: Host) -> None:
    """2 Φ(−y) times the posterior into `below`; then the posterior is multiplied by the density.

    numerator, denominator : (8,) and (9,) coefficients, lowest power first; written out, so that pairs are vectorised
    """
    p0, p1, p2, p3, p4, p5, p6, p7 = numerator
    q0, q1, q2, q3, q4, q5, q6, q7, q8 = denominator
    for i in range(len(y)):
        t = abs(y[i])
        p = ((((((p7 * t + p6) * t + p5) * t + p4) * t + p3) * t + p2) * t + p1) * t + p0
        q = (((((((q8 * t + q7) * t + q6) * t + q5) * t + q4) * t + q3) * t + q2) * t + q1) * t + q0
        outside = p / q * density[i]
        if math.copysign(1.0, y[i]) < 0:
            outside = 2.0 - outside
        below[i] = outside * posterior[i]
        posterior[i] *= density[i]
