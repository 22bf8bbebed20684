"""Interval columns: one released column whose values are intervals, both ends included.

In Arrow and polars, and in every file that can hold it, the column is a structure with the fields `low` and `high`; in
pandas it is an `IntervalArray`, closed on both sides, where pandas has one for the type, else an Arrow structure.  An
interval without ends is null.  Ordered levels are the text of their values: a structure has no dictionary of its own
that could keep levels which are not released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import narwhals as nw
import numpy as np

from gpuanon.tables.native import to_arrow
from gpuanon.tables.table import Table
from gpuanon.tables.values import plain

if TYPE_CHECKING:
    import pyarrow as pa

Series = nw.Series[Any]


def is_interval(type_: pa.DataType) -> bool:
    """Whether an Arrow type is that of an interval column."""
    import pyarrow as pa

    if not pa.types.is_struct(type_) or [field.name for field in type_] != ["low", "high"]:
        return False
    return bool(type_.field(0).type == type_.field(1).type)


def interval_column(low: Series, high: Series, name: str) -> Series:
    """One column of two, of the same library."""
    import pyarrow as pa

    native: Any
    if _in_pandas(low) and _in_pandas(high):
        import pandas as pd

        ends = [end.to_native().reset_index(drop=True) for end in (low, high)]
        native = pd.Series(pd.arrays.IntervalArray.from_arrays(ends[0], ends[1], closed="both"))
    else:
        joined = _structure(to_arrow(low), to_arrow(high))
        if low.implementation.is_polars():
            import polars as pl

            native = pl.Series(name, pl.from_arrow(joined))
        elif low.implementation.is_pandas_like():
            import pandas as pd

            native = pd.Series(joined, dtype=pd.ArrowDtype(joined.type))
        else:
            native = pa.chunked_array([joined])
    return cast(Series, nw.from_native(native, series_only=True, allow_series=True).alias(name))


def ends_of(column: pa.ChunkedArray) -> tuple[pa.ChunkedArray, pa.ChunkedArray] | None:
    """The low and the high ends of an interval column; None for another column."""
    import pyarrow as pa

    type_ = column.type
    if getattr(type_, "extension_name", "") == "pandas.interval" and getattr(type_, "closed", "") == "both":
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], type=type_.storage_type)
    elif not is_interval(type_):
        return None
    low, high = column.flatten()  # a null interval has null ends
    return low, high


def with_ends(table: Table) -> Table:
    """The table with columns NAME_low and NAME_high in place of each interval column NAME."""
    import pyarrow as pa

    found = {name: ends_of(table.arrow(name)) for name in table.names if _may_be_interval(table.series(name))}
    apart = {name: ends for name, ends in found.items() if ends is not None}
    if not apart:
        return table
    columns: dict[str, pa.ChunkedArray] = {}
    for name in table.names:
        if name in apart:
            columns |= dict(zip((f"{name}_low", f"{name}_high"), apart[name], strict=True))
        else:
            columns[name] = table.arrow(name)
    return Table.of(pa.table(columns))


def as_structures(table: Table) -> Table:
    """The table with its interval columns as Arrow structures, whatever library they are of."""
    import pyarrow as pa

    found = {name: ends_of(table.arrow(name)) for name in table.names if _may_be_interval(table.series(name))}
    columns = {
        name: table.arrow(name) if (ends := found.get(name)) is None else pa.chunked_array([_structure(*ends)])
        for name in table.names
    }
    return Table.of(pa.table(columns))


def _structure(low: pa.ChunkedArray, high: pa.ChunkedArray) -> pa.StructArray:
    """Both ends as one array; null where both are."""
    import pyarrow as pa
    import pyarrow.compute as pc

    ends = [_whole(plain(end)) for end in (low, high)]
    none = pc.and_(pc.is_null(ends[0]), pc.is_null(ends[1]))
    return pa.StructArray.from_arrays(ends, ["low", "high"], mask=none)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """The column as one array."""
    import pyarrow as pa

    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, column.type)


def _may_be_interval(series: Series) -> bool:
    """Whether the type, as far as narwhals knows it, can be that of an interval column."""
    return isinstance(series.dtype, nw.Struct) or series.dtype == nw.Unknown


def _in_pandas(low: Series) -> bool:
    """Whether pandas has intervals of this type: of NumPy's numbers and moments."""
    if not low.implementation.is_pandas():
        return False
    dtype = low.to_native().dtype
    return isinstance(dtype, np.dtype) and dtype.kind in "iufM"
