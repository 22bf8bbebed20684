"""Exact copies: released records that are an original record, word for word."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.assessing.figures import Beside, Measured
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows


def exact_copies(original: Array, release: Array, reference: Array | None = None) -> Measured:
    """Share of released records that equal, in every column, a record that is unique in the original.

    original, release, reference : (n, d) codes, equal where values are equal.  What an independent sample shares with
        the original by chance stands beside it, where a reference is given
    """
    if min(len(original), len(release)) == 0:
        raise ParameterError("original and release need at least one row each")
    tables = [original, release, *(() if reference is None else (reference,))]
    xp = namespace(original)
    labels = equal_rows(xp.concatenate(tables))
    ends = np.cumsum([len(table) for table in tables]).tolist()
    before, after, *others = xp.split(labels, ends[:-1])
    unique = xp.bincount(before, minlength=int(labels.max()) + 1) == 1
    copied = unique[after]
    details = {
        "copies": int(copied.sum()),
        "originals_copied": len(xp.unique(after[copied])),
        "unique_originals": int(unique[before].sum()),
    }
    beside = tuple(Beside("reference", "of an independent sample", float(unique[rows].mean())) for rows in others)
    return Measured(float(copied.mean()), details, beside=beside)
