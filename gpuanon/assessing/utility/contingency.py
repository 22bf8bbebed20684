"""Contingency tables of original and release: divergences between the counts of their cells.

Columns hold codes, equal where values count as equal; `binned` makes codes of numbers.  A table of many columns is all
ones, and says nothing: each measure goes through the tables of all columns (`ways` = 1) or all pairs of columns
(`ways` = 2) and gives the mean.  These are distances for comparing releases with each other: on one release alone
they depend on the grouping, and no test belongs to them, because original and release are dependent samples.

Beside each stands its standardised form: the distance over its expectation where the release consists of draws from
the original's cells, ``df · n / m`` for VW, ``df / 8m`` for JSD, ``df / 2m`` for KL, df for FT and G (df: occupied
cells less 1; n, m: rows of original and release).  About 1 is as good as a fresh sample.

The divergences are functions of shares: with sample weights (`weights`, people that each row of original and release
stands for) the cells hold sums of weights, and the figure is that of rows repeated so often; n and m of the
standardised form are Kish's effective numbers of records, as under simple random sampling.  VW, FT and G are functions
of counts, and take none.

References
----------
.. [1] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, Literal, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device, to_host
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import Beside, By, ByPair, Figure, Measured, Part, join
from gpuanon.assessing.utility.pairs import require_comparable
from gpuanon.assessing.weighted_quantile import quantiles
from gpuanon.assessing.weighting import effective_size
from gpuanon.errors import ParameterError

Floats = np.ndarray[Any, Any]
Ways: TypeAlias = int | Literal["all"]
Expected: TypeAlias = Callable[[int, float, float], float]
"""From degrees of freedom and rows of original and release to the distance of draws from the original's cells."""

Counted: TypeAlias = Sequence[tuple[tuple[int, ...], Floats, Floats]]
"""Each table: its columns, and the counts of its occupied cells in original and release."""

Weights: TypeAlias = tuple[Array, Array] | None
"""People that each row of original and release stands for; None for 1 each."""

_DENSE = 1 << 22
"""Tables of up to this many cells are counted in place; larger ones by sorting."""


def vw(
    original: Array, release: Array, *, ways: Ways = 2, names: Names = None, counted: Counted | None = None
) -> Measured:
    """Variance-weighted difference Σ (t_d − t_a)² / t_a over the cells of each table; the value is the mean.

    t_a are the release's counts, scaled to as many rows as the original has.  A cell that is empty in the release
    counts as half a record in the denominator.
    """
    rule = "an empty cell of the release counts as half a record in the denominator"
    return _over_tables(original, release, ways, counted, variance_weighted, rule, names, lambda df, n, m: df * n / m)


def jsd(
    original: Array,
    release: Array,
    *,
    ways: Ways = 2,
    names: Names = None,
    counted: Counted | None = None,
    weights: Weights = None,
) -> Measured:
    """Jensen–Shannon divergence, natural logarithm, 0 to ln 2, of the cells of each table; the value is the mean."""
    measured = _over_tables(
        original, release, ways, counted, jensen_shannon, None, names, lambda df, n, m: df / (8 * m), weights
    )
    return replace(measured, details={**measured.details, "bits": measured.value / math.log(2)})


def kl(
    original: Array,
    release: Array,
    *,
    ways: Ways = 2,
    names: Names = None,
    counted: Counted | None = None,
    weights: Weights = None,
) -> Measured:
    """Kullback–Leibler divergence Σ p ln(p / q) of the release (q) from the original (p); the value is the mean."""
    rule = "a cell that is empty in the release, and not in the original, counts as half a record there"
    return _over_tables(
        original, release, ways, counted, kullback_leibler, rule, names, lambda df, n, m: df / (2 * m), weights
    )


def ft(
    original: Array, release: Array, *, ways: Ways = 2, names: Names = None, counted: Counted | None = None
) -> Measured:
    """Freeman–Tukey statistic of each table over its degrees of freedom (S_FT of synthpop); the value is the mean.

    A release that is an independent sample of the original's distribution has about 1.  Degrees of freedom: cells that
    original or release fills, less 1.
    """
    return _over_tables(original, release, ways, counted, freeman_tukey, None, names, lambda df, n, m: 1.0)


def g(
    original: Array, release: Array, *, ways: Ways = 2, names: Names = None, counted: Counted | None = None
) -> Measured:
    """Likelihood ratio statistic G of each table over its degrees of freedom, as in `ft`; the value is the mean."""
    rule = "a cell that is empty in the original, and not in the release, counts as half a record there"
    return _over_tables(original, release, ways, counted, likelihood_ratio, rule, names, lambda df, n, m: 1.0)


def cell_ks(
    original: Array,
    release: Array,
    *,
    ways: Ways = 2,
    names: Names = None,
    counted: Counted | None = None,
    weights: Weights = None,
) -> Measured:
    """Largest difference between the shares of a cell, max |p − q|, of each table; the value is the mean."""
    return _over_tables(original, release, ways, counted, largest_difference, None, names, weights=weights)


SHARES = (kl, jsd, cell_ks)
"""Measures of shares, which take sample weights; the others are functions of counts."""


def variance_weighted(before: Floats, after: Floats) -> float:
    """Σ (t_d − t_a)² / t_a, the counts `after` scaled to the total of `before`."""
    expected = after * (before.sum() / after.sum())
    return float(((before - expected) ** 2 / np.where(after > 0, expected, 0.5)).sum())


def jensen_shannon(before: Floats, after: Floats) -> float:
    """Mean of the divergences of both from their average."""
    p, q = before / before.sum(), after / after.sum()
    middle = (p + q) / 2
    return max(0.0, 0.5 * _entropy_from(p, middle) + 0.5 * _entropy_from(q, middle))


def kullback_leibler(before: Floats, after: Floats) -> float:
    """Σ p ln(p / q), half a record in cells that only the original fills."""
    filled = np.where((after == 0) & (before > 0), 0.5, after)
    return max(0.0, _entropy_from(before / before.sum(), filled / filled.sum()))


def freeman_tukey(before: Floats, after: Floats) -> float:
    """4 Σ (√s − √o)² / df: s the release's counts, o the original's, scaled to as many rows."""
    scaled = before * (after.sum() / before.sum())
    return float(4 * ((np.sqrt(after) - np.sqrt(scaled)) ** 2).sum()) / max(len(before) - 1, 1)


def likelihood_ratio(before: Floats, after: Floats) -> float:
    """2 Σ s ln(s / o) / df, half a record in cells that only the release fills."""
    filled = np.where((before == 0) & (after > 0), 0.5, before)
    divergence = _entropy_from(after / after.sum(), filled / filled.sum())
    return max(0.0, 2 * float(after.sum()) * divergence) / max(len(before) - 1, 1)


def largest_difference(before: Floats, after: Floats) -> float:
    """max |p − q|."""
    return float(np.abs(before / before.sum() - after / after.sum()).max())


def binned(original: Array, release: Array, bins: int = 10, weights: Array | None = None) -> tuple[Array, Array]:
    """Codes of numeric columns: bins of equal counts in the original, missing values a bin of their own.

    weights : people that each row of the original stands for, by whom bins are equal; None for 1 each
    """
    if bins < 1:
        raise ParameterError(f"bins: 1 or more are allowed, got {bins}")
    xp = namespace(original)
    codes = [xp.empty(table.shape, dtype=np.int32) for table in (original, release)]

    def fill(j: int) -> None:
        there = ~xp.isnan(original[:, j])
        there = there if weights is None else there & (weights > 0)
        known, own = original[:, j][there], None if weights is None else weights[there]
        cuts = xp.unique(quantiles(known, xp.arange(1, bins) / bins, own)) if len(known) else xp.empty(0)
        for table, out in zip((original, release), codes, strict=True):
            column = xp.ascontiguousarray(table[:, j])
            out[:, j] = xp.where(xp.isnan(column), bins, xp.searchsorted(cuts, column, side="left"))

    each(fill, range(original.shape[1]))
    return codes[0], codes[1]


def tables(
    original: Array, release: Array, ways: int, weights: Weights = None
) -> Iterator[tuple[tuple[int, ...], Floats, Floats]]:
    """Each set of `ways` columns, with the counts of its occupied cells in original and release, or sums of weights."""
    coded = [_dense(original[:, j], release[:, j]) for j in range(original.shape[1])]
    for columns in combinations(range(original.shape[1]), min(ways, original.shape[1])):
        before, after, levels = coded[columns[0]]
        for j in columns[1:]:
            next_before, next_after, next_levels = coded[j]
            before, after = before * next_levels + next_before, after * next_levels + next_after
            levels *= next_levels
            if levels > _DENSE:
                before, after, levels = _dense(before, after)
        sides = zip((before, after), weights or (None, None), strict=True)
        counts = [counts_of(cells, levels, own) for cells, own in sides]
        occupied = (counts[0] > 0) | (counts[1] > 0)
        yield columns, counts[0][occupied].astype(float), counts[1][occupied].astype(float)


def counts_of(cells: Array, levels: int, weights: Array | None) -> Floats:
    """(levels,) rows in each cell, or the sum of their weights; on a device in an order that repeats."""
    if weights is None or not on_device(cells):
        return np.asarray(to_host(namespace(cells).bincount(cells, weights=weights, minlength=levels)))
    rows, out = Partition.from_labels(cells), np.zeros(levels)
    out[to_host(cells[rows.order[rows.starts[:-1]]])] = to_host(segment_sums(weights, rows))
    return out


def _dense(before: Array, after: Array) -> tuple[Array, Array, int]:
    """Codes from 0 up, the same in both."""
    places, levels = dense(namespace(before).concatenate([before, after]))
    return places[: len(before)], places[len(before) :], levels


def dense(codes: Array) -> tuple[Array, int]:
    """Codes from 0 up in the same order, and how many there are: by counting where their range is small."""
    xp = namespace(codes)
    low, high = (int(codes.min()), int(codes.max())) if len(codes) and codes.dtype.kind in "iu" else (0, _DENSE)
    if high - low >= min(_DENSE, 4 * len(codes)):
        levels, places = xp.unique(codes, return_inverse=True)
        return places.reshape(-1), len(levels)
    moved = codes - low
    number = xp.cumsum(xp.bincount(moved, minlength=high - low + 1) > 0) - 1
    return number[moved], int(number[-1]) + 1


def _over_tables(
    original: Array,
    release: Array,
    ways: Ways,
    counted: Counted | None,
    distance: Callable[[Floats, Floats], float],
    rule: str | None,
    names: Names,
    expected: Expected | None = None,
    weights: Weights = None,
) -> Measured:
    """Mean and maximum of a distance, and its value by column, pair of columns or set of columns.

    counted : `tables` of these columns, where they were counted before
    """
    require_comparable(original, release)
    if original.shape[1] == 0:
        raise ParameterError("columns: original and release need the same ones, at least one")
    of = original.shape[1] if ways == "all" else min(ways, original.shape[1])
    if of < 1:
        raise ParameterError(f"ways: 1 or more are allowed, got {of}")
    labels = column_names(names, original.shape[1])
    found: dict[tuple[str, ...], float] = {}
    ratios, cells = [], 0
    n, m = (len(original), len(release)) if weights is None else map(effective_size, weights)
    for columns, before, after in tables(original, release, of, weights) if counted is None else counted:
        value = found[tuple(labels[j] for j in columns)] = distance(before, after)
        cells = max(cells, len(before))
        if expected is not None:
            ratios.append(value / expected(max(len(before) - 1, 1), n, m))
    distances = list(found.values())
    details: dict[str, Figure] = {"ways": of, "tables": len(found), "cells": cells, "max": max(distances)}
    beside = (Beside("standardised", "over that of a fresh sample", float(np.mean(ratios))),) if ratios else ()
    if weights is not None and ratios:
        rule = join(rule, "standardised by Kish's effective numbers of records, as under simple random sampling")
    if cells > len(original) / 2:
        rule = join(rule, f"sparse: {cells} cells for {len(original)} original rows, so that most say little")
    part: Part
    if of == 2:
        part = ByPair({(first, second): value for (first, second), value in found.items()})
    else:
        part = By("column" if of == 1 else "columns", {" × ".join(key): value for key, value in found.items()})
    return Measured(float(np.mean(distances)), details, rule, parts=(part,), beside=beside)


def _entropy_from(p: Floats, q: Floats) -> float:
    """Σ p ln(p / q) over the cells with p > 0."""
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())
