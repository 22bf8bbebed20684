"""Levels of categorical columns in a release: those that are released and no others, in an order of their own.

A dictionary that was made while reading the original holds levels of rows and columns that are not released, in the
order of the original rows.  So each dictionary is made anew from the released values: ascending, or in the order that
was declared for an ordered one.  A piece of a release has the levels of its own rows; where a format wants the same
dictionary in all pieces, and for ordered levels, it has those of the whole release (`common_levels`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import numpy as np

from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.native import to_arrow
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa


def with_released_levels(table: Table) -> Table:
    """The table with new dictionaries, in whatever column there is one."""
    found = {name: _rebuilt(table.series(name)) for name in table.names}
    return table.replace({name: series for name, series in found.items() if series is not None})


def _rebuilt(series: nw.Series[Any]) -> nw.Series[Any] | None:
    """The column with a new dictionary; None if it has none."""
    import pyarrow as pa

    native = series.to_native()
    if series.implementation.is_polars():
        return _polars(series)
    if series.implementation.is_pyarrow():
        column = native
    elif series.dtype in (nw.Categorical, nw.Enum) and hasattr(native, "cat") and hasattr(native.dtype, "ordered"):
        return _pandas(series)
    elif hasattr(native.dtype, "pyarrow_dtype"):
        column = to_arrow(series)
    else:
        return None
    if pa.types.is_dictionary(column.type):
        return _like(_recoded(column), series)
    if _holds_dictionary(column.type):
        return _like(pa.chunked_array([pa.array(column.to_pylist(), column.type)]), series)
    return None


def _like(column: pa.ChunkedArray, series: nw.Series[Any]) -> nw.Series[Any]:
    """An Arrow column as one of the library of `series`."""
    if series.implementation.is_pyarrow():
        made = nw.from_native(column, series_only=True, allow_series=True)
    else:
        import pandas as pd

        made = nw.from_native(pd.Series(series.to_native().dtype.__from_arrow__(column)), series_only=True)
    return cast(nw.Series[Any], made.alias(series.name))


def _polars(series: nw.Series[Any]) -> nw.Series[Any] | None:
    """An Enum has the levels that occur; a Categorical shares its levels with the process, and none with a file."""
    import polars as pl

    native = series.to_native()
    if not isinstance(native.dtype, pl.Enum):
        return None
    used = set(native.unique().drop_nulls().cast(pl.String).to_list())
    levels = [level for level in native.dtype.categories.to_list() if level in used]
    return cast(nw.Series[Any], nw.from_native(native.cast(pl.String).cast(pl.Enum(levels)), series_only=True))


def _pandas(series: nw.Series[Any]) -> nw.Series[Any]:
    """A pandas categorical with the categories that occur."""
    native = series.to_native().cat.remove_unused_categories()
    if not native.cat.ordered:
        levels = native.cat.categories
        try:
            levels = levels.sort_values()
        except TypeError:  # levels of several types
            levels = levels[np.argsort([f"{type(level).__name__} {level}" for level in levels], kind="stable")]
        native = native.cat.reorder_categories(levels)
    return cast(nw.Series[Any], nw.from_native(native, series_only=True).alias(series.name))


def _recoded(column: pa.ChunkedArray, levels: pa.Array | None = None) -> pa.ChunkedArray:
    """An Arrow dictionary column with these levels, or with those that occur."""
    import pyarrow as pa

    whole = column.unify_dictionaries().combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.chunk(0) if whole.num_chunks else pa.nulls(0, column.type)
    before, codes = whole.dictionary, whole.indices
    if levels is None:
        used = np.zeros(len(before), dtype=bool)
        used[numpy_array(codes.drop_null())] = True
        levels = _distinct(before.filter(arrow_array(used))).drop_null()
        levels = levels if column.type.ordered else _ascending(levels)
    places = _places(before, levels).take(codes).cast(column.type.index_type)
    return pa.chunked_array([pa.DictionaryArray.from_arrays(places, levels, ordered=column.type.ordered)])


def _distinct(values: pa.Array) -> pa.Array:
    """The values, each once, in the order of their first occurrence."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.unique(values)
    except pa.ArrowNotImplementedError:  # a type that Arrow does not compare
        return pa.array(list(dict.fromkeys(values.to_pylist())), values.type)


def _places(values: pa.Array, levels: pa.Array) -> pa.Array:
    """(values,) place of each value among the levels; null for a null and for a value that is not among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return pc.index_in(values, value_set=levels)
    except pa.ArrowNotImplementedError:
        known = {level: at for at, level in enumerate(levels.to_pylist())}
        return pa.array([None if value is None else known.get(value) for value in values.to_pylist()], pa.int32())


def _ascending(levels: pa.Array) -> pa.Array:
    """The levels in an order that says nothing of the rows."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        return levels.take(pc.sort_indices(levels))
    except pa.ArrowNotImplementedError:  # a type that Arrow does not sort
        order = sorted(range(len(levels)), key=lambda at: str(levels[at]))
        return pa.array([levels[at].as_py() for at in order], levels.type)


def _holds_dictionary(type_: pa.DataType) -> bool:
    """Whether a nested type has a dictionary inside."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        return True
    if not pa.types.is_nested(type_):
        return False
    return any(_holds_dictionary(type_.field(at).type) for at in range(type_.num_fields))


def common_levels(
    pieces: Iterable[Table], declared: Mapping[str, Sequence[Any] | None], ordered_only: bool
) -> dict[str, pa.Array]:
    """The levels of dictionary columns in all pieces of a release together; empty for a release of one piece.

    declared     : column → its levels in their order, for ordered columns
    ordered_only : leave out columns without an order, which need no common levels
    """
    import pyarrow as pa

    found: dict[str, list[pa.Array]] = {}
    ordered: dict[str, bool] = {}
    for piece in pieces:
        arrow = piece.to_arrow()
        types = {field.name: field.type for field in arrow.schema if pa.types.is_dictionary(field.type)}
        ordered = {name: type_.ordered for name, type_ in types.items() if type_.ordered or not ordered_only}
        if not ordered:
            return {}
        for name in ordered:
            found.setdefault(name, []).append(_recoded(arrow[name]).chunk(0).dictionary)
    return {name: _union(parts, declared.get(name), ordered[name]) for name, parts in found.items() if len(parts) > 1}


def _union(levels: Sequence[pa.Array], declared: Sequence[Any] | None, ordered: bool) -> pa.Array:
    """The levels of several pieces, each once: ascending, or in the declared order."""
    import pyarrow as pa

    whole = _distinct(pa.concat_arrays(levels))
    if not ordered:
        return _ascending(whole)
    rank = {level: at for at, level in enumerate(declared or ())}
    values = whole.to_pylist()
    order = sorted(range(len(values)), key=lambda at: rank.get(values[at], len(rank)))
    return whole.take(arrow_array(order, pa.int64()))


def with_levels(table: pa.Table, levels: Mapping[str, pa.Array]) -> pa.Table:
    """The table with these levels in its dictionary columns."""
    for name, values in levels.items():
        at = table.column_names.index(name)
        table = table.set_column(at, table.schema.field(at), _recoded(table.column(at), values))
    return table
