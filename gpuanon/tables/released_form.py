"""Released columns put together: values of other rows, decoded values, intervals, levels, sets, and filled columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import narwhals as nw
import numpy as np

from gpuanon.arrays.backend import to_host
from gpuanon.arrays.rng import Draws
from gpuanon.tables.arrow import arrow_array, arrow_scalar
from gpuanon.tables.codes import NULL, ColumnCodes
from gpuanon.tables.interval_columns import interval_column
from gpuanon.tables.native import from_arrow, gather, one_zero, text_series
from gpuanon.tables.schema import Column, Schema
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]
Columns = dict[str, dict[str, nw.Series[Any]]]
"""For each masked column, the released columns that take its place."""
Series = dict[str, nw.Series[Any]]
"""Columns by name."""


class CodedColumn(Protocol):
    """See `gpuanon.masking.outcomes.NewColumn`."""

    @property
    def column(self) -> int: ...
    @property
    def codes(self) -> Any: ...
    @property
    def depth(self) -> int | None: ...
    @property
    def members(self) -> Any: ...
    @property
    def between(self) -> Any: ...


def moved(table: Table, columns: Sequence[str], source: Host) -> Columns:
    """These columns with the values of the rows `source` (m,)."""
    taken = table.select(columns).take(source)
    return {name: {name: taken.series(name)} for name in columns}


def recoded(
    table: Table, schema: Schema, columns: Sequence[str], coded: Sequence[CodedColumn], values: Sequence[ColumnCodes]
) -> Columns:
    """The columns that codes mean, under the names that `schema` declares; several codes of a column in its order."""
    found: Columns = {name: {} for name in columns}
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


def _coded(like: nw.Series[Any], reading: str, column: CodedColumn, values: ColumnCodes, name: str) -> nw.Series[Any]:
    """One column from its codes: values of its own type, or text."""

    codes, as_values = to_host(column.codes), reading in ("same", "interval", "interval-column")
    if column.members is not None:
        labels = _sets(to_host(column.members), values.labels(0))
    else:
        labels = values.values if as_values else values.labels(column.depth)
    taken = labels.take(arrow_array(np.where(codes == NULL, 0, codes), null=codes == NULL))
    made = from_arrow(taken, like) if as_values else text_series(taken, like)
    return made.alias(name)


def _interpolated(table: Table, spec: Column, column: CodedColumn, values: ColumnCodes) -> nw.Series[Any]:
    """Numbers and times between the values of two codes, on the lattice of their column."""
    from gpuanon.tables.encoding.numbers import NumberCodec
    from gpuanon.tables.summaries import NumberSummary

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
    table: Table, columns: Sequence[str], made: Columns, rows: Host | None, fill: Draws | Series | None = None
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
