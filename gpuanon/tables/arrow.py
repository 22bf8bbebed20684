"""Arrow arrays and scalars from values of NumPy and Python, and back, without pandas.

Wherever pandas is installed, ``pyarrow.array`` and ``pyarrow.scalar`` import it to see whether they were given one of
its objects, Arrow's functions do for a NumPy array, a number or a text among their arguments, and ``to_numpy`` always.
A command that masks a small table would spend a fifth of its time on that.  What is made here from buffers is equal to
what they return.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host

if TYPE_CHECKING:
    import pyarrow as pa


_TYPES = {bool: np.bool_, int: np.int64, float: np.float64}


def arrow_array(values: Host | Sequence[Any], type_: pa.DataType | None = None, null: Host | None = None) -> pa.Array:
    """The values as an Arrow array, equal to ``pyarrow.array(values, type_, mask=null)``.

    Numbers of NumPy share their memory.  What is neither a plain array of numbers or truth values nor a sequence of
    nothing but texts, whole numbers, floats or truth values goes to ``pyarrow.array``.

    values : (n,) array, or n values
    type_  : of the result; by default as the values are
    null   : (n,) bool, which of an array are null
    """
    import pyarrow as pa

    if null is None and not isinstance(values, np.ndarray):
        found = _from_sequence(values)
    else:
        found = _from_numpy(values, null)
    if found is None:
        return pa.array(values, type_, mask=null)
    return found if type_ is None or found.type == type_ else found.cast(type_)


def arrow_scalar(value: bool | float | str | None, type_: pa.DataType) -> pa.Scalar:
    """The value as a scalar of this type, for Arrow's functions."""
    import pyarrow as pa

    return (pa.nulls(1, type_) if value is None else arrow_array([value], type_))[0]


def empty_table(schema: pa.Schema) -> pa.Table:
    """A table of these columns without rows, equal to ``schema.empty_table()``."""
    import pyarrow as pa

    return pa.Table.from_arrays([pa.nulls(0, field.type) for field in schema], schema=schema)


def numpy_array(column: pa.Array | pa.ChunkedArray) -> Host:
    """(n,) the values for NumPy, equal to ``column.to_numpy(zero_copy_only=False)``; not to be written to.

    Numbers in one piece without nulls share their memory; a null among floats is NaN.  What is neither floats nor whole
    numbers or truth values without nulls goes to Arrow's own function.
    """
    import pyarrow as pa

    type_ = column.type
    floating = pa.types.is_floating(type_)
    if not (floating or pa.types.is_integer(type_) or pa.types.is_boolean(type_)) or (
        column.null_count and not floating
    ):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    chunks = [column] if isinstance(column, pa.Array) else column.chunks
    found = [_chunk_values(chunk) for chunk in chunks]
    return found[0] if len(found) == 1 else np.concatenate([np.empty(0, type_.to_pandas_dtype()), *found])


def _chunk_values(chunk: pa.Array) -> Host:
    """The values of one piece of a column of numbers or truth values; NaN where null."""
    import pyarrow as pa

    valid, data = chunk.buffers()
    dtype = np.dtype(chunk.type.to_pandas_dtype())
    if len(chunk) == 0 or data is None:
        return np.full(len(chunk), np.nan if dtype.kind == "f" else 0, dtype)
    if pa.types.is_boolean(chunk.type):
        return _flags(data, chunk.offset, len(chunk))
    values: Host = np.frombuffer(data, dtype, len(chunk), chunk.offset * dtype.itemsize)
    if valid is None or chunk.null_count == 0:
        return values
    return np.where(_flags(valid, chunk.offset, len(chunk)), values, dtype.type(np.nan))


def _from_numpy(values: Any, null: Host | None) -> pa.Array | None:
    """An array of numbers or truth values over the same memory; None for any other."""
    import pyarrow as pa

    plain = type(values) is np.ndarray and values.ndim == 1 and values.dtype.isnative and values.dtype.kind in "biuf"
    if not plain or (null is not None and null.shape != values.shape):
        return None
    valid = None if null is None or not null.any() else _bitmap(~null)
    data = _bitmap(values) if values.dtype == bool else pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [valid, data])


def _from_sequence(values: Sequence[Any]) -> pa.Array | None:
    """An array of values that are all texts, whole numbers, floats or truth values; None for any other."""
    import pyarrow as pa

    kinds = {type(value) for value in values}
    if kinds == {str}:
        texts = [value.encode() for value in values]
        ends = np.cumsum([0, *map(len, texts)], dtype=np.int64)
        buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
        return pa.Array.from_buffers(pa.large_string(), len(texts), buffers).cast(pa.string())
    if not kinds:
        return pa.nulls(0)
    kind = _TYPES.get(kinds.pop()) if len(kinds) == 1 else None
    return None if kind is None else _from_numpy(np.array(values, kind), None)


def _bitmap(flags: Host) -> pa.Buffer:
    """Truth values as Arrow stores them: one bit each, the lowest first."""
    import pyarrow as pa

    return pa.py_buffer(np.packbits(flags, bitorder="little"))


def _flags(bitmap: pa.Buffer, offset: int, length: int) -> Host:
    """The inverse of `_bitmap`, of `length` values from `offset` on."""
    first = offset // 8
    bits = np.frombuffer(bitmap, np.uint8)[first:]
    return np.unpackbits(bits, count=offset - 8 * first + length, bitorder="little")[offset - 8 * first :].view(bool)
