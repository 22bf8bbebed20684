"""Several copies of a masked table in one release, for multiple imputation."""

from __future__ import annotations

from collections.abc import Sequence

import narwhals as nw
import numpy as np

from gpuanon.arrays.rng import Key
from gpuanon.errors import RecipeError
from gpuanon.tables.rows import ADDED, Rows, added_records
from gpuanon.tables.schema import Column, Schema

COPY = "copy"
"""The column that says to which copy a released row belongs, from 1."""


def stacked(copies: Sequence[Rows], key: Key, stream: str) -> Rows:
    """The rows of all copies, with the number of their copy.

    Rows that stand for a record do so in the first copy; in the others they count as added, so that each record is
    released once.
    """
    found = []
    for number, rows in enumerate(copies):
        records = rows.records
        if number and len(records):
            fresh = added_records(key, f"{stream}/copies.{number}", records)
            records = np.where(records < ADDED, fresh, records)
        persons = None if rows.persons is None else np.where(records < ADDED, rows.persons, records)
        frame = rows.table.frame
        values = np.full(len(records), number + 1, dtype=np.int64)
        column = nw.new_series(COPY, values, nw.Int64, backend=frame.implementation)
        if frame.implementation.is_pandas_like():
            column = nw.from_native(column.to_native().set_axis(frame.to_native().index), series_only=True)
        found.append(Rows(rows.table.replace({COPY: column}), records, persons))
    return Rows.concatenated(found)


def with_copy_column(schema: Schema) -> Schema:
    """The schema of a release of several copies."""
    if any(column.name == COPY for column in schema.columns):
        raise RecipeError(f"mask: copies: the table has a column {COPY!r} already", hint="rename it")
    column = Column(name=COPY, role="other", kind="numeric")
    return schema.model_copy(update={"columns": (*schema.columns, column)})
