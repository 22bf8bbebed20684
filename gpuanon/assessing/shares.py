"""Intervals of shares and of areas that were observed on some records."""

from __future__ import annotations

import math
from statistics import NormalDist

from gpuanon.assessing.figures import ConfidenceInterval


def share_interval(share: float, records: int, level: float = 0.95) -> ConfidenceInterval:
    """Wilson's interval of a share over independent records; it has a width where the share is 0 or 1 as well.

    For a mean of probabilities it is too wide rather than too narrow: their variance is at most that of a share.
    """
    square = NormalDist().inv_cdf(0.5 + level / 2) ** 2 / records
    centre = (share + square / 2) / (1 + square)
    half = math.sqrt(max(square * (share * (1 - share) + square / 4), 0.0)) / (1 + square)
    return ConfidenceInterval(max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half)), level)


def share_error(share: float, records: int, of: int) -> float:
    """95 % error of a share that was counted on `records` of `of` records, drawn at random without replacement.

    1.96 · sqrt(s (1 − s) / r · (1 − r / n)); 0 where all were counted.
    """
    left = max(0.0, 1 - records / of)
    return 1.96 * math.sqrt(max(share * (1 - share), 0.0) / records * left)


def sample_note(records: int, of: int, done: str, error: float) -> str:
    """That a sample was taken, what was done with it, and the 95 % error of the value that comes from it."""
    return f"a random sample of {records} of {of} {done}: right to ±{error:.4f} (95 %)"


def area_interval(area: float, first: float, second: float, level: float = 0.95) -> ConfidenceInterval:
    """Interval of an AUC (Hanley and McNeil 1982) between `first` and `second` records."""
    q1, q2 = area / (2 - area), 2 * area**2 / (1 + area)
    spread = area * (1 - area) + (first - 1) * (q1 - area**2) + (second - 1) * (q2 - area**2)
    error = NormalDist().inv_cdf(0.5 + level / 2) * math.sqrt(max(spread, 0.0) / max(first * second, 1e-9))
    return ConfidenceInterval(max(0.0, area - error), min(1.0, area + error), level)
