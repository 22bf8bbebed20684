"""Exact copies: released records that are an original record, word for word."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import HOST, Array, namespace
from gpuanon.assessing.figures import Beside, Measured
from gpuanon.assessing.measure import NULL_IS_A_VALUE, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


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


def _exact_copies(c: Comparison) -> Measured:
    """On all quasi-identifiers and sensitive columns."""
    if c.reference_table is None:
        return exact_copies(*c.codes)
    tables = [c.original, c.points, c.reference_table]
    alike = all(len({table.arrow(name).type for table in tables}) == 1 for name in c.columns)
    # Bits of rows need no sort of any column; values of different types have equal codes only.
    found = [row_bits(table, c.columns).view(np.int64) for table in tables] if alike else level_codes(tables, c.columns)
    return exact_copies(*map((c.backend or HOST).upload, found))


EXACT_COPIES = Measure(
    name="exact_copies", label="unique people released unchanged",
    sentence="This share of the released records repeats, in every compared column, the record of a person who was"
    " unique in the original.",
    summary="share of released records that equal a unique original record",
    family="risk", range=SHARE, unit="record", function=exact_copies, compute=_exact_copies, arrays="values",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_A_VALUE, scaling="whole", source="ours",
)  # fmt: skip
