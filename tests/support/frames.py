"""Tables with every column type, as every kind of dataframe: the cases of the table tests."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
from hypothesis import strategies as st

KINDS = ("pyarrow", "pandas", "pandas nullable", "pandas arrow", "polars")

_NULLABLE = {
    pa.int8(): pd.Int8Dtype(),
    pa.int16(): pd.Int16Dtype(),
    pa.int64(): pd.Int64Dtype(),
    pa.uint64(): pd.UInt64Dtype(),
    pa.float32(): pd.Float32Dtype(),
    pa.float64(): pd.Float64Dtype(),
    pa.bool_(): pd.BooleanDtype(),
    pa.string(): pd.StringDtype(),
}

VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "int8": (pa.int8(), st.integers(-128, 127)),
    "int16": (pa.int16(), st.integers(-300, 300)),
    "int64": (pa.int64(), st.integers(-(2**40), 2**40)),
    "uint64": (pa.uint64(), st.integers(0, 2**44)),
    "float32": (pa.float32(), st.integers(-(10**5), 10**5).map(lambda i: i / 128)),
    "short float": (pa.float64(), st.integers(-(10**7), 10**7).map(lambda i: i / 1000)),
    "bool": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.sampled_from(["", "a", "b b", "ü", "NA", "a longer text"])),
    "dictionary": (pa.dictionary(pa.int32(), pa.string()), st.sampled_from(["north", "south", "öst"])),
    "date": (pa.date32(), st.dates(dt.date(1900, 1, 1), dt.date(2100, 1, 1))),
    "moment": (pa.timestamp("us"), st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2050, 1, 1))),
    "zoned": (
        pa.timestamp("us", "UTC"),
        st.datetimes(dt.datetime(1950, 1, 1), dt.datetime(2050, 1, 1), timezones=st.just(dt.UTC)),
    ),
    "length": (pa.duration("us"), st.timedeltas(dt.timedelta(0), dt.timedelta(days=400))),
}


@st.composite
def arrow_tables(draw: st.DrawFn, most: int = 12, nulls: bool = True) -> pa.Table:
    """A table of up to `most` rows with one column of every type in `VALUES`."""
    rows = draw(st.integers(0, most))
    columns = {}
    for name, (type_, values) in VALUES.items():
        cells = st.one_of(st.none(), values) if nulls else values
        column = draw(st.lists(cells, min_size=rows, max_size=rows))
        columns[name] = _array(column, type_)
    return pa.table(columns)


def as_kind(table: pa.Table, kind: str) -> Any:
    """The same table as another kind of dataframe."""
    if kind == "pyarrow":
        return table
    if kind == "polars":
        return pl.from_arrow(table)
    if kind == "pandas nullable":
        return table.to_pandas(types_mapper=_NULLABLE.get)
    if kind == "pandas arrow":
        return table.to_pandas(types_mapper=pd.ArrowDtype)
    return table.to_pandas()


def same(one: Any, other: Any) -> bool:
    """Whether two dataframes are equal: kind, names, types, categories and every value to the bit."""
    if type(one) is not type(other):
        return False
    if isinstance(one, pd.DataFrame):
        pd.testing.assert_frame_equal(one, other, check_exact=True)
        return True
    if isinstance(one, pl.DataFrame):
        return bool(one.schema == other.schema and one.equals(other, null_equal=True))
    return bool(one.schema == other.schema and _values(one) == _values(other))


def _values(table: pa.Table) -> Any:
    """Values, with the dictionary if there is one."""
    found = []
    for column in table.columns:
        column = column.combine_chunks()
        found.append(
            (column.to_pylist(), column.dictionary.to_pylist() if pa.types.is_dictionary(column.type) else None)
        )
    return found


def _array(values: list[Any], type_: pa.DataType) -> pa.Array:
    if not pa.types.is_dictionary(type_):
        return pa.array(values, type_)
    levels = ["unused", "south", "north", "öst"]
    codes = [None if value is None else levels.index(value) for value in values]
    return pa.DictionaryArray.from_arrays(pa.array(codes, type_.index_type), pa.array(levels))


def example_table(rows: int = 40, nulls: bool = True) -> pa.Table:
    """One fixed table with every type, nulls and repeated values."""
    rng = np.random.default_rng(5)
    columns = {}
    for name, (type_, _) in VALUES.items():
        gaps = rng.random(rows) < (0.2 if nulls else -1)
        columns[name] = _array([None if gap else _cell(name, rng) for gap in gaps], type_)
    return pa.table(columns)


def _cell(name: str, rng: np.random.Generator) -> Any:
    number = int(rng.integers(0, 100))
    return {
        "bool": number % 2 == 0,
        "text": ["", "a", "ü"][number % 3],
        "dictionary": ["north", "south", "öst"][number % 3],
        "date": dt.date(2000, 1, 1) + dt.timedelta(days=number),
        "moment": dt.datetime(2000, 1, 1, 12) + dt.timedelta(minutes=number),
        "zoned": dt.datetime(2000, 1, 1, 12, tzinfo=dt.UTC) + dt.timedelta(microseconds=number),
        "length": dt.timedelta(seconds=number),
        "short float": number / 10,
        "float32": number / 8,
    }.get(name, number)
