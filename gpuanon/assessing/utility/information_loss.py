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
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.assessing.figures import Figure, Measured
from gpuanon.assessing.utility.differences import varying
from gpuanon.errors import InputError, ParameterError

Floats = np.ndarray[Any, Any]


def records_changed(original: Array, release: Array, *, link: Array | None = None) -> Measured:
    """Number of records whose value changed, by column; the value is the mean share over columns."""
    before, after, note = paired(original, release, link)
    xp = namespace(before)
    changed = before != after
    if before.dtype.kind == "f":
        changed &= ~(xp.isnan(before) & xp.isnan(after))  # a missing value that stays missing did not change
    counts = to_host(changed.sum(axis=0))
    rows = len(before)
    details: dict[str, Figure] = {
        "records": rows,
        "columns": [int(count) for count in counts],
        "shares": [float(count / rows) for count in counts],
        "any_column": int(changed.any(axis=1).sum()),
    }
    return Measured(float(counts.mean() / rows), details, note)


def mse(original: Array, release: Array, *, link: Array | None = None) -> Measured:
    """Mean squared difference of released cells from their originals, by column; the value is the mean over columns."""
    before, after, note = paired(original, release, link)
    columns = to_host(((before - after) ** 2).mean(axis=0))
    return Measured(float(columns.mean()), {"columns": [float(value) for value in columns]}, note)


def r2(original: Array, release: Array, *, link: Array | None = None) -> Measured:
    """Coefficient of determination of each column, 1 − SSE / SST, with the original's SST; the value is the median."""
    before, after, note = paired(original, release, link)
    share = _shares(before, after, "r2")
    columns = 1 - share
    details: dict[str, Figure] = {
        "min": float(np.nanmin(columns)),
        "columns": [None if np.isnan(value) else float(value) for value in columns],
    }
    return Measured(float(np.nanmedian(columns)), details, _with_constant(note, share))


def information_loss(original: Array, release: Array, *, link: Array | None = None) -> Measured:
    """100 · SSE / SST over standardised columns: 0 for a copy, 100 when every record receives the mean."""
    before, after, note = paired(original, release, link)
    share = _shares(before, after, "information_loss")
    details: dict[str, Figure] = {"columns": [None if np.isnan(value) else float(100 * value) for value in share]}
    return Measured(float(100 * np.nanmean(share)), details, _with_constant(note, share))


def il1s(original: Array, release: Array, *, link: Array | None = None) -> Measured:
    """Σ |x − x'| / (√2 · sd(x)) over all cells (IL1s of [2], sd with divisor n − 1)."""
    before, after, note = paired(original, release, link)
    if len(before) < 2:
        raise InputError("il1s: not defined for fewer than two records")
    deviation = to_host(before.std(axis=0, ddof=1))
    varies = varying(before)
    if not varies.any():
        raise InputError("il1s: not defined, every column of the original is constant")
    sums = to_host(namespace(before).abs(before - after).sum(axis=0))
    columns = np.full(len(sums), np.nan)
    columns[varies] = sums[varies] / (math.sqrt(2) * deviation[varies])
    total = float(np.nansum(columns))
    details: dict[str, Figure] = {
        "per_cell": total / (len(before) * int(varies.sum())),
        "columns": [None if np.isnan(value) else float(value) for value in columns],
    }
    return Measured(total, details, _with_constant(note, columns))


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
            raise ParameterError(f"link: one entry a released row is needed ({len(release)}), got {len(link)}")
        released = namespace(link).flatnonzero(link >= 0)
        before, after = original[link[released]], release[released]
        added = len(release) - len(released)
        note = f"{added} added rows are left out" if added else None
    if len(before) == 0:
        raise InputError("rows: no released row has an original")
    return before, after, note


def _shares(before: Array, after: Array, name: str) -> Floats:
    """(d,) SSE / SST; NaN where the original is constant."""
    sse = to_host(((before - after) ** 2).sum(axis=0))
    sst = to_host(((before - before.mean(axis=0)) ** 2).sum(axis=0))
    varies = varying(before)
    if not varies.any():
        raise InputError(f"{name}: not defined, every column of the original is constant")
    return np.where(varies, sse / np.where(varies, sst, 1.0), np.nan)


def _with_constant(note: str | None, columns: Floats) -> str | None:
    """Add the number of constant columns to a note."""
    constant = int(np.isnan(columns).sum())
    notes = [note] if note else []
    if constant:
        notes.append(f"{constant} columns are constant in the original and left out")
    return "; ".join(notes) or None
