"""Cell by cell: how far released values are from the values they came from.

All measures here compare a released record with its own original, so they need to know which that is: `link` holds
the original row of each released row, −1 for an added row; without it both tables stand in the same order.
Added rows are left out, and counted.

References
----------
.. [1] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
.. [2] W. E. Yancey, W. E. Winkler, R. H. Creecy (2002), Disclosure risk assessment in perturbative microdata
   protection (IL1s).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.assessing.columns import Names, column_names, constant_note, fold, places
from gpuanon.assessing.figures import By, Figure, Measured, join
from gpuanon.assessing.measure import (
    FROM_0,
    NULL_IS_A_VALUE,
    NULL_IS_MARKED,
    OF_RECORDS,
    PAIRED,
    PAIRED_QUASI,
    SHARE,
    Measure,
)
from gpuanon.assessing.utility.differences import varying
from gpuanon.errors import InputError, ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def records_changed(original: Array, release: Array, *, link: Array | None = None, names: Names = None) -> Measured:
    """Share of records whose value changed, by column; the value is the mean over columns."""
    before, after, note = paired(original, release, link)
    labels = column_names(names, original.shape[1])
    xp = namespace(before)
    changed = before != after
    if before.dtype.kind == "f":
        changed &= ~(xp.isnan(before) & xp.isnan(after))  # a missing value that stays missing did not change
    counts = to_host(changed.sum(axis=0))
    rows = len(before)
    details: dict[str, Figure] = {
        "records": rows,
        "changed_by_column": {name: int(count) for name, count in zip(labels, counts, strict=True)},
        "any_column": int(changed.any(axis=1).sum()),
    }
    part = By("column", fold(counts / rows, labels))
    return Measured(float(counts.mean() / rows), details, note, parts=(part,))


def mse(original: Array, release: Array, *, link: Array | None = None, names: Names = None) -> Measured:
    """Mean squared difference of released cells from their originals; the value is the mean over columns.

    By column: the sum over its features, its share in the squared distance of a released record from its original.
    """
    before, after, note = paired(original, release, link)
    features = to_host(_squared(before - after).mean(axis=0))
    part = By("column", fold(features, column_names(names, len(features)), np.sum))
    return Measured(float(np.mean(_defined(part))), {}, note, parts=(part,))


def r2(original: Array, release: Array, *, link: Array | None = None, names: Names = None) -> Measured:
    """Coefficient of determination 1 − SSE / SST with the original's SST; the value is the median over columns.

    By column: from SSE and SST summed over its features.
    """
    before, after, note = paired(original, release, link)
    labels = column_names(names, original.shape[1])
    sse, sst = _sums(before, after, "r2")
    shares = _by_column(sse, sst, labels)
    part = By("column", {name: None if share is None else 1 - share for name, share in shares.items()}, "smallest")
    note = join(note, constant_note(labels, ~np.isnan(sst), varying(after)))
    found = _defined(part)
    return Measured(float(np.median(found)), {"min": min(found)}, note, parts=(part,))


def information_loss(original: Array, release: Array, *, link: Array | None = None, names: Names = None) -> Measured:
    """100 · SSE / SST over standardised columns: 0 for a copy, 100 when every record receives the mean.

    By column: from SSE and SST summed over its features.  Each column has the same SST, so the value is their mean,
    whatever the number of levels of a category.
    """
    before, after, note = paired(original, release, link)
    labels = column_names(names, original.shape[1])
    sse, sst = _sums(before, after, "information_loss")
    shares = _by_column(sse, sst, labels)
    part = By("column", {name: None if share is None else 100 * share for name, share in shares.items()})
    note = join(note, constant_note(labels, ~np.isnan(sst), varying(after)))
    return Measured(float(np.mean(_defined(part))), {}, note, parts=(part,))


def il1s(original: Array, release: Array, *, link: Array | None = None, names: Names = None) -> Measured:
    """Σ |x − x'| / (√2 · sd(x)) over all cells (IL1s of [2], sd with divisor n − 1).

    By column: the sum over its features.
    """
    before, after, note = paired(original, release, link)
    labels = column_names(names, original.shape[1])
    if len(before) < 2:
        raise InputError("il1s: not defined for fewer than two records")
    deviation = to_host(before.std(axis=0, ddof=1))
    varies = varying(before)
    if not varies.any():
        raise InputError("il1s: not defined, every column of the original is constant")
    difference = before - after
    sums = to_host(namespace(before).abs(difference, out=difference).sum(axis=0))
    features = np.full(len(sums), np.nan)
    features[varies] = sums[varies] / (math.sqrt(2) * deviation[varies])
    total = float(np.nansum(features))
    details: dict[str, Figure] = {"per_cell": total / (len(before) * int(varies.sum()))}
    note = join(note, constant_note(labels, varies, varying(after)))
    return Measured(total, details, note, parts=(By("column", fold(features, labels, np.sum)),))


def paired(original: Array, release: Array, link: Array | None) -> tuple[Array, Array, str | None]:
    """Original and released rows side by side, and what must be said about rows that have no partner."""
    if original.ndim != 2 or release.ndim != 2 or original.shape[1] != release.shape[1]:
        raise ParameterError("columns: original and release need the same ones")
    if link is None:
        if len(original) != len(release):
            raise InputError(
                f"link: original and release have {len(original)} and {len(release)} rows, so it must be given",
                hint="'gpuanon protect --link FILE' writes it, 'gpuanon assess --link FILE' reads it",
            )
        before, after, note = original, release, None
    else:
        if len(link) != len(release):
            raise ParameterError(f"link: one entry per released row is needed ({len(release)}), got {len(link)}")
        released = namespace(link).flatnonzero(link >= 0)
        added = len(release) - len(released)
        before, after = original[link[released]], release[released] if added else release
        note = f"{added} added rows are left out" if added else None
    if len(before) == 0:
        raise InputError("rows: no released row has an original")
    return before, after, note


def _sums(before: Array, after: Array, name: str) -> tuple[Host, Host]:
    """(d,) SSE and SST; NaN where the original is constant."""
    sse = to_host(_squared(before - after).sum(axis=0))
    sst = to_host(_squared(before - before.mean(axis=0)).sum(axis=0))
    varies = varying(before)
    if not varies.any():
        raise InputError(f"{name}: not defined, every column of the original is constant")
    return np.where(varies, sse, np.nan), np.where(varies, sst, np.nan)


def _squared(differences: Array) -> Array:
    """Their squares, in their place: these arrays are as large as the table."""
    return namespace(differences).square(differences, out=differences)


def _defined(part: By) -> list[float]:
    """The figures of the columns that have one."""
    return [value for value in part.values.values() if value is not None]


def _by_column(sse: Host, sst: Host, names: Sequence[str]) -> dict[str, float | None]:
    """ΣSSE / ΣSST over the features of each column; None for a constant column."""
    return {
        name: None if np.isnan(sst[rows]).all() else float(np.nansum(sse[rows]) / np.nansum(sst[rows]))
        for name, rows in places(names).items()
    }


def _records_changed(c: Comparison) -> Measured:
    return records_changed(*c.codes, link=c.link, names=c.columns)


def _mse(c: Comparison) -> Measured:
    return mse(*c.quasi, link=c.link, names=c.quasi_features)


def _r2(c: Comparison) -> Measured:
    return r2(*c.quasi, link=c.link, names=c.quasi_features)


def _il1s(c: Comparison) -> Measured:
    return il1s(*c.quasi, link=c.link, names=c.quasi_features)


def _information_loss(c: Comparison) -> Measured:
    return information_loss(*c.quasi, link=c.link, names=c.quasi_features)


RECORDS_CHANGED = Measure(
    name="records_changed", label="values that were changed",
    sentence="In a typical column this share of the records has another value than before.",
    summary="mean share of records whose value changed, by column",
    family="utility", range=SHARE,
    usual="0 for a copy; near 1 where every record is masked",
    unit="cell", applies=PAIRED, function=records_changed,
    compute=_records_changed, arrays="values", weights=OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="pairs",
    source="Kulik, lecture on utility and information loss", sees="records",
)  # fmt: skip
_QUASI_PAIRS: Mapping[str, Any] = {
    "family": "utility",
    "applies": PAIRED_QUASI,
    "arrays": "quasi",
    "weights": OF_RECORDS,
    "nulls": NULL_IS_MARKED,
    "sees": "records",
    "large": True,
}
MSE = Measure(
    name="mse", label="average squared change of a value",
    sentence="Released values of the quasi-identifiers differ from the true ones by this much on average, squared,"
    " in standard deviations.",
    summary="mean squared change of a cell, standardised quasi-identifiers",
    range=FROM_0, usual="0 for a copy; 1 when every record receives the mean",
    unit="cell", function=mse, compute=_mse, scaling="pairs", source="Kulik, lecture on utility and information loss",
    **_QUASI_PAIRS,
)  # fmt: skip
R2 = Measure(
    name="r2", label="how much of the differences between people is kept",
    sentence="The released values of a typical quasi-identifier explain this share of the differences between"
    " people in the original.",
    summary="median share of a quasi-identifier's variance that its released values explain",
    better="higher", range=(-inf, 1.0), usual="1 for a copy; 0 when every record receives the mean",
    unit="column", function=r2, compute=_r2, scaling="pairs", source="Kulik, lecture on utility and information loss",
    **_QUASI_PAIRS,
)  # fmt: skip
IL1S = Measure(
    name="il1s", label="total of all changes",
    sentence="The changes of all values of the quasi-identifiers add up to this much, in standard deviations.",
    summary="sum of absolute changes over √2 standard deviations, quasi-identifiers",
    range=FROM_0,
    usual="0 for a copy; it grows with the number of records",
    unit="table", function=il1s, compute=_il1s, scaling="whole",
    source="Mateo-Sanz, Sebé and Domingo-Ferrer 2004; sdcMicro", **_QUASI_PAIRS,
)  # fmt: skip
INFORMATION_LOSS = Measure(
    name="information_loss", label="loss of detail, in per cent",
    sentence="Masking moved the quasi-identifiers by this many per cent of all the differences between people.",
    summary="100 · SSE / SST over the quasi-identifiers",
    range=FROM_0, usual="0 for a copy; 100 when every record receives the mean",
    unit="table", function=information_loss, compute=_information_loss, scaling="pairs",
    source="Domingo-Ferrer and Torra 2005", **_QUASI_PAIRS,
)  # fmt: skip
