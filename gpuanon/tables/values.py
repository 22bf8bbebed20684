"""The values of an Arrow column: their family, as NumPy arrays, the distinct ones and their places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.tables.arrow import arrow_scalar, numpy_array

if TYPE_CHECKING:
    import pyarrow as pa

Family: TypeAlias = Literal["number", "time", "text", "flag", "levels", "nothing", "other"]
"""What a type represents: numbers, times or durations, text, booleans, a fixed set of levels that are not text, only
nulls, or values that cannot be encoded."""


def value_type(type_: pa.DataType) -> pa.DataType:
    """The type of the values: of a dictionary type its value type, else the type itself."""
    import pyarrow as pa

    return type_.value_type if pa.types.is_dictionary(type_) else type_


def family(type_: pa.DataType) -> Family:
    """The family of an Arrow type."""
    import pyarrow as pa

    if pa.types.is_dictionary(type_):
        # Numbers stored as categories are levels: a value that is not among them could not be stored.
        found = family(type_.value_type)
        return "levels" if found in ("number", "time", "flag") else found
    t, types = type_, pa.types
    if types.is_boolean(t):
        return "flag"
    if types.is_integer(t) or types.is_floating(t) or types.is_decimal(t):
        return "number"
    if types.is_date(t) or types.is_timestamp(t) or types.is_time(t) or types.is_duration(t):
        return "time"
    if types.is_string(t) or types.is_large_string(t) or types.is_string_view(t):
        return "text"
    return "nothing" if types.is_null(t) else "other"


def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column without its dictionary."""
    return column.cast(value_type(column.type)) if value_type(column.type) != column.type else column


def floats(column: pa.ChunkedArray) -> Host:
    """(n,) float64, NaN where null: numbers as they are, booleans 0 and 1, times as `ticks`."""
    import pyarrow as pa

    column = plain(column)
    if family(column.type) == "time":
        column = ticks(column)
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    return numpy_array(column.cast(pa.float64(), safe=False))


def ticks(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as whole numbers of the type's own unit (days, seconds, …, nanoseconds)."""
    import pyarrow as pa

    narrow = column.type.bit_width == 32
    return column.cast(pa.int32()).cast(pa.int64()) if narrow else column.cast(pa.int64())


def null_mask(column: pa.ChunkedArray) -> Host:
    """(n,) True where null; NaN counts as null."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        chunks = [pc.is_null(chunk.dictionary, nan_is_null=True).take(chunk.indices) for chunk in column.chunks]
        flags = pc.fill_null(pa.chunked_array(chunks, type=pa.bool_()), arrow_scalar(True, pa.bool_()))
    else:
        flags = pc.is_null(column, nan_is_null=True)
    return numpy_array(flags)


NULL = -1
"""The code of a null."""


def distinct(columns: Sequence[pa.ChunkedArray]) -> pa.Array:
    """The distinct values of columns of one type, ascending, without null and NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [_comparable(column) for column in columns]
    chunks = [chunk for column in columns for chunk in _smallest(column)]
    values = pc.unique(pa.chunked_array(chunks, type=value_type(columns[0].type)))
    values = values.filter(pc.invert(pc.is_null(values, nan_is_null=True)))
    return values if pa.types.is_null(values.type) else values.take(pc.sort_indices(values))


def lookup(column: pa.ChunkedArray, levels: pa.Array) -> Host:
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
