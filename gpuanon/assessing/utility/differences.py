"""Differences of means, variances and correlations between an original and its release (table 4.1 of [1]).

Each value is a median over features, or over pairs of features; the worst column or pair of columns stands beside it.
All but the rank correlations are computed from `TableMoments`, which merge over pieces of a table.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 4.2.
.. [2] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device, to_host
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import Names, column_names, constant_note, fold, fold_pairs, require_comparable
from gpuanon.assessing.evidence import EvidenceSource, TableMoments, moment_evidence
from gpuanon.assessing.figures import Beside, By, ByPair, Figure, Measured
from gpuanon.assessing.measure import FROM_0, NULL_IS_MARKED, USED, Measure
from gpuanon.errors import InputError
from gpuanon.tables.schema import Schema

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


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
    before, after = (TableMoments.of(ranks(X, w), w) for X, w in zip((original, release), own, strict=True))
    return by_pair(before, after, column_names(names, original.shape[1]), "rank_correlations", np.median)


def both_moments(original: Array, release: Array) -> tuple[TableMoments, TableMoments]:
    """The moments of two comparable tables."""
    require_comparable(original, release)
    return TableMoments.of(original), TableMoments.of(release)


def means_of(before: TableMoments, after: TableMoments, names: Sequence[str]) -> Measured:
    """`means` from moments."""
    return _relative(np.abs(after.mean - before.mean), np.sqrt(before.variance), before, after, names, "means")


def variances_of(before: TableMoments, after: TableMoments, names: Sequence[str]) -> Measured:
    """`variances` from moments."""
    change = np.abs(after.variance - before.variance)
    return _relative(change, before.variance, before, after, names, "variances")


def correlations_of(before: TableMoments, after: TableMoments, names: Sequence[str]) -> Measured:
    """`correlations` from moments."""
    return by_pair(before, after, names, "correlations", np.median)


def covariances_of(before: TableMoments, after: TableMoments, names: Sequence[str]) -> Measured:
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


def varying(X: Array) -> Host:
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
    before: TableMoments, after: TableMoments, names: Sequence[str], name: str, centre: Callable[[Host], Any]
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
    difference: Host, scale: Host, before: TableMoments, after: TableMoments, names: Sequence[str], name: str
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


def _means(source: EvidenceSource) -> Measured:
    return _beside_quasi(means_of(*source.collect(moment_evidence)), source.schema)


def _variances(source: EvidenceSource) -> Measured:
    return _beside_quasi(variances_of(*source.collect(moment_evidence)), source.schema)


def _correlations(source: EvidenceSource) -> Measured:
    return _beside_quasi(correlations_of(*source.collect(moment_evidence)), source.schema)


def _covariances(source: EvidenceSource) -> Measured:
    return _beside_quasi(covariances_of(*source.collect(moment_evidence)), source.schema)


def _rank_correlations(c: Comparison) -> Measured:
    return _beside_quasi(rank_correlations(*c.encoded, names=c.features, weights=c.weights), c.schema)


def _beside_quasi(figure: Measured, schema: Schema) -> Measured:
    """A median over all compared columns, with the median over the quasi-identifiers, which are masked, beside it.

    Columns that no mask changes pull a median over all of them down; those of many levels have many features in it.
    """
    value = _quasi_median(figure, schema.quasi)
    return replace(figure, beside=(*figure.beside, Beside("quasi_median", "median of quasi-identifiers", value)))


def _quasi_median(figure: Measured, quasi: Sequence[str]) -> float | None:
    """The median of the figure by column, or by pair of columns, over the quasi-identifiers; None without any."""
    known: list[float | None] = []
    for part in figure.parts:
        if isinstance(part, By):
            known += [part.values.get(name) for name in quasi]
        elif isinstance(part, ByPair):
            known += [value for (one, other), value in part.values.items() if one in quasi and other in quasi]
    there = [value for value in known if value is not None]
    return float(np.median(there)) if there else None


_DIFFERENCES: Mapping[str, Any] = {
    "family": "utility",
    "arrays": "encoded",
    "weights": USED,
    "nulls": NULL_IS_MARKED,
}
MEANS = Measure(
    name="means", label="shift of a typical average",
    sentence="The average of a typical column moved by this many standard deviations.",
    summary="median shift of a mean, in standard deviations",
    range=FROM_0,
    usual="below 0.1 is called balanced where groups are compared",
    unit="column", function=means, compute=_means, scaling="merged", source="Lasko 2007",
    sees="columns", **_DIFFERENCES,
)  # fmt: skip
VARIANCES = Measure(
    name="variances", label="change of a typical spread",
    sentence="The spread of a typical column changed by this share of itself.",
    summary="median relative change of a variance",
    range=FROM_0,
    usual="0 for a copy; 0.1 is a tenth of the spread",
    unit="column", function=variances, compute=_variances, scaling="merged", source="Lasko 2007",
    sees="columns", **_DIFFERENCES,
)  # fmt: skip
CORRELATIONS = Measure(
    name="correlations", label="change of a typical correlation",
    sentence="How two columns go together, from −1 to 1, changed by this much for a typical pair.",
    summary="median change of a correlation",
    range=(0.0, 2.0),
    usual="0 for a copy; a correlation of 0.1 is called weak",
    unit="pair of columns", function=correlations, compute=_correlations, scaling="merged",
    source="Lasko 2007", sees="together", **_DIFFERENCES,
)  # fmt: skip
COVARIANCES = Measure(
    name="covariances", label="change of a typical covariance",
    sentence="How two columns vary together, their spread included, changed by this much for a typical pair.",
    summary="median change of a covariance, in the original's standard deviations",
    range=FROM_0,
    usual="0 for a copy",
    unit="pair of columns", function=covariances_of, compute=_covariances, scaling="merged",
    source="Kulik, lecture on utility and information loss", sees="together", **_DIFFERENCES,
)  # fmt: skip
RANK_CORRELATIONS = Measure(
    name="rank_correlations", label="change of a typical rank correlation",
    sentence="Whether people high in one column are high in another, from −1 to 1, changed by this much for a"
    " typical pair.",
    summary="median change of a rank correlation",
    range=(0.0, 2.0),
    usual="0 for a copy; a correlation of 0.1 is called weak",
    unit="pair of columns", function=rank_correlations, compute=_rank_correlations, scaling="sample",
    source="Lasko 2007", sees="together", long=0.4, large=True, **_DIFFERENCES,
)  # fmt: skip
