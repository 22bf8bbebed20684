"""Reconstruction of blanked cells: a pattern that blanks no more than it must says what it blanks.

The attacker assumes that no cell was blanked in vain.  A value that enough records share with the rest of a record
would not have been blanked there; the values that remain are the candidates.  Where one remains, the cell is told.

References
----------
.. [1] T. Lasko (2007), Spectral anonymization of data, MIT, section 2.3.2: reconstruction of minimal suppression.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.numerics.compatible import covering_counts
from gpuanon.numerics.patterns import Patterns, classes_at

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def suppression_reconstruction(original: Array, release: Array, link: Array, *, names: Names = None) -> Measured:
    """Share of the blanked cells whose value can be told.

    Parameters
    ----------
    original, release : (n, c) and (m, c) codes, equal for equal values; −1 is a null
    link              : (m,) the original of each released row, −1 for an added one
    names             : of the columns

    Returns
    -------
    The value is the share of the blanked cells for which one candidate remains, and it is right.  k is what the
    release itself shows: the fewest records that share the values left of a record.  Values that the column has in the
    original are taken to be known.

    Notes
    -----
    Cost : for each set of columns that blanked records are left with, and each other column, one pass over the distinct
        released records.
    """
    before, after, of = to_host(original), to_host(release), to_host(link)
    columns = column_names(names, after.shape[1])
    whole = Patterns.of(after)
    k = int(covering_counts(whole.codes, whole.counts).min()) if len(after) else 0
    true = np.where((of >= 0)[:, None], before[np.maximum(of, 0)], -1)
    blanked = (after < 0) & (true >= 0)
    domain = {int(j): len(np.unique(before[before[:, j] >= 0, j])) for j in np.flatnonzero(blanked.any(axis=0))}
    told, chance, single = (np.zeros(after.shape) for _ in range(3))
    for mask, rows in _by_kept(after, blanked):
        for j in np.flatnonzero(~mask):
            at = rows[blanked[rows, j]]
            if len(at):
                left, possible = _candidates(whole, after[at], true[at, j], mask, int(j), k, domain[int(j)])
                told[at, j] = (left == 1) & possible
                single[at, j] = left == 1
                chance[at, j] = np.where(possible, 1 / np.maximum(left, 1), 0.0)
    return _figure(told, single, chance, blanked, true, after, columns, k)


def _by_kept(after: Host, blanked: Host) -> list[tuple[Host, Host]]:
    """The sets of columns that records with blanked cells are left with, and these records."""
    rows = np.flatnonzero(blanked.any(axis=1))
    masks, which = np.unique(after[rows] >= 0, axis=0, return_inverse=True)
    return [(mask, rows[which.reshape(-1) == at]) for at, mask in enumerate(masks)]


def _candidates(whole: Patterns, rows: Host, true: Host, mask: Host, j: int, k: int, values: int) -> tuple[Host, Host]:
    """How many values of column `j` may have been blanked in each of the `rows`, and whether the true one may."""
    kept = [int(at) for at in np.flatnonzero(mask)]
    known = np.flatnonzero((whole.codes[:, [*kept, j]] >= 0).all(axis=1))
    both = np.concatenate([whole.codes[known], rows])
    key, room = classes_at([both[:, at] for at in kept], [int(whole.codes[:, at].max()) + 1 for at in kept])
    key = key if len(kept) else np.zeros(len(both), dtype=np.int64)
    width = int(max(whole.codes[:, j].max(), true.max())) + 1
    sizes = np.zeros((max(room, 1)) * width) if room * width <= 1 << 26 else None
    cells = key[: len(known)] * width + whole.codes[known, j]
    wanted = key[len(known) :]
    if sizes is not None:
        sizes += np.bincount(cells, weights=whole.counts[known], minlength=len(sizes))
        safe = (sizes.reshape(-1, width) + 1 >= k).sum(axis=1)[wanted]
        shared = sizes[wanted * width + true]
    else:
        found, place = np.unique(cells, return_inverse=True)
        count = np.bincount(place.reshape(-1), weights=whole.counts[known])
        safe = np.bincount(found // width, weights=count + 1 >= k, minlength=room)[wanted].astype(np.int64)
        at = np.minimum(np.searchsorted(found, wanted * width + true), len(found) - 1)
        shared = np.where(found[at] == wanted * width + true, count[at], 0)
    return values - safe, shared + 1 < k


def _figure(
    told: Host, single: Host, chance: Host, blanked: Host, true: Host, after: Host, columns: Any, k: int
) -> Measured:
    """The figure from what is known of each cell."""
    cells = int(blanked.sum())
    common = np.array([_commonest(column) for column in after.T])
    guessed = (true == common[None, :]) & blanked
    by = {name: float(told[:, j].sum() / max(int(blanked[:, j].sum()), 1)) for j, name in enumerate(columns)}
    details: dict[str, Figure] = {
        "cells": cells,
        "records": int(blanked.any(axis=1).sum()),
        "k_shown": k,
        "one_candidate": float(single.sum() / max(cells, 1)),
    }
    return Measured(
        float(told.sum() / max(cells, 1)),
        details,
        None if cells else "no cell was blanked",
        parts=(By("column", by),),
        beside=(
            Beside("guess", "a random candidate", float(chance.sum() / max(cells, 1))),
            Beside("baseline", "the commonest released value", float(guessed.sum() / max(cells, 1))),
        ),
    )


def _commonest(column: Host) -> int:
    """The commonest value, −2 without any."""
    there = column[column >= 0]
    return int(np.bincount(there).argmax()) if len(there) else -2


def _suppression_reconstruction(c: Comparison) -> Measured:
    return suppression_reconstruction(*c.quasi_codes, c.link, names=c.schema.quasi)


SUPPRESSION_RECONSTRUCTION = Measure(
    name="suppression_reconstruction", label="blanked values that can be told",
    sentence="Of the values that were blanked, this share can be worked out from what was left.",
    summary="share of blanked cells whose value a minimal pattern tells",
    family="risk", range=SHARE,
    usual="0: no blanked value can be told",
    unit="cell", applies=PAIRED_QUASI, function=suppression_reconstruction,
    compute=_suppression_reconstruction, arrays="values", weights=RISK_OF_RECORDS,
    nulls="a value that became null is what is attacked; nulls of the original are values of their own",
    scaling="whole",
    host="counts by set of columns that blanked records are left with, few records each",
    source="Lasko 2007", large=True,
)  # fmt: skip
