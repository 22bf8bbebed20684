"""Dominance: can a large value be computed from the mean that is released for its class?

Whoever knows the second largest value of a class takes it from the class's total and has the largest, up to what the
others add.  The p % rule calls that disclosure if it comes within p per cent of the largest value; the (n, k) rule, if
the n largest make up more than k per cent of the total [1]_.

References
----------
.. [1] A. Hundepool et al. (2012), Statistical Disclosure Control, Wiley, 4.2: sensitivity rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.comparison import only
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import By, Figure, Measured
from gpuanon.assessing.measure import ABOVE_0, NULL_IS_LEFT_OUT, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def dominance(
    original: Host, release: Host, classes: Host, *, p: float = 10.0, n: int = 2, k: float = 85.0, names: Names = None
) -> Measured:
    """Share of the classes in which somebody's value is dominant, in the column where it is largest.

    Parameters
    ----------
    original, release : (m, d) numbers, the original of each released row and what was released for it; NaN for null
    classes : (m,) class of each row
    p       : per cent of the largest value

    With s records in a class, v the mean of what is released for them, and x₁ ≥ x₂ the largest originals, x₁ is
    disclosed if |s v − x₂ − x₁| < p / 100 · x₁, and s v is the class's total as nearly: otherwise they agree by chance.
    If v is the class's mean this is the p % rule; for medians, or values with noise, it says what the release itself
    gives away.  `nk_share` is the share of classes whose `n` largest
    originals are more than `k` per cent of the total.  Values below 0 have no such rule: a column that holds any is
    left out.  By column.
    """
    before, after, labels = (to_host(array) for array in (original, release, classes))
    if before.shape != after.shape or len(labels) != len(before):
        raise ParameterError("original, release, classes: one row for each released row is needed")
    if not (p > 0 and 0 < k <= 100 and n >= 1):
        raise ParameterError("p above 0, n from 1 up, and k above 0, at most 100, are allowed")
    shares: dict[str, float | None] = {}
    largest: dict[str, Figure] = {}
    for j, name in enumerate(column_names(names, before.shape[1])):
        known = ~np.isnan(before[:, j]) & ~np.isnan(after[:, j])
        shares[name], largest[name] = _of_column(before[known, j], after[known, j], labels[known], p, n, k)
    used = [share for share in shares.values() if share is not None]
    if not used:
        raise MissingEvidence("needs columns of role quasi whose numbers are 0 or more")
    details: dict[str, Figure] = {"p": float(p), "n": n, "k": float(k), "nk_share": largest}
    return Measured(max(used), details, parts=(By("column", shares, "largest"),))


def _of_column(x: Host, v: Host, labels: Host, p: float, n: int, k: float) -> tuple[float | None, float | None]:
    """Shares of the classes that the p % rule and the (n, k) rule call dominated; None for numbers below 0."""
    if not len(x) or x.min() < 0:
        return None, None
    place = np.unique(labels, return_inverse=True)[1].reshape(-1)
    order = np.lexsort((-x, place))
    sizes = np.bincount(place)
    starts = np.cumsum(sizes) - sizes
    ordered = x[order]
    rank = np.arange(len(x)) - np.repeat(starts, sizes)
    first = ordered[starts]
    second = np.where(sizes > 1, ordered[np.minimum(starts + 1, len(x) - 1)], 0.0)
    told = np.bincount(place, v)
    near = p / 100 * first
    found = (np.abs(told - second - first) < near) & (np.abs(told - np.bincount(place, x)) < near)
    most = np.bincount(place[order], np.where(rank < n, ordered, 0.0))
    return float(found.mean()), float((most > k / 100 * np.bincount(place, x)).mean())


def _dominance(c: Comparison, **options: Any) -> Measured:
    """Of the quasi-identifiers that are numbers."""
    numbers = [name for name in c.schema.quasi if c.schema[name].kind == "numeric"]
    if not numbers:
        raise MissingEvidence("needs columns of role quasi that are numbers")
    link = to_host(c.link)
    rows = np.flatnonzero(link >= 0)
    before, after = (to_host(values) for values in only(c, numbers).values)
    classes = to_host(equal_rows(c.classes))
    return dominance(before[link[rows]], after[rows], classes[rows], names=numbers, **options)


DOMINANCE = Measure(
    name="dominance", label="groups whose largest value can be computed",
    sentence="In this share of the groups, whoever knows the second largest value computes the largest one to within a"
    " few per cent.",
    summary="share of classes in which the largest value follows from the released mean (p % rule)",
    family="risk", range=SHARE, usual="0: no class is dominated; statistical offices take p from 5 to 20",
    unit="class",
    records="its contributions are those of records",
    applies=PAIRED_QUASI, function=dominance, compute=_dominance,
    options={"p": ABOVE_0, "n": int, "k": ABOVE_0}, arrays="classes", weights=RISK_OF_RECORDS, nulls=NULL_IS_LEFT_OUT,
    scaling="whole", host="not written for a device: sorts of rows with missing values",
    source="Hundepool et al. 2012",
)  # fmt: skip
