"""Contingency tables of original and release: divergences between the counts of their cells.

Columns hold codes, equal where values count as equal: by the default grouping, or one that a recipe chooses.  A table
of many columns is all ones, and says nothing: each measure goes through the tables of all columns (`ways` = 1) or all
pairs of columns (`ways` = 2) and gives the mean.  These are distances for comparing releases with each other: on one
release alone they depend on the grouping, and no test belongs to them, because original and release are dependent
samples.

Beside each stands its standardised form: the distance over its expectation where the release consists of draws from
the original's cells, ``df · n / m`` for VW, ``df / 8m`` for JSD, ``df / 2m`` for KL, df for FT and G (df: occupied
cells less 1; n, m: rows of original and release).  A release that was drawn from the original has about 1; a fresh
sample of the population, which differs from the original by its own error and the original's, has about 1 + m / n, so 2
where both are equally large.  Both stand beside the figure.

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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, namespace
from gpuanon.assessing.columns import Names, column_names, require_comparable
from gpuanon.assessing.figures import Beside, By, ByPair, Figure, Measured, Part, join
from gpuanon.assessing.measure import FROM_0, NULL_IS_A_VALUE, OF_COUNTS, SHARE, USED, Measure
from gpuanon.assessing.utility.cell_counts import CellWeights, Counted, binned, tables
from gpuanon.assessing.weighting import effective_size
from gpuanon.errors import ParameterError
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.values import floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

BINS = Annotated[int, Field(strict=True, ge=1, le=1000)]
OPTIONS: Mapping[str, Any] = {
    "ways": Annotated[int, Field(strict=True, ge=1, le=6)] | Literal["all"],
    "columns": list[str],
    "bins": BINS,
    "cuts": dict[str, list[float] | list[str]],
}
"""What a recipe may choose:

ways    : columns of a table: 1, 2 … or "all", the full joint table
columns : the columns that tables are made of
bins    : of equal counts, for numbers and dates without cuts
cuts    : where the groups of a column of numbers or dates begin; a value equal to a cut is in the group above it
"""


def grouped(
    c: Comparison,
    columns: Sequence[str] | None = None,
    bins: int = 10,
    cuts: Mapping[str, Sequence[float] | Sequence[str]] | None = None,
    *,
    weighted: bool = False,
) -> tuple[Array, Array, tuple[str, ...]]:
    """Codes of the chosen columns of original and release, and their names.

    weighted : bins are of equal sample weight, where both tables have weights
    """
    shared = c.binned_by_weight if weighted else c.binned
    own_weights = c.weights[0] if weighted and c.weights is not None else None
    names = tuple(c.columns) if columns is None else tuple(columns)
    numeric = [name for name in names if name in c.columns and c.schema[name].kind in ("numeric", "date")]
    unknown = [name for name in (*names, *(cuts or ())) if name not in c.columns]
    if unknown:
        raise ParameterError(f"columns: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    wrong = [name for name in cuts or () if name not in numeric]
    if wrong:
        raise ParameterError(f"cuts: {', '.join(map(repr, wrong))}: not a chosen column of numbers or dates")
    at = [c.columns.index(name) for name in names]
    before, after = (side[:, at] for side in (shared if bins == 10 else c.codes))
    own = [names.index(name) for name in numeric]
    if bins != 10 and own:
        values = [side[:, [c.columns.index(name) for name in numeric]] for side in c.values]
        before[:, own], after[:, own] = binned(values[0], values[1], bins, own_weights)
    for name, points in (cuts or {}).items():
        edges = np.sort(_edges(c, name, points))
        for side, values in zip((before, after), c.values, strict=True):
            side[:, names.index(name)] = _codes(values[:, c.columns.index(name)], edges)
    return before, after, names


def _edges(c: Comparison, name: str, points: Sequence[float] | Sequence[str]) -> Host:
    """Cuts as the column's numbers; dates may be written as text."""
    import pyarrow as pa

    type_ = c.original.arrow(name).type
    try:
        if c.schema[name].kind == "date":
            return floats(pa.chunked_array([arrow_array([str(point) for point in points]).cast(type_)]))
        return np.array([float(point) for point in points])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise ParameterError(f"cuts.{name}: numbers or dates are allowed, as the column has them") from None


def _codes(values: Array, edges: Host) -> Array:
    """The group of each value; missing values are a group of their own."""
    xp = namespace(values)
    found = xp.searchsorted(xp.asarray(edges), values, side="right")
    return xp.where(xp.isnan(values), len(edges) + 1, found)


Ways: TypeAlias = int | Literal["all"]
Expected: TypeAlias = Callable[[int, float, float], float]
"""From degrees of freedom and rows of original and release to the distance of draws from the original's cells."""


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
    weights: CellWeights = None,
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
    weights: CellWeights = None,
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

    A release drawn from the original has about 1, a fresh sample of the population 1 + m / n.  Degrees of freedom:
    cells that original or release fills, less 1.
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
    weights: CellWeights = None,
) -> Measured:
    """Largest difference between the shares of a cell, max |p − q|, of each table; the value is the mean."""
    return _over_tables(original, release, ways, counted, largest_difference, None, names, weights=weights)


def variance_weighted(before: Host, after: Host) -> float:
    """Σ (t_d − t_a)² / t_a, the counts `after` scaled to the total of `before`."""
    expected = after * (before.sum() / after.sum())
    return float(((before - expected) ** 2 / np.where(after > 0, expected, 0.5)).sum())


def jensen_shannon(before: Host, after: Host) -> float:
    """Mean of the divergences of both from their average."""
    p, q = before / before.sum(), after / after.sum()
    middle = (p + q) / 2
    return max(0.0, 0.5 * _entropy_from(p, middle) + 0.5 * _entropy_from(q, middle))


def kullback_leibler(before: Host, after: Host) -> float:
    """Σ p ln(p / q), half a record in cells that only the original fills."""
    filled = np.where((after == 0) & (before > 0), 0.5, after)
    return max(0.0, _entropy_from(before / before.sum(), filled / filled.sum()))


def freeman_tukey(before: Host, after: Host) -> float:
    """4 Σ (√s − √o)² / df: s the release's counts, o the original's, scaled to as many rows."""
    scaled = before * (after.sum() / before.sum())
    return float(4 * ((np.sqrt(after) - np.sqrt(scaled)) ** 2).sum()) / max(len(before) - 1, 1)


def likelihood_ratio(before: Host, after: Host) -> float:
    """2 Σ s ln(s / o) / df, half a record in cells that only the release fills."""
    filled = np.where((before == 0) & (after > 0), 0.5, before)
    divergence = _entropy_from(after / after.sum(), filled / filled.sum())
    return max(0.0, 2 * float(after.sum()) * divergence) / max(len(before) - 1, 1)


def largest_difference(before: Host, after: Host) -> float:
    """max |p − q|."""
    return float(np.abs(before / before.sum() - after / after.sum()).max())


def _over_tables(
    original: Array,
    release: Array,
    ways: Ways,
    counted: Counted | None,
    distance: Callable[[Host, Host], float],
    rule: str | None,
    names: Names,
    expected: Expected | None = None,
    weights: CellWeights = None,
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
    beside: tuple[Beside, ...] = ()
    if ratios:
        beside = (
            Beside("standardised", "over that of draws from the original", float(np.mean(ratios))),
            Beside("fresh_sample", "which a fresh sample would have", 1 + m / n),
        )
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


def _entropy_from(p: Host, q: Host) -> float:
    """Σ p ln(p / q) over the cells with p > 0."""
    some = p > 0
    return float((p[some] * np.log(p[some] / q[some])).sum())


def _vw(c: Comparison, **grouping: Any) -> Measured:
    return _of_counts(vw, c, **grouping)


def _ft(c: Comparison, **grouping: Any) -> Measured:
    return _of_counts(ft, c, **grouping)


def _g(c: Comparison, **grouping: Any) -> Measured:
    return _of_counts(g, c, **grouping)


def _kl(c: Comparison, **grouping: Any) -> Measured:
    return _of_shares(kl, c, **grouping)


def _jsd(c: Comparison, **grouping: Any) -> Measured:
    return _of_shares(jsd, c, **grouping)


def _cell_ks(c: Comparison, **grouping: Any) -> Measured:
    return _of_shares(cell_ks, c, **grouping)


def _of_counts(measure: Callable[..., Measured], c: Comparison, ways: Ways = 2, **grouping: Any) -> Measured:
    """A measure of counts: of all compared columns, or as a recipe groups them."""
    if ways == 2 and not grouping:
        return measure(*c.binned, ways=ways, names=c.columns, counted=c.two_way_tables)
    before, after, names = grouped(c, **grouping)
    return measure(before, after, ways=ways, names=names)


def _of_shares(measure: Callable[..., Measured], c: Comparison, ways: Ways = 2, **grouping: Any) -> Measured:
    """A measure of shares, which takes sample weights."""
    if ways == 2 and not grouping:
        codes = c.binned_by_weight
        return measure(*codes, ways=ways, names=c.columns, counted=c.weighted_tables, weights=c.weights)
    before, after, names = grouped(c, **grouping, weighted=True)
    return measure(before, after, ways=ways, names=names, weights=c.weights)


_USUAL = "about 1 for draws from the original, 2 for a fresh sample as large"
_TABLES: Mapping[str, Any] = {
    "family": "utility",
    "unit": "pair of columns",
    "options": OPTIONS,
    "arrays": "values",
    "nulls": NULL_IS_A_VALUE,
    "sees": "together",
}
KL = Measure(
    name="kl", label="information lost in tables of two columns",
    sentence="If the release is taken for the original, tables of two columns surprise by this much on average.",
    summary="mean Kullback–Leibler divergence of two-way tables",
    usual="0 for equal tables",
    range=FROM_0, function=kl, compute=_kl, weights=USED, scaling="sample",
    source="Kulik, lecture on utility and information loss", settles="root", **_TABLES,
)  # fmt: skip
JSD = Measure(
    name="jsd", label="difference of tables of two columns",
    sentence="Tables of two columns differ by this much on average: 0 equal, 0.69 nothing in common.",
    summary="mean Jensen–Shannon divergence of two-way tables",
    usual="0 for equal tables; 0.69: nothing in common",
    range=(0.0, math.log(2)), function=jsd, compute=_jsd, weights=USED, scaling="sample",
    source="Kulik, lecture on utility and information loss", settles="root", **_TABLES,
)  # fmt: skip
VW = Measure(
    name="vw", label="squared differences of table cells",
    sentence="The cells of tables of two columns differ by this much in all, each change set against what chance"
    " would do.",
    summary="mean Σ (td − ta)² / ta of two-way tables",
    usual="0 for equal tables",
    range=FROM_0, function=vw, compute=_vw, weights=OF_COUNTS, scaling="whole",
    source="Kulik, lecture on utility and information loss", **_TABLES,
)  # fmt: skip
FT = Measure(
    name="ft", label="differences of table cells against chance",
    sentence="Tables of two columns differ by this many times what chance does, by square roots of counts.",
    summary="mean Freeman–Tukey statistic of two-way tables over its degrees of freedom",
    range=FROM_0, usual=_USUAL, function=ft, compute=_ft, weights=OF_COUNTS, scaling="whole",
    source="Snoke et al. 2018; synthpop", **_TABLES,
)  # fmt: skip
G = Measure(
    name="g", label="likelihood of the tables against chance",
    sentence="Tables of two columns differ by this many times what chance does, by the likelihood of their counts.",
    summary="mean likelihood ratio statistic of two-way tables over its degrees of freedom",
    range=FROM_0, usual=_USUAL, function=g, compute=_g, weights=OF_COUNTS, scaling="whole",
    source="Snoke et al. 2018; synthpop", **_TABLES,
)  # fmt: skip
CELL_KS = Measure(
    name="cell_ks", label="largest change of a table cell",
    sentence="In a typical table of two columns the cell that changed most holds this much more or less of all people.",
    summary="mean of the largest difference of a cell's share, two-way tables",
    usual="0 for equal tables; 0.01 is one person in a hundred",
    range=SHARE, function=cell_ks, compute=_cell_ks, weights=USED, scaling="sample",
    source="Kulik, lecture on utility and information loss", **_TABLES,
)  # fmt: skip
