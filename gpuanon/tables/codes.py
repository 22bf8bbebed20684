"""Equal values, equal codes: columns as whole numbers, for equivalence classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.threads import each
from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array, arrow_scalar, numpy_array
from gpuanon.tables.hierarchy import Hierarchy, value_texts
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats, plain, value_type

if TYPE_CHECKING:
    import pyarrow as pa

NULL = -1
"""The code of a null."""
_EXACT = 2.0**53


def level_codes(tables: Sequence[Table], columns: Sequence[str]) -> list[np.ndarray[Any, Any]]:
    """(n, columns) int64 codes of each table, common to all of them.

    The code of a value is its rank among the distinct values of its column in all tables together; a null (or NaN)
    has the code `NULL`.
    """
    import pyarrow as pa

    codes = [np.empty((table.n_rows, len(columns)), dtype=np.int64) for table in tables]

    def fill(number: int) -> None:
        arrays = _aligned([table.arrow(columns[number]) for table in tables], columns[number])
        if pa.types.is_float64(arrays[0].type):
            for out, found in zip(codes, _float_codes(arrays), strict=True):
                out[:, number] = found
            return
        levels = distinct(arrays)
        for out, array in zip(codes, arrays, strict=True):
            out[:, number] = lookup(array, levels)

    each(fill, range(len(columns)))
    return codes


def _float_codes(columns: Sequence[pa.ChunkedArray]) -> list[np.ndarray[Any, Any]]:
    """Codes of columns of float64, by one sort: nearly every value is a distinct one, for which hashes are slower."""
    import pyarrow.compute as pc

    filled = [pc.fill_null(column, arrow_scalar(np.nan, column.type)) for column in columns]
    values = [numpy_array(column) for column in filled]
    together = np.concatenate(values) + 0.0  # −0.0 is 0.0
    ranks = np.unique(together, return_inverse=True)[1].reshape(-1)
    ranks[np.isnan(together)] = NULL
    return np.split(ranks, np.cumsum([len(side) for side in values])[:-1])


@dataclass(frozen=True, eq=False, repr=False)
class ColumnCodes:
    """A column as whole numbers.

    codes     : (n,) int64 rank of each value among `values`; `NULL` for a null
    values    : the distinct values in their order
    ancestors : (values, depth + 1) int64 code of each value's ancestor at each depth of its hierarchy
    names     : text of the nodes at each depth from 1
    hierarchy : of the column, or None
    """

    codes: np.ndarray[Any, Any]
    values: pa.Array
    ancestors: np.ndarray[Any, Any]
    names: tuple[pa.Array, ...] = ()
    hierarchy: Hierarchy | None = None

    def labels(self, depth: int | None) -> pa.Array:
        """Text of the nodes at this depth, at depth 0 of the values themselves; None: of all depths, one by one."""
        import pyarrow as pa

        if depth is None:
            return pa.concat_arrays([self.labels(at).cast(pa.string()) for at in range(len(self.names) + 1)])
        return self.names[depth - 1] if depth else arrow_array(value_texts(self.values), pa.string())

    def numbers(self) -> np.ndarray[Any, Any] | None:
        """(values,) float64 of numbers and times; None for other values, and for those that float64 does not hold."""
        if family(self.values.type) not in ("number", "time"):
            return None
        numbers = floats(chunked(self.values))
        return numbers if float(np.abs(numbers).max(initial=0.0)) < _EXACT else None

    def shares(self) -> np.ndarray[Any, Any]:
        """(values, depth + 1) share of the hierarchy's leaves below each value's ancestor at each depth.

        Without a hierarchy each value is a leaf.
        """
        if self.hierarchy is None:
            return np.full((len(self.values), 1), 1 / max(len(self.values), 1))
        return self.hierarchy.shares(self.values)


def chunked(values: pa.Array) -> pa.ChunkedArray:
    """An array as a column of one chunk."""
    import pyarrow as pa

    return pa.chunked_array([values])


def in_order(values: pa.Array, levels: Sequence[Any] | None) -> pa.Array:
    """The distinct `values`, in the order of the schema's `levels` if it has any."""
    import pyarrow as pa

    if levels is None or pa.types.is_null(values.type):
        return values
    order = lookup(pa.chunked_array([arrow_array(levels).cast(values.type)]), values)
    return values.take(arrow_array(order[order >= 0]))


def column_codes(
    table: Table, schema: Schema, name: str, hierarchy: Hierarchy | None = None, values: pa.Array | None = None
) -> ColumnCodes:
    """The codes of one column; ordered levels have the order of the schema.

    values : those of the whole table, where codes are to be the same in all cells; None: those that occur here
    """
    data = table.arrow(name)
    if values is None:
        values = in_order(distinct([data]), schema[name].levels)
    if hierarchy is None:
        ancestors, names = np.arange(len(values), dtype=np.int64)[:, None], ()
    else:
        ancestors, names = hierarchy.ancestors(values)
        names = names[1:]
    return ColumnCodes(lookup(data, values), values, ancestors, names, hierarchy)


def distinct(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The distinct values of columns of one type, ascending, without null and NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [_comparable(column) for column in columns]
    chunks = [chunk for column in columns for chunk in _smallest(column)]
    values = pc.unique(pa.chunked_array(chunks, type=value_type(columns[0].type)))
    values = values.filter(pc.invert(pc.is_null(values, nan_is_null=True)))
    return values if pa.types.is_null(values.type) else values.take(pc.sort_indices(values))


def lookup(column: pa.ChunkedArray, levels: pa.Array) -> np.ndarray[Any, Any]:
    """(n,) int64 position of each value in `levels`, -1 where it is null or not among them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _comparable(column)
    levels = levels.cast(value_type(column.type))
    if len(column) == 0 or len(levels) == 0:
        return np.full(len(column), NULL, dtype=np.int64)
    if pa.types.is_dictionary(column.type):
        places = [pc.index_in(chunk.dictionary, value_set=levels).take(chunk.indices) for chunk in column.chunks]
        found = pa.chunked_array(places, type=pa.int32())
    else:
        found = pc.index_in(column, value_set=levels)
    return np.asarray(numpy_array(pc.fill_null(found, arrow_scalar(NULL, found.type))), dtype=np.int64)


def _smallest(column: pa.ChunkedArray) -> list[pa.Array]:
    """Arrays that hold every value that occurs, repetitions dropped where that is free."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        return [chunk.dictionary.take(pc.unique(chunk.indices)) for chunk in column.chunks]
    return list(column.chunks)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Floats with one zero (-0.0 is 0.0 in other bits), and numbers of a width that Arrow can sort."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_decimal32(column.type) or pa.types.is_decimal64(column.type):
        return column.cast(pa.decimal128(column.type.precision, column.type.scale))
    if pa.types.is_float16(column.type):
        column = column.cast(pa.float32())
    return pc.add(column, arrow_scalar(0.0, column.type)) if pa.types.is_floating(column.type) else column


def _aligned(columns: Sequence[pa.ChunkedArray], name: str) -> list[pa.ChunkedArray]:
    """The columns in one type: their own when they agree, a common one for numbers or text."""
    import pyarrow as pa

    types = {value_type(column.type) for column in columns}
    if len(types) == 1:
        return list(columns)
    families = {family(type_) for type_ in types} - {"nothing"}
    common = {"number": pa.float64(), "text": pa.large_string(), "time": pa.timestamp("ns")}
    if len(families) != 1 or not families <= set(common):
        raise InputError(f"column {name!r}: the tables hold different types, {' and '.join(sorted(map(str, types)))}")
    wanted = common[families.pop()]
    return [plain(column).cast(wanted) for column in columns]
