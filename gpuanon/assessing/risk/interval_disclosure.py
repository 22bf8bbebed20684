"""Interval disclosure: how often does an original number lie in a narrow interval around its released value?

An intruder who has found a record learns each number up to the masking.  The interval around a released value is a
share of the column's standard deviation on either side [1]; or, by rank, p per cent of the records on either side, the
mean over p from 1 to 10 [2].

References
----------
.. [1] J. M. Mateo-Sanz, F. Sebé, J. Domingo-Ferrer (2004), Outlier protection in continuous microdata masking,
   PSD 2004: intervals by standard deviation.
.. [2] J. Domingo-Ferrer, V. Torra (2001), A quantitative comparison of disclosure control methods for microdata:
   intervals by rank.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.comparison import only
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import ABOVE_0, NULL_IS_LEFT_OUT, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.sampling_errors import mean_interval
from gpuanon.errors import InputError, ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


_EQUAL = 1e-12  # of a standard deviation: what rounding does to an equal value


def interval_disclosure(
    original: Array, release: Array, link: Array, *, width: float = 0.05, names: Names = None
) -> Measured:
    """Mean share of originals inside the interval around their released value, over the columns.

    Parameters
    ----------
    original, release : (n, d) and (m, d) numbers, NaN for null; a pair with a null is left out
    link  : (m,) original row of each released row, −1 for an added row
    width : on either side, in standard deviations of the column over the originals that have a released row

    With a 95 % interval over records.  Beside it the same share when released values are paired with originals at
    random, exactly, which is what the columns by themselves give away; the share of records of which every number is
    inside; and the mean share inside intervals by rank.
    """
    before, after, link = (to_host(array) for array in (original, release, link))
    if len(link) != len(after):
        raise ParameterError(f"link: one entry per released row is needed ({len(after)}), got {len(link)}")
    if not width > 0:
        raise ParameterError(f"width: a number above 0 is allowed, got {width}")
    rows = np.flatnonzero(link >= 0)
    if not len(rows):
        raise ParameterError("link: no released row leads to an original record")
    labels = column_names(names, before.shape[1])
    x, y = before[link[rows]], after[rows]
    known = ~np.isnan(x) & ~np.isnan(y)
    half = (width + _EQUAL) * np.nanstd(np.where(np.isnan(x).all(axis=0), 0.0, x), axis=0)
    inside = known & (np.abs(x - y) <= half)
    counts = known.sum(axis=0)
    used = np.flatnonzero(counts)
    if not len(used):
        raise InputError("interval_disclosure: there is no number in both tables")
    by_column = {labels[j]: float(inside[:, j].sum() / counts[j]) if counts[j] else None for j in range(len(labels))}
    chance = {labels[j]: _by_chance(x[known[:, j], j], y[known[:, j], j], half[j]) for j in used}
    value = float(np.mean([by_column[labels[j]] for j in used]))
    shares = inside[:, used].sum(axis=0) / counts[used]
    influence = np.where(known[:, used], inside[:, used] - shares, 0) * (len(rows) / counts[used])
    every = (inside | ~known).all(axis=1) & known.any(axis=1)
    details: dict[str, Figure] = {
        "width": float(width),
        "records": len(rows),
        "by_chance_by_column": dict(chance),
        "every_column_share": float(every.mean()),
        "by_rank": float(np.mean([_by_rank(x[:, j], y[:, j]) for j in used])),
    }
    beside = (Beside("chance", "paired at random", float(np.mean(list(chance.values())))),)
    interval = mean_interval(value, float(influence.mean(axis=1).var()), len(rows))
    return Measured(value, details, parts=(By("column", by_column),), interval=interval, beside=beside)


def _by_chance(x: Host, y: Host, half: float) -> float:
    """Share of all pairs of an original and a released value that are at most `half` apart."""
    ordered, y = np.sort(x), np.sort(y)  # neighbours are searched in the same places of the cache
    held = np.searchsorted(ordered, y + half, side="right") - np.searchsorted(ordered, y - half, side="left")
    return float(held.mean() / len(x))


def _by_rank(x: Host, y: Host) -> float:
    """Mean over p = 1 … 10 of the share of originals whose rank is within p per cent of the released value's."""
    ordered = np.sort(x[~np.isnan(x)])
    known = ~np.isnan(x) & ~np.isnan(y)
    ranks = []
    for values in (x[known], y[known]):  # the middle of the places of equal values
        order = np.argsort(values)
        low, high = (np.searchsorted(ordered, values[order], side=side) for side in ("left", "right"))
        ranks.append(np.empty(len(values)))
        ranks[-1][order] = (low + high) / (2 * len(ordered))
    apart = np.abs(ranks[0] - ranks[1])
    return float(np.mean([(apart <= p / 100 + _EQUAL).mean() for p in range(1, 11)]))


def _interval_disclosure(c: Comparison, **options: Any) -> Measured:
    """Of the quasi-identifiers that are numbers or dates."""
    link = c.link
    numbers = [name for name in c.schema.quasi if c.schema[name].kind in ("numeric", "date")]
    if not numbers:
        raise MissingEvidence("needs columns of role quasi that are numbers")
    return interval_disclosure(*only(c, numbers).values, link, names=numbers, **options)


INTERVAL_DISCLOSURE = Measure(
    name="interval_disclosure", label="values that stayed close to the truth",
    sentence="In this share of cells the true number lies within a narrow interval around the released one.",
    summary="mean share of originals in a narrow interval around their release",
    family="risk", range=SHARE,
    usual="0: no value stayed close; 1 for a copy",
    unit="cell", applies=PAIRED_QUASI, function=interval_disclosure,
    compute=_interval_disclosure, options={"width": ABOVE_0}, arrays=None, weights=RISK_OF_RECORDS,
    nulls=NULL_IS_LEFT_OUT, scaling="pairs",
    host="not written for a device: sums and sorts of pairs with missing values",
    source="Mateo-Sanz, Sebé and Domingo-Ferrer 2004; sdcMicro", long=0.4,
)  # fmt: skip
