"""What measures of disclosure want to know of a comparison: sensitive values as codes, persons and households."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from gpuanon.arrays.backend import HOST, like, to_host
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.figures import Measured, join
from gpuanon.assessing.released import require_values, types_of
from gpuanon.assessing.risk.attribute_disclosure import attribute_disclosure
from gpuanon.assessing.risk.exact_copies import exact_copies
from gpuanon.assessing.risk.household_risk import household_risk
from gpuanon.assessing.risk.reidentification import hit_probabilities, place_in
from gpuanon.assessing.risk.suppression_reconstruction import suppression_reconstruction
from gpuanon.assessing.risk.synthetic_rows_auc import synthetic_rows_auc
from gpuanon.assessing.shares import sample_note, share_error
from gpuanon.assessing.source import MissingEvidence
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats

Host = np.ndarray[Any, Any]


def sensitive_bins(c: Comparison, tables: list[Table]) -> list[Host]:
    """(n, s) codes of the sensitive columns of each table: numbers and dates by deciles of the original; null is −1."""
    names = c.schema.sensitive
    if not names:
        raise MissingEvidence("needs columns of role sensitive")
    for table in tables[1:]:
        require_values(table, types_of(c.original), names)
    codes = level_codes(tables, names)
    for at, name in enumerate(names):
        if c.schema[name].kind in ("numeric", "date"):
            values = [floats(table.arrow(name)) for table in tables]
            there = values[0][~np.isnan(values[0])]
            edges = np.unique(np.quantile(there, np.arange(1, 10) / 10)) if len(there) else there
            for out, found in zip(codes, values, strict=True):
                out[:, at] = np.where(np.isnan(found), -1, np.searchsorted(edges, found, side="left"))
    return codes


def disclosure(c: Comparison) -> Measured:
    """`attribute_disclosure` of a comparison."""
    reference = c.reference_table
    tables = [c.original, c.points, *(() if reference is None else (reference,))]
    codes = sensitive_bins(c, tables)
    points = [*c.standardised, *(() if reference is None else (c.standardised_reference,))]
    person = c.schema.person
    return attribute_disclosure(
        (points[0], codes[0]),
        (points[1], codes[1]),
        None if reference is None else (points[2], codes[2]),
        names=c.schema.sensitive,
        persons=None if person is None else row_bits(c.original, [person.name])[:, 0],
    )


def copies(c: Comparison) -> Measured:
    """`exact_copies` of a comparison, on all quasi-identifiers and sensitive columns."""
    if c.reference_table is None:
        return exact_copies(*c.codes)
    tables = [c.original, c.points, c.reference_table]
    alike = all(len({table.arrow(name).type for table in tables}) == 1 for name in c.columns)
    # Bits of rows need no sort of any column; values of different types have equal codes only.
    found = [row_bits(table, c.columns).view(np.int64) for table in tables] if alike else level_codes(tables, c.columns)
    return exact_copies(*map((c.backend or HOST).upload, found))


def reconstruction(c: Comparison) -> Measured:
    """`suppression_reconstruction` of a comparison, on the quasi-identifiers."""
    return suppression_reconstruction(*c.quasi_codes, c.link, names=c.schema.quasi)


def households(c: Comparison) -> Measured:
    """`household_risk` of a comparison: the member's risk is that of the reidentification attack."""
    name = c.schema.household
    if name is None:
        raise MissingEvidence("needs a column of role household")
    labels = row_bits(c.original, [name])[:, 0]
    hits = c.hits
    if len(hits.rows) == hits.originals:
        return household_risk(hits.values, labels)
    who = np.unique(labels, return_inverse=True)[1].reshape(-1)  # too many to attack all: whole households
    count = int(who.max()) + 1
    chosen = np.zeros(count, dtype=bool)
    chosen[sample_rows(count, max(1, count * len(hits.rows) // hits.originals), "households")] = True
    rows = np.flatnonzero(chosen[who])
    before, after = c.quasi
    hit = hit_probabilities(before[like(rows, before)], after, place_in(rows, to_host(c.link)))
    found = household_risk(to_host(hit), labels[rows])
    attacked = int(chosen.sum())
    note = sample_note(attacked, count, "households was attacked", share_error(found.value, attacked, count))
    return replace(found, note=join(note, found.note))


def padding(c: Comparison) -> Measured:
    """`synthetic_rows_auc` of a comparison: every released column, whatever its role."""
    classes, schema = np.asarray(c.classes), c.schema
    quasi = [name for name in c.points.names if name in schema.quasi]
    kinds = {column.name: column.kind for column in schema.columns}  # a release may have columns of its own
    others = [name for name in c.points.names if name not in schema.quasi and kinds.get(name) is not None]

    def numbers(names: list[str]) -> Host:
        found = level_codes([c.points], names)[0].astype(np.float64)
        found[found < 0] = np.nan
        for at, name in enumerate(names):
            if schema[name].kind in ("numeric", "date") and family(c.points.arrow(name).type) in ("number", "time"):
                found[:, at] = floats(c.points.arrow(name))
        return found

    return synthetic_rows_auc(classes, numbers(others), c.link < 0, names=others, quasi=numbers(quasi))
