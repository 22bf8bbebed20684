"""Bins with round edges that hold many people each."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host

LEAST = 5
"""No bin or level that a report shows holds fewer original records, whatever k is."""

_BINS = 24
_CALENDAR = ((1, "D", 1), (7, "D", 7), (30, "M", 1), (91, "M", 3), (365, "Y", 1), (1826, "Y", 5), (3652, "Y", 10))
"""Days that a bin takes about, its unit, and how many of them."""


def number_cuts(low: float, high: float, *, whole: bool) -> tuple[Host, float]:
    """Multiples of 1, 2 or 5 · 10ᵖ from `low` to `high`, about two dozen, and a tenth of their step.

    whole : the values are whole numbers, and no step is shorter than 1
    """
    if not high > low:
        return np.empty(0), 1.0
    rough = (high - low) / _BINS
    power = 10.0 ** np.floor(np.log10(rough))
    step = float(next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough))
    step = max(step, 1.0) if whole else step
    first, last = int(np.ceil(low / step)), int(np.floor(high / step))
    return np.arange(first, last + 1) * step, step / 10


def date_cuts(low: float, high: float) -> tuple[Host, float]:
    """First days of weeks, months, quarters or years from `low` to `high` (days since 1970), and a grain of days."""
    rough = max((high - low) / _BINS, 1.0)
    days, unit, count = next((entry for entry in _CALENDAR if entry[0] >= rough), _CALENDAR[-1])
    start, end = (np.datetime64(int(day), "D").astype(f"datetime64[{unit}]").astype(int) for day in (low, high))
    numbers = np.arange(start // count * count, end + count + 1, count)
    cuts = numbers.astype(f"datetime64[{unit}]").astype("datetime64[D]").astype(np.float64)
    return cuts[(cuts >= low) & (cuts <= high)], max(1.0, days / 10)


def distinct_per_bin(bins: Host, count: int, units: Host | None) -> Host:
    """(count,) how many people have a record in each bin; records, without `units`."""
    if units is None or not len(bins):
        return np.bincount(bins, minlength=count)
    pairs = np.unique(np.stack([bins, units], axis=1), axis=0)
    return np.bincount(pairs[:, 0], minlength=count)


def coarse_bins(values: Host, cuts: Host, units: Host | None, least: int) -> Host:
    """The cuts between bins that hold `least` people each, the open bins at both ends included.

    Bins are merged from below; people who have records in two bins that are merged count once.
    """
    bins = np.searchsorted(cuts, values, side="right")
    kept: list[float] = []
    begin = 0
    for end in range(len(cuts)):
        if _people(bins, units, begin, end) >= least:
            kept.append(float(cuts[end]))
            begin = end + 1
    while kept and _people(bins, units, begin, len(cuts)) < least:
        kept.pop()  # the last bin is merged with the one before
        begin = int(np.searchsorted(cuts, kept[-1])) + 1 if kept else 0
    return np.array(kept)


def _people(bins: Host, units: Host | None, begin: int, end: int) -> int:
    """People with a record in the bins `begin` to `end`, both included."""
    inside = (bins >= begin) & (bins <= end)
    return int(inside.sum()) if units is None else len(np.unique(units[inside]))
