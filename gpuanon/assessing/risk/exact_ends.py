"""Exact ends: ends of released intervals that are the value of one person.

An interval from the smallest to the largest value of a group shows two cells of the original.  Where one record alone
has such a value, the end is that person's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.compared_tables import class_columns_by_name
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import By, Measured
from gpuanon.assessing.measure import NULL_IS_LEFT_OUT, QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.errors import ParameterError
from gpuanon.tables.codes import level_codes
from gpuanon.tables.interval_columns import with_ends
from gpuanon.tables.table import Table
from gpuanon.tables.values import family

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def exact_ends(original: Sequence[Host], low: Sequence[Host], high: Sequence[Host], *, names: Names = None) -> Measured:
    """Share of the ends of released intervals that are a value which exactly one original record has.

    original  : for each column (n,) codes of the originals; equal codes are equal values, below 0 is a null
    low, high : for each column (m,) codes of the ends in each released row

    Each different interval of a column counts once, with both of its ends; nulls are left out.  By column.
    """
    if not len(original) == len(low) == len(high) or not original:
        raise ParameterError("original, low, high: the same columns, at least one, are needed")
    found: dict[str, float | None] = {}
    ends = exact = 0
    for name, values, *both in zip(column_names(names, len(original)), original, low, high, strict=True):
        pairs = np.unique(np.stack(both), axis=1)
        shown = pairs[pairs >= 0]
        single = np.bincount(values[values >= 0], minlength=int(shown.max(initial=0)) + 1) == 1
        found[name] = float(single[shown].mean()) if len(shown) else None
        ends, exact = ends + len(shown), exact + int(single[shown].sum())
    return Measured(exact / ends if ends else 0.0, {"ends": ends}, parts=(By("column", found),))


def _exact_ends(c: Comparison) -> Measured:
    """Of the quasi-identifiers with an order; a value that is no interval is both ends of one."""
    import pyarrow as pa

    release = with_ends(c.release)
    codes = {}
    for name, ends in class_columns_by_name(release.names, c.schema).items():
        kinds = {family(table.arrow(place).type) for table, place in ((c.original, name), (release, ends[0]))}
        if c.schema[name].kind == "categorical" or len(kinds) > 1:  # levels of a hierarchy are no values
            continue
        tables = [c.original.select([name]), *(Table.of(pa.table({name: release.arrow(end)})) for end in ends)]
        own, low, *high = (table[:, 0] for table in level_codes(tables, [name]))
        codes[name] = (own, low, high[0] if high else low)
    if not codes:
        raise MissingEvidence("needs columns of role quasi whose values have an order")
    return exact_ends(*zip(*codes.values(), strict=True), names=tuple(codes))


EXACT_ENDS = Measure(
    name="exact_ends", label="ends of intervals that are one person's value",
    sentence="This share of the ends of released intervals is the exact value of one person.",
    summary="share of ends of intervals that exactly one original has",
    family="risk", range=SHARE, usual="0 where ends are rounded", unit="cell",
    records="an end that several records of a person share counts as shared",
    applies=QUASI, function=exact_ends,
    compute=_exact_ends, arrays=None, weights=RISK_OF_RECORDS, nulls=NULL_IS_LEFT_OUT, scaling="whole",
    host="not written for a device: sorts of pairs of codes", source="ours",
)  # fmt: skip
