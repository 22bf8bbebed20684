"""Histogram intersection: the share of probability that two discrete distributions have in common [1]_.

References
----------
.. [1] M. J. Swain, D. H. Ballard (1991), Color indexing, Int. J. Comput. Vis. 7, 11–32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_A_VALUE, QUASI, SHARE, USED, Measure
from gpuanon.assessing.weighting import effective_size, quantiles
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


CELLS = 500


def histogram_intersection(
    X: Array,
    Y: Array,
    *,
    cells: int = CELLS,
    weights: Array | None = None,
    release_weights: Array | None = None,
    names: Names = None,
) -> Measured:
    """``Σ min(p, q)`` over the cells of the quasi-identifiers: 1 for equal distributions, 0 for disjoint ones.

    Parameters
    ----------
    X : (n, d) original, numbers or codes
    Y : (m, d) release
    cells : columns of `X` are cut into levels so that at most this many combinations are possible; values of `Y`
        go to the nearest level
    weights, release_weights : (n,), (m,) sample weights, or None for all 1

    Returns
    -------
    Measured
        By column: the intersection of its own levels.  Beside the value: what an independent sample of m records from
        the original would give on average, and its standard deviation.
    """
    X, Y = np.asarray(to_host(X), dtype=np.float64), np.asarray(to_host(Y), dtype=np.float64)
    if len(X) == 0 or len(Y) == 0 or X.shape[1] != Y.shape[1]:
        raise ParameterError("histogram_intersection: two tables with records and the same columns are needed")
    edges = level_edges(X, cells, None if weights is None else to_host(weights))
    labels = column_names(names, X.shape[1])
    levels = np.concatenate([to_levels(X, edges), to_levels(Y, edges)])
    codes = equal_rows(levels)
    p, q = _shares(codes[: len(X)], weights, codes), _shares(codes[len(X) :], release_weights, codes)
    people = len(Y) if release_weights is None else effective_size(release_weights)
    mean, deviation = independent_sample(p, people)
    details: dict[str, Figure] = {
        "cells": int((p > 0).sum()),
        "levels_by_column": {name: len(edge) + 1 for name, edge in zip(labels, edges, strict=True)},
        "independent_sample_deviation": deviation,
    }
    single = {
        name: intersection(_shares(own[: len(X)], weights, own), _shares(own[len(X) :], release_weights, own))
        for name, own in zip(labels, levels.T, strict=True)
    }
    beside = Beside("independent_sample", "draws from the original would have", mean)
    return Measured(intersection(p, q), details, parts=(By("column", single, "smallest"),), beside=(beside,))


def intersection(p: Array, q: Array) -> float:
    """``Σ min(p, q)`` of two distributions over the same cells, given as shares or counts."""
    p, q = np.asarray(to_host(p), dtype=np.float64), np.asarray(to_host(q), dtype=np.float64)
    # Σ min(p, q) = 1 − ½ Σ |p − q| for shares; so written, equal distributions give 1 to the bit.
    return float(max(0.0, 1 - 0.5 * np.abs(p / p.sum() - q / q.sum()).sum()))


def independent_sample(p: Array, n: float) -> tuple[float, float]:
    """Mean and standard deviation of the intersection of `p` with the shares of n independent draws from it.

    The count of a cell is binomial, whose mean deviation is ``2 ν (1 − p) P(ν)``, ν = ⌊n p⌋ + 1 (de Moivre), P its
    probability; so the mean is exact.  Cells count as independent and normal in the deviation.
    """
    from scipy.stats import binom

    variances, draws = p * (1 - p) / n, max(round(n), 1)
    above = np.floor(draws * p) + 1
    mean = 1 - 0.5 * (2 * above * (1 - p) * binom.pmf(above, draws, p)).sum() / draws
    return float(mean), float(0.5 * np.sqrt((1 - 2 / np.pi) * variances.sum()))


def level_edges(X: Host, cells: int = CELLS, weights: Host | None = None) -> list[Host]:
    """Where each column of `X` is cut into levels, so that at most `cells` combinations are possible.

    A column with few distinct values keeps them, cut at the midpoints; the columns with the most levels give way
    first and are cut at quantiles, with the `weights` of the rows.
    """
    distinct = [np.unique(column) for column in X.T]
    levels = [min(len(values), cells) for values in distinct]
    while np.prod(levels, dtype=np.float64) > cells:
        levels[len(levels) - 1 - int(np.argmax(levels[::-1]))] -= 1
    return [_edges(column, values, count, weights) for column, values, count in zip(X.T, distinct, levels, strict=True)]


def _edges(column: Host, values: Host, count: int, weights: Host | None) -> Host:
    """(at most count − 1,) cuts between levels."""
    if len(values) <= count:
        return np.asarray(0.5 * (values[1:] + values[:-1]))
    cuts = quantiles(column, np.arange(1, count) / count, weights)
    return np.unique(cuts)


def to_levels(X: Host, edges: list[Host]) -> Host:
    """(n, d) int64 level of each value; a value on a cut goes below it."""
    return np.stack([np.searchsorted(edge, X[:, j], side="left") for j, edge in enumerate(edges)], axis=1)


def _shares(codes: Host, weights: Array | None, every: Host) -> Host:
    """Share of each cell."""
    counts = np.bincount(codes, None if weights is None else to_host(weights), minlength=int(every.max()) + 1)
    return np.asarray(counts / counts.sum())


def _histogram_intersection(c: Comparison) -> Measured:
    before, after = c.weights_or_none or (None, None)
    return histogram_intersection(*c.quasi_codes, weights=before, release_weights=after, names=c.schema.quasi)


HISTOGRAM_INTERSECTION = Measure(
    name="histogram_intersection", label="what the two distributions have in common",
    sentence="Cut into cells of the quasi-identifiers, original and release have this share of people in common.",
    summary="probability that the quasi-identifiers' distributions have in common",
    family="utility", better="higher", range=SHARE, usual="1 for equal distributions",
    unit="table", applies=QUASI, function=histogram_intersection, compute=_histogram_intersection,
    arrays="values", weights=USED, nulls=NULL_IS_A_VALUE, scaling="sample",
    host="not written for a device: 500 cells at most, whose cuts are found column by column",
    source="Wei, Ramamurthy and Varshney 2018",
)  # fmt: skip
