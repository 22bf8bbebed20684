"""The interval of a share that was observed on some records."""

from __future__ import annotations

import math

from gpuanon.assessing.figures import Interval

_Z = 1.959963984540054  # 97.5 % quantile of the normal distribution


def share_interval(share: float, records: int) -> Interval:
    """Wilson's 95 % interval of a share over independent records; it has a width where the share is 0 or 1 as well.

    For a mean of probabilities it is too wide rather than too narrow: their variance is at most that of a share.
    """
    square = _Z**2 / records
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(max(square * (share * (1 - share) + square / 4), 0.0)) / (1 + square)
    return Interval(max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)))
