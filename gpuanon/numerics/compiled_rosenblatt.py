"""The elementwise steps of `rosenblatt` on a tile, compiled: the operations of NumPy in its order, each rounded alike.

Matrix products and exponentials stay with NumPy, whose rounding no compiled function repeats.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gpuanon.arrays.compiled import compiled

Floats = np.ndarray[Any, Any]


@compiled
def raise_to_powers(y: Floats, powers: Floats, exponent: Floats) -> None:
    """|y|, |y|², … |y|⁸ into the rows 1 to 8 of `powers`, and −y²/2 into `exponent`."""
    for i in range(len(y)):
        t = abs(y[i])
        t2 = t * t
        t3, t4 = t * t2, t2 * t2
        powers[1, i], powers[2, i], powers[3, i], powers[4, i] = t, t2, t3, t4
        powers[5, i], powers[6, i], powers[7, i], powers[8, i] = t2 * t3, t3 * t3, t3 * t4, t4 * t4
        exponent[i] = t2 * -0.5


@compiled
def weigh(y: Floats, density: Floats, ratio: Floats, posterior: Floats) -> None:
    """2 Φ(−y) times the posterior into ``ratio[0]``; then the posterior is multiplied by the density."""
    for i in range(len(y)):
        below = ratio[0, i] / ratio[1, i] * density[i]
        if math.copysign(1.0, y[i]) < 0:
            below = 2.0 - below
        ratio[0, i] = below * posterior[i]
        posterior[i] *= density[i]
