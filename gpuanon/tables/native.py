"""Convert columns of any dataframe to Arrow, and Arrow back to a column of the same library and type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import numpy as np

from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array, arrow_scalar, numpy_array
from gpuanon.tables.values import family

if TYPE_CHECKING:
    import pyarrow as pa

Series = nw.Series[Any]

# Results of pandas' infer_dtype for columns of Python objects with one type of value.
_UNIFORM = frozenset(
    {"string", "integer", "floating", "mixed-integer-float", "boolean", "decimal"}
    | {"date", "time", "timedelta", "datetime", "empty"}
)


def open_batches(data: Any) -> pa.RecordBatchReader | None:
    """Arrow batches of data that are not in memory; None of those that are.

    A `RecordBatchReader`, an iterator of batches, a DuckDB relation, a lazy frame of polars, a Dask dataframe, and
    lazy frames of narwhals over these.
    """
    import pyarrow as pa

    if isinstance(data, nw.LazyFrame):
        return open_batches(data.to_native())
    if isinstance(data, pa.RecordBatchReader):
        return data
    if hasattr(data, "to_arrow_reader"):  # DuckDB
        return cast("pa.RecordBatchReader", data.to_arrow_reader(1 << 17))
    if hasattr(data, "npartitions") and hasattr(data, "get_partition"):  # Dask
        parts = (data.get_partition(number).compute() for number in range(data.npartitions))
        return _reader_of(pa.Table.from_pandas(part, preserve_index=False) for part in parts)
    if hasattr(data, "collect_batches"):  # polars
        return _reader_of(frame.to_arrow() for frame in data.collect_batches(maintain_order=True))
    return _reader_of(data) if isinstance(data, Iterator) else None


def _reader_of(pieces: Iterable[Any]) -> pa.RecordBatchReader:
    """Arrow tables or batches as a reader; all have the schema of the first, apart from metadata."""
    import pyarrow as pa

    left = iter(pieces)
    first = next(left, None)
    if not isinstance(first, (pa.Table, pa.RecordBatch)):
        raise InputError("data: an iterator has to give Arrow batches, at least one")
    schema = first.schema.remove_metadata()

    def batches() -> Iterator[pa.RecordBatch]:
        for piece in chain([first], left):
            table = piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece])
            yield from table.replace_schema_metadata(None).cast(schema).to_batches()

    return pa.RecordBatchReader.from_batches(schema, batches())


def collected(data: Any) -> Any:
    """The dataframe in memory: of a lazy one the eager kind of its library, of other batches an Arrow table."""
    if isinstance(data, nw.DataFrame):
        return data.to_native()
    if isinstance(data, nw.LazyFrame):
        return collected(data.to_native())
    if hasattr(data, "collect_batches"):  # polars
        return data.collect()
    if hasattr(data, "npartitions") and hasattr(data, "compute"):  # Dask
        return data.compute()
    batches = open_batches(data)
    return data if batches is None else batches.read_all()


def to_arrow(series: Series) -> pa.ChunkedArray:
    """The column as Arrow.  A column of Python objects must hold one type of value."""
    import pyarrow as pa

    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return native
    if series.implementation.is_pandas_like() and _objects(native):
        _check_one_type(native, series.name)
    try:
        return pa.chunked_array([series.to_arrow()])
    except (
        pa.ArrowException,
        TypeError,
        ValueError,
        ArithmeticError,
        NotImplementedError,
    ):  # they quote values
        raise InputError(
            f"column {series.name!r}: its values cannot be read (type {_type_name(native)})",
            hint="make them all numbers, all text or all dates, or leave the column out",
        ) from None


def column_type(series: Series) -> tuple[pa.DataType, tuple[Any, ...] | None]:
    """The Arrow type of the column, and its levels if it is an ordered categorical."""
    import pyarrow as pa

    native = series.to_native()
    whole = isinstance(native, pa.ChunkedArray) or (series.implementation.is_pandas_like() and _objects(native))
    arrow = to_arrow(series if whole else series.head(0))
    if not (pa.types.is_dictionary(arrow.type) and arrow.type.ordered):
        return arrow.type, None
    levels = arrow.chunk(0).dictionary if arrow.num_chunks else pa.nulls(0, arrow.type.value_type)
    return arrow.type, tuple(levels.to_pylist()) or None if family(levels.type) in ("text", "number") else None


def from_arrow(values: pa.Array, like: Series) -> Series:
    """`values` as a column of the library, type and name of `like`."""
    implementation = like.implementation
    if implementation.is_pyarrow():
        return _wrap(_arrow_column(values, like.to_native().type), like)
    if implementation.is_polars():
        import polars as pl

        return _wrap(pl.Series(like.name, pl.from_arrow(values)).cast(like.to_native().dtype), like)
    if implementation.is_pandas():
        return _wrap(_pandas_column(values, like.to_native()), like)
    return nw.new_series(like.name, values.to_pylist(), like.dtype, backend=implementation)


def one_zero(series: Series) -> Series:
    """The column with 0.0 in place of −0.0, and one null in place of every NaN: masks do not tell them apart.

    pandas' own floats have no null but NaN; they keep it, in one pattern of bits.
    """
    import pyarrow as pa

    native = series.to_native()
    if isinstance(native, pa.ChunkedArray):
        return _wrap(without_nan(native), series)
    if series.dtype not in (nw.Float64, nw.Float32) and getattr(native.dtype, "kind", "") != "f":
        return series
    if series.implementation.is_pandas_like() and isinstance(native.dtype, np.dtype):
        values = native.to_numpy() + native.dtype.type(0)
        values[np.isnan(values)] = np.nan
        return _wrap(type(native)(values), series)
    whole = without_nan(to_arrow(series)).combine_chunks()
    return from_arrow(whole, series)


def without_nan(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """An Arrow column of floats, or of a dictionary of floats, with one zero and without NaN; others as they are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    type_ = column.type
    if pa.types.is_dictionary(type_) and pa.types.is_floating(type_.value_type):
        chunks = [
            pa.DictionaryArray.from_arrays(
                chunk.indices, without_nan(pa.chunked_array([chunk.dictionary])).combine_chunks(), ordered=type_.ordered
            )
            for chunk in column.chunks
        ]
        return pa.chunked_array(chunks, type=type_)
    if not pa.types.is_floating(type_) or (pa.types.is_float64(type_) and all(map(_has_one_zero, column.chunks))):
        return column
    wide = column.cast(pa.float32()) if pa.types.is_float16(type_) else column
    wide = pc.add(wide, arrow_scalar(0.0, wide.type))
    nans = pc.is_nan(wide)
    wide = pc.if_else(nans, arrow_scalar(None, wide.type), wide) if pc.any(nans).as_py() else wide
    return wide.cast(type_)


def _has_one_zero(chunk: pa.Array) -> bool:
    """Whether these float64 hold neither −0.0 nor NaN; False where this would take as long as a copy without them."""
    if chunk.null_count:
        return False
    values = numpy_array(chunk)
    return len(values) == 0 or not (np.isnan(values.min()) or bool((values == 0.0).any()))


def text_series(values: pa.Array, like: Series) -> Series:
    """`values`, which are text, as a column of the kind (not the type) of `like`."""
    import pyarrow as pa

    implementation = like.implementation
    if implementation.is_pyarrow():
        return _wrap(pa.chunked_array([values]), like)
    if implementation.is_polars():
        import polars as pl

        return _wrap(pl.Series(like.name, pl.from_arrow(values)), like)
    return nw.new_series(like.name, values.to_pylist(), nw.String, backend=implementation)


def gather(series: Series, rows: Any) -> Series:
    """The values of these rows, in the column's own type."""
    if series.implementation.is_pandas_like():
        return _wrap(series.to_native().take(rows).reset_index(drop=True), series)
    if series.implementation.is_pyarrow():
        return _wrap(series.to_native().take(arrow_array(rows)), series)
    return cast(Series, series[rows])


def _wrap(native: Any, like: Series) -> Series:
    """A native column as a narwhals series with the name of `like`."""
    return cast(Series, nw.from_native(native, series_only=True, allow_series=True).alias(like.name))


def _type_name(native: Any) -> str:
    """The name of a column's type; not `str(dtype)`, which lists the categories of a categorical."""
    dtype = getattr(native, "dtype", None)
    return dtype.name if isinstance(dtype, np.dtype) else type(dtype).__name__


def _objects(native: Any) -> bool:
    """Whether a pandas column holds Python objects."""
    return bool(native.dtype == object)


def _check_one_type(native: Any, name: str) -> None:
    """Raise for a column of Python objects of several types (Arrow's own error message would quote a value)."""
    import pandas as pd

    found = pd.api.types.infer_dtype(native, skipna=True)
    if found == "date" and native.dropna().map(type).nunique() > 1:  # a datetime is also a date, and would be truncated
        found = "mixed"
    if found not in _UNIFORM:
        raise InputError(
            f"column {name!r}: one type of value in a column is allowed, found {found.replace('-', ' ')} values",
            hint="make them all numbers or all text (pandas: df[column].astype(str))",
        )


def _arrow_column(values: pa.Array, wanted: pa.DataType) -> pa.ChunkedArray:
    """Cast to the Arrow type, dictionaries included."""
    import pyarrow as pa

    if pa.types.is_dictionary(wanted):
        return pa.chunked_array([values.dictionary_encode().cast(wanted)])
    return pa.chunked_array([values if values.type == wanted else values.cast(wanted)])


def _pandas_column(values: pa.Array, like: Any) -> Any:
    """A pandas column of the dtype of `like`."""
    import pandas as pd

    dtype = like.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        return pd.Series(pd.Categorical(values.to_pylist(), dtype=dtype))
    if _objects(like):
        return pd.Series(values.to_pylist(), dtype=object)
    if hasattr(dtype, "__from_arrow__"):  # nullable, Arrow-backed, string and time zone types
        return pd.Series(dtype.__from_arrow__(values))
    if values.null_count and dtype.kind in "iub":  # numbers of this type have no null; their nullable twin has
        nullable = (
            "boolean"
            if dtype.kind == "b"
            else pd.api.types.pandas_dtype(dtype.name.replace("i", "I").replace("uI", "UI"))
        )
        return pd.Series(values.to_pylist(), dtype=nullable)
    return pd.Series(values.to_numpy(zero_copy_only=False)).astype(dtype)
