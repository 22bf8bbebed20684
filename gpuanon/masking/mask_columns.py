"""The columns that a mask changes, has to know, or promises something of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import narwhals as nw
import numpy as np

from gpuanon.arrays.rng import Key
from gpuanon.errors import RecipeError
from gpuanon.masking.methods.combination import Combination
from gpuanon.tables.rows import ADDED, Rows, added_records
from gpuanon.tables.schema import Column, Schema


def needed_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The columns that a mask has to know: those that it changes or depends on, and sensitive ones in its grouping."""
    columns = masked_columns(combination, schema)
    columns += tuple(name for name in schema.select(combination.by) if name not in columns)
    return columns + tuple(name for name in schema.sensitive if combination.response_weight and name not in columns)


def released_schema(combination: Combination, schema: Schema) -> Schema:
    """The schema of what a mask releases."""
    kinds: dict[str, Any] = {name: schema[name].kind for name in masked_columns(combination, schema)}
    schema = schema.read_as({name: combination.operation.reading(kind) for name, kind in kinds.items()})
    return with_copy_column(schema) if combination.copies > 1 else schema


def constrained_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The sensitive columns that a part of the mask has a constraint on."""
    if combination.constraint is None:
        return ()
    if not schema.sensitive:
        raise RecipeError("mask: diversity, closeness: need columns of role sensitive")
    changed = [name for name in schema.sensitive if name in masked_columns(combination, schema)]
    if changed:
        raise RecipeError(f"mask: diversity, closeness: column {changed[0]!r} is sensitive, and the mask changes it")
    return schema.sensitive


def heeded_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The sensitive columns that the operation works by, in the rows that it masks; with a constraint, see there."""
    operation = combination.operation
    if combination.constraint is not None or not operation.heeds_sensitive:
        return ()
    masked = masked_columns(combination, schema)
    known = tuple(n for n in schema.sensitive if n not in masked and schema[n].released_names == (n,))
    if operation.asks_sensitive and not known:
        raise RecipeError("mask: order, strata: need a column of role sensitive that the mask does not change")
    if operation.response_strata is not None and schema.unit == "person":
        raise RecipeError("mask: strata: are of records, and a column has the role person")
    if operation.response_strata is not None and all(schema[name].kind == "categorical" for name in known):
        raise RecipeError("mask: strata: need a sensitive column whose values have an order")
    return known


def counted_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The columns whose values in the whole table a mask has to know."""
    masked = masked_columns(combination, schema)
    whole = masked if combination.operation.whole_table else ()
    classes = "classes" in (combination.groups.sees, combination.operation.sees)
    built = schema.built_hierarchies(masked) if classes else ()
    return tuple(dict.fromkeys([*constrained_columns(combination, schema), *whole, *built]))


def masked_columns(combination: Combination, schema: Schema) -> tuple[str, ...]:
    """The columns that a mask changes."""
    chosen = schema.select(combination.columns)
    if schema.weight in chosen:
        raise RecipeError(f"mask: columns: {schema.weight!r} is the weight and is not masked")
    if not chosen:
        raise RecipeError(
            "mask: columns: no column is chosen",
            hint='give at least one column role = "quasi", or name the mask\'s columns',
        )
    return chosen


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
