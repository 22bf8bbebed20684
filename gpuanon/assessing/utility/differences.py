"""Differences of means, variances and correlations between an original and its release (table 4.1 of [1]).

Each value is a median over features, or over pairs of features; the worst column or pair of columns stands beside it.
All but the rank correlations are computed from `Moments`, which merge over pieces of a table.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 4.2.
.. [2] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device, to_host
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import Names, column_names, constant_note, fold, fold_pairs
from gpuanon.assessing.figures import By, ByPair, Figure, Measured
from gpuanon.assessing.moments import Moments
from gpuanon.assessing.utility.pairs import require_comparable
from gpuanon.errors import InputError

Floats = np.ndarray[Any, Any]


def means(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Difference of the column means, in standard deviations of the original; the value is the median.

    By column: the largest of its features.  `names` has the table column of each feature.
    """
    return means_of(*both_moments(original, release), column_names(names, original.shape[1]))


def variances(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Difference of the column variances, relative to the original's; the value is the median.

    By column: the largest of its features.
    """
    return variances_of(*both_moments(original, release), column_names(names, original.shape[1]))


def correlations(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Difference of the Pearson correlations of all pairs of features; the value is the median.

    By pair of columns: the largest of their features.  A feature that is constant in the release alone correlates
    with nothing there: its correlations count as 0.
    """
    return correlations_of(*both_moments(original, release), column_names(names, original.shape[1]))


def rank_correlations(
    original: Array,
    release: Array,
    *,
    names: Names = None,
    weights: tuple[Array, Array] | None = None,
) -> Measured:
    """Difference of the Spearman rank correlations of all pairs of features; the value is the median.

    By pair of columns, and constant features: as in `correlations`.  `weights` are those of the rows of both tables.
    """
    require_comparable(original, release)
    own = (None, None) if weights is None else weights
    before, after = (Moments.of(ranks(X, w), w) for X, w in zip((original, release), own, strict=True))
    return by_pair(before, after, column_names(names, original.shape[1]), "rank_correlations", np.median)


def both_moments(original: Array, release: Array) -> tuple[Moments, Moments]:
    """The moments of two comparable tables."""
    require_comparable(original, release)
    return Moments.of(original), Moments.of(release)


def means_of(before: Moments, after: Moments, names: Sequence[str]) -> Measured:
    """`means` from moments."""
    return _relative(np.abs(after.mean - before.mean), np.sqrt(before.variance), before, after, names, "means")


def variances_of(before: Moments, after: Moments, names: Sequence[str]) -> Measured:
    """`variances` from moments."""
    change = np.abs(after.variance - before.variance)
    return _relative(change, before.variance, before, after, names, "variances")


def correlations_of(before: Moments, after: Moments, names: Sequence[str]) -> Measured:
    """`correlations` from moments."""
    return by_pair(before, after, names, "correlations", np.median)


def covariances_of(before: Moments, after: Moments, names: Sequence[str]) -> Measured:
    """Difference of the covariances of all pairs of features, in units of the original's standard deviations.

    The value is the median; by pair of columns the largest of their features.  Unlike a correlation, a covariance also
    sees columns that were scaled or lost their spread.
    """
    deviation = np.sqrt(np.where(before.varies, before.variance, np.nan))
    change = np.abs(after.products / after.rows - before.products / before.rows)
    relative = change / deviation[:, None] / deviation[None, :]
    above = relative[np.triu_indices(len(names), 1)]
    known = above[~np.isnan(above)]
    if len(known) == 0:
        raise InputError("covariances: not defined, no pair of columns varies in the original")
    details: dict[str, Figure] = {"max": float(known.max()), "pairs_of_features": len(known)}
    note = constant_note(names, before.varies, after.varies)
    return Measured(float(np.median(known)), details, note, parts=(ByPair(fold_pairs(relative, names)),))


def varying(X: Array) -> np.ndarray[Any, Any]:
    """(d,) whether each column holds two different values: rounding may give a constant one a tiny variance."""
    return to_host(X.max(axis=0) > X.min(axis=0))


def ranks(X: Array, weights: Array | None = None) -> Array:
    """(n, d) rank of each value in its column, from 1; equal values share their mean rank.

    With whole `weights` (n,) the rank is that among rows which are repeated so often.
    `scipy.stats.rankdata` gives the same ranks in the same time, on the host; one function serves device arrays too.
    """
    xp = namespace(X)
    out = xp.empty(X.shape, dtype=np.float64)

    def fill(j: int) -> None:
        order = xp.argsort(X[:, j], kind="stable")
        ordered = X[:, j][order]
        new = xp.concatenate([xp.ones(1, dtype=bool), ordered[1:] != ordered[:-1]])
        first = xp.concatenate([xp.flatnonzero(new), xp.asarray([len(order)])])
        if weights is not None:  # rows before each run of equal values, counted by their weights
            first = xp.concatenate([xp.zeros(1), xp.cumsum(weights[order])])[first]
        shared = (first[:-1] + first[1:] + 1) / 2  # the mean of the ranks first + 1 … next first
        out[:, j][order] = shared[xp.cumsum(new) - 1]

    if on_device(X):
        for j in range(X.shape[1]):
            fill(j)
    else:
        each(fill, range(X.shape[1]))
    return out


def by_pair(
    before: Moments, after: Moments, names: Sequence[str], name: str, centre: Callable[[Floats], Any]
) -> Measured:
    """`centre` of the differences of correlations over pairs of features, and the largest by pair of columns."""
    then, now = before.correlation, after.correlation
    difference = np.abs(np.where(np.isnan(now), 0.0, now) - then)
    above = difference[np.triu_indices(len(names), 1)]
    known = above[~np.isnan(above)]
    if len(known) == 0:
        raise InputError(f"{name}: not defined, no pair of columns varies in the original")
    details: dict[str, Figure] = {"max": float(known.max()), "pairs_of_features": len(known)}
    note = constant_note(names, before.varies, after.varies)
    return Measured(float(centre(known)), details, note, parts=(ByPair(fold_pairs(difference, names)),))


def _relative(
    difference: Floats, scale: Floats, before: Moments, after: Moments, names: Sequence[str], name: str
) -> Measured:
    """Median and maximum of `difference` / `scale`; constant features have no scale and are left out."""
    varies = scale > 0
    if not varies.any():
        raise InputError(f"{name}: not defined, every column of the original is constant")
    relative = np.full(len(scale), np.nan)
    relative[varies] = difference[varies] / scale[varies]
    details: dict[str, Figure] = {"max": float(np.nanmax(relative))}
    note = constant_note(names, before.varies, after.varies)
    return Measured(float(np.nanmedian(relative)), details, note, parts=(By("column", fold(relative, names)),))
