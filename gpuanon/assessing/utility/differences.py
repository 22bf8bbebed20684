"""Differences of means, variances and correlations between an original and its release (table 4.1 of [1]).

Each figure is a median over columns, or over pairs of columns; the largest is reported beside it.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 4.2.
.. [2] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device, to_host
from gpuanon.arrays.threads import each
from gpuanon.assessing.figures import Figure, Measured
from gpuanon.assessing.utility.pairs import require_comparable
from gpuanon.errors import InputError

Floats = np.ndarray[Any, Any]


def means(original: Array, release: Array) -> Measured:
    """Difference of the column means, in standard deviations of the original; the value is the median."""
    require_comparable(original, release)
    deviation = np.where(varying(original), to_host(original.std(axis=0)), 0.0)
    difference = np.abs(to_host(release.mean(axis=0)) - to_host(original.mean(axis=0)))
    return by_column(difference, deviation, "means")


def variances(original: Array, release: Array) -> Measured:
    """Difference of the column variances, relative to the original's; the value is the median."""
    require_comparable(original, release)
    before, after = np.where(varying(original), to_host(original.var(axis=0)), 0.0), to_host(release.var(axis=0))
    return by_column(np.abs(after - before), before, "variances")


def correlations(original: Array, release: Array) -> Measured:
    """Difference of the Pearson correlations of all pairs of columns; the value is the median."""
    require_comparable(original, release)
    return by_pair(correlation_matrix(original), correlation_matrix(release), "correlations")


def rank_correlations(original: Array, release: Array) -> Measured:
    """Difference of the Spearman rank correlations of all pairs of columns; the value is the median."""
    require_comparable(original, release)
    return by_pair(correlation_matrix(ranks(original)), correlation_matrix(ranks(release)), "rank_correlations")


def varying(X: Array) -> np.ndarray[Any, Any]:
    """(d,) whether each column holds two different values: rounding may give a constant one a tiny variance."""
    return to_host(X.max(axis=0) > X.min(axis=0))


def correlation_matrix(X: Array) -> Floats:
    """(d, d) Pearson correlations, on the host; NaN for a constant column."""
    centred = X - X.mean(axis=0)
    products = to_host(centred.T @ centred)
    deviation = np.where(varying(X), np.sqrt(np.diag(products)), np.nan)
    return products / deviation[:, None] / deviation[None, :]


def ranks(X: Array) -> Array:
    """(n, d) rank of each value in its column, from 1; equal values share their mean rank."""
    xp = namespace(X)
    out = xp.empty(X.shape, dtype=np.float64)

    def fill(j: int) -> None:
        order = xp.argsort(X[:, j], kind="stable")
        ordered = X[:, j][order]
        new = xp.concatenate([xp.ones(1, dtype=bool), ordered[1:] != ordered[:-1]])
        first = xp.concatenate([xp.flatnonzero(new), xp.asarray([len(order)])])
        shared = (first[:-1] + first[1:] + 1) / 2  # the mean of the ranks first + 1 … next first
        out[:, j][order] = shared[xp.cumsum(new) - 1]

    if on_device(X):
        for j in range(X.shape[1]):
            fill(j)
    else:
        each(fill, range(X.shape[1]))
    return out


def by_column(difference: Floats, scale: Floats, name: str) -> Measured:
    """Median and maximum of `difference` / `scale`; constant columns have no scale and are left out."""
    varies = scale > 0
    if not varies.any():
        raise InputError(f"{name}: not defined, every column of the original is constant")
    relative = np.full(len(scale), np.nan)
    relative[varies] = difference[varies] / scale[varies]
    details: dict[str, Figure] = {
        "max": float(np.nanmax(relative)),
        "columns": [float(value) if known else None for value, known in zip(relative, varies, strict=True)],
    }
    constant = int((~varies).sum())
    note = f"{constant} columns are constant in the original and left out" if constant else None
    return Measured(float(np.nanmedian(relative)), details, note)


def by_pair(before: Floats, after: Floats, name: str) -> Measured:
    """Median and maximum of the differences above the diagonal; pairs without a correlation are left out."""
    first, second = np.triu_indices(len(before), 1)
    difference = np.abs(after - before)[first, second]
    known = ~np.isnan(difference)
    if not known.any():
        raise InputError(f"{name}: not defined, no pair of columns varies in both original and release")
    worst = int(np.nanargmax(difference))
    details: dict[str, Figure] = {
        "max": float(difference[worst]),
        "worst_pair": [int(first[worst]), int(second[worst])],
        "pairs": int(known.sum()),
    }
    left_out = int((~known).sum())
    note = f"{left_out} pairs with a constant column are left out" if left_out else None
    return Measured(float(np.nanmedian(difference)), details, note)
