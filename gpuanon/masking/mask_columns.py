"""The columns that a mask changes, has to know or promises something of, and the released columns in their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import Host, to_host
from gpuanon.arrays.rng import Draws, Key
from gpuanon.errors import RecipeError
from gpuanon.masking.methods.combination import Combination
from gpuanon.masking.outcomes import NewColumn
from gpuanon.tables.arrow import arrow_array, arrow_scalar
from gpuanon.tables.codes import ColumnCodes
from gpuanon.tables.encoding.numbers import NumberCodec
from gpuanon.tables.interval_columns import interval_column
from gpuanon.tables.native import from_arrow, gather, one_zero, text_series
from gpuanon.tables.rows import ADDED, Rows, added_records
from gpuanon.tables.schema import Column, Schema
from gpuanon.tables.summaries import NumberSummary
from gpuanon.tables.table import Table
from gpuanon.tables.values import NULL

if TYPE_CHECKING:
    import pyarrow as pa


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
    if operation.response_strata is not None and schema.unit != "record":
        raise RecipeError(f"mask: strata: are of records, and k counts {schema.unit}s")
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
    """The columns that a mask changes; a weight only where it is named."""
    chosen = schema.select(combination.columns)
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


NewColumns = dict[str, dict[str, nw.Series[Any]]]
"""For each masked column, the released columns that take its place."""
Series = dict[str, nw.Series[Any]]
"""Columns by name."""


def moved_columns(table: Table, columns: Sequence[str], source: Host) -> NewColumns:
    """These columns with the values of the rows `source` (m,)."""
    taken = table.select(columns).take(source)
    return {name: {name: taken.series(name)} for name in columns}


def recoded_columns(
    table: Table, schema: Schema, columns: Sequence[str], coded: Sequence[NewColumn], values: Sequence[ColumnCodes]
) -> NewColumns:
    """The columns that codes mean, under the names that `schema` declares; several codes of a column in its order."""
    found: NewColumns = {name: {} for name in columns}
    for column in coded:
        name = columns[column.column]
        reading = schema[name].reading
        places = ("low", "high") if reading == "interval-column" else schema[name].released_names
        place = places[len(found[name])]
        if column.between is not None:
            found[name][place] = _interpolated(table, schema[name], column, values[column.column])
            continue
        found[name][place] = _coded(table.series(name), reading, column, values[column.column], place)
    for name in columns:
        if schema[name].reading == "interval-column":
            low, high = map(one_zero, found[name].values())
            found[name] = {name: interval_column(low, high, name)}
    return found


def _coded(like: nw.Series[Any], reading: str, column: NewColumn, values: ColumnCodes, name: str) -> nw.Series[Any]:
    """One column from its codes: values of its own type, or text."""

    codes, as_values = to_host(column.codes), reading in ("same", "interval", "interval-column")
    if column.members is not None:
        labels = _sets(to_host(column.members), values.labels(0))
    else:
        labels = values.values if as_values else values.labels(column.depth)
    taken = labels.take(arrow_array(np.where(codes == NULL, 0, codes), null=codes == NULL))
    made = from_arrow(taken, like) if as_values else text_series(taken, like)
    return made.alias(name)


def _interpolated(table: Table, spec: Column, column: NewColumn, values: ColumnCodes) -> nw.Series[Any]:
    """Numbers and times between the values of two codes, on the lattice of their column."""
    numbers, codes = values.numbers(), to_host(column.codes)
    assert numbers is not None
    above = numbers[np.minimum(codes + 1, len(numbers) - 1)]
    made = np.where(codes == NULL, np.nan, numbers[codes] + column.between * (above - numbers[codes]))
    plain = spec.model_copy(update={"transform": "none"})
    codec = NumberCodec.fit(plain, NumberSummary.of(plain, table.arrow(spec.name)), "indicator", "indicator")
    return codec.on_lattice(made, table.series(spec.name)).alias(spec.name)


def _sets(members: Host, labels: pa.Array) -> pa.Array:
    """Text such as ``{a, b}`` for each line of `members` (sets, values + 1), whose last column stands for null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    names = pa.concat_arrays([labels.cast(pa.string()), arrow_array([""], pa.string())])
    rows, picks = np.nonzero(members)
    offsets = np.searchsorted(rows, np.arange(len(members) + 1)).astype(np.int32)
    lists = pa.ListArray.from_arrays(arrow_array(offsets), names.take(arrow_array(picks)))
    left, separator, right, nothing = (arrow_scalar(text, pa.string()) for text in ("{", ", ", "}", ""))
    return pc.binary_join_element_wise(left, pc.binary_join(lists, separator), right, nothing)


def assemble(
    table: Table, columns: Sequence[str], made: NewColumns, rows: Host | None, fill: Draws | Series | None = None
) -> Table:
    """The released rows: masked columns replaced in their places, the others as they are in `rows` (m,), None for all.

    Masked columns have one zero and one null (see `one_zero`), so that equal values are equal as they are stored.

    fill : what the last rows, which stand for no record, receive in the columns that are not masked: the values in
        these columns; or, given draws, the value of a random row.  Each column is then drawn by itself: its marginal
        distribution is kept, what links columns is not
    """
    base = table if rows is None else table.take(rows)
    series = {place: one_zero(column) for found in made.values() for place, column in found.items()}
    if isinstance(fill, dict):
        for name, column in fill.items():
            kept = base.select([name]).take(np.arange(base.n_rows - len(column)))
            series[name] = Table.concatenated([kept, Table.of(column.to_frame())]).series(name)
    elif fill is not None and rows is not None and len(fill.records):
        others = [name for name in table.names if name not in columns]
        picks = (fill.uniform(len(others)) * table.n_rows).astype(np.int64)
        for at, name in enumerate(others):
            series[name] = gather(table.series(name), np.concatenate([rows[: -len(picks)], picks[:, at]]))
    order = [place for name in table.names for place in made.get(name, {name: None})]
    return base.replace(series).select(order)
