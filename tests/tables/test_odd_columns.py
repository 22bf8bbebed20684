"""Rare column types are masked and returned in their own type, or refused with a message, never by a raw exception."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from gpuanon.errors import GpuanonError
from gpuanon.tables.encoding import Encoding
from gpuanon.tables.formats import io
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from tests.support.frames import same

DAYS = [dt.date(2020, 1, 1), None, dt.date(2020, 1, 2), dt.date(2020, 1, 1)]
MASKED: dict[str, tuple[Any, str]] = {
    "pandas zoned, over a change of the clock": (pd.date_range("2020-03-28", periods=4, tz="Europe/Berlin"), "date"),
    "pandas lengths": (pd.to_timedelta([1, 2, 3, None], unit="h"), "date"),
    "pandas seconds": (np.array(["2020-01-01", "NaT", "2022-01-01", "2022-01-01"], dtype="datetime64[s]"), "date"),
    "pandas far dates": (np.array(["0001-01-01", "9999-12-31"] * 2, dtype="datetime64[s]"), "date"),
    "pandas categories of numbers": (pd.Categorical([1, 2, None, 1]), "categorical"),
    "pandas categories of dates": (pd.Categorical(DAYS), "categorical"),
    "pandas Arrow dictionary": (
        pd.array(["a", None, "b", "a"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string()))),
        "categorical",
    ),
    "pandas Arrow decimal": (
        pd.array([Decimal("1.250"), None] * 2, dtype=pd.ArrowDtype(pa.decimal128(8, 3))),
        "numeric",
    ),
    "pandas python strings": (pd.array(["a", None, "b", "a"], dtype="string[python]"), "categorical"),
    "pandas half floats": (np.array([1, 2, 3.5, 4], dtype="float16"), "numeric"),
    "pandas object dates": (pd.Series(DAYS, dtype=object), "date"),
    "pandas object times": (pd.Series([dt.time(1), dt.time(2), None, dt.time(3)], dtype=object), "date"),
    "pandas object flags": (pd.Series([True, None, False, True], dtype=object), "categorical"),
    "polars decimal": (pl.Series([Decimal("1.5"), None, Decimal("2.25"), Decimal("1")]), "numeric"),
    "polars time": (pl.Series([dt.time(1), None, dt.time(2), dt.time(3)]), "date"),
    "polars zoned": (pl.Series([dt.datetime(2020, 1, 1), None] * 2).dt.replace_time_zone("Asia/Tokyo"), "date"),
    "polars nulls": (pl.Series([None] * 4), "categorical"),
    "arrow dictionary with a null inside": (
        pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1]), pa.array(["a", None, "b"])),
        "categorical",
    ),
    "arrow dictionary with a level twice": (
        pa.DictionaryArray.from_arrays(pa.array([0, 0, 2, 0]), pa.array(["a", "a", "b"])),
        "categorical",
    ),
    "arrow chunks of unlike dictionaries": (
        pa.chunked_array([pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]),
        "categorical",
    ),
    "arrow run ends": (pa.RunEndEncodedArray.from_arrays([2, 4], [1, 2]), "numeric"),
    "arrow wide decimal": (pa.array([Decimal("1.25"), None] * 2, pa.decimal256(50, 2)), "numeric"),
}
KEPT: dict[str, Any] = {
    "pandas periods": pd.period_range("2020-01", periods=4, freq="M"),
    "polars lists": pl.Series([[1], [2], None, [3]]),
    "polars structures": pl.Series([{"a": 1}] * 4),
    "polars bytes": pl.Series([b"a", b"b", None, b"c"]),
    "arrow maps": pa.array([[("a", 1)]] * 4, pa.map_(pa.string(), pa.int32())),
    "arrow bytes": pa.array([b"a"] * 4).cast(pa.binary_view()),
}
REFUSED: dict[str, Any] = {
    "pandas sparse": pd.arrays.SparseArray([0, 0, 1, 2]),
    "pandas complex": np.array([1j, 2, 3, 4]),
    "pandas object lists": pd.Series([[1], [2], None, [3]], dtype=object),
    "pandas object huge": pd.Series([2**70, 1, 2, 3], dtype=object),
    "pandas object dates and moments": pd.Series([dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, 3)] * 2, dtype=object),
}


def table_of(column: Any) -> Table:
    if isinstance(column, pl.Series):
        return Table.of(pl.DataFrame({"x": column}))
    if isinstance(column, (pa.Array, pa.ChunkedArray)):
        return Table.of(pa.table({"x": column}))
    return Table.of(pd.DataFrame({"x": column}))


@pytest.mark.parametrize("name", MASKED)
def test_a_column_is_masked_and_returned_in_its_own_type(name: str) -> None:
    column, kind = MASKED[name]
    table = table_of(column)
    schema = Schema.resolve(table, {"x": {"role": "quasi"}})
    assert schema["x"].kind == kind
    encoding = Encoding.fit(table, schema, nulls="indicator")
    matrix = encoding.encode(table)
    back = table.replace(encoding.decode(matrix, table)).to_native()
    native = table.to_native()
    if isinstance(native, pa.Table):
        assert back.schema == native.schema
        assert back["x"].to_pylist() == native["x"].to_pylist()
    else:
        assert same(back, native)
    noisy = encoding.decode(matrix + np.random.default_rng(0).normal(size=matrix.shape), table)["x"]
    assert noisy.dtype == table.series("x").dtype
    assert encoding.codes(table).shape == (4, 1)
    assert encoding.gower(table)[0].shape[0] == 4


@pytest.mark.parametrize("name", KEPT)
def test_a_column_is_kept_but_not_masked(name: str, tmp_path) -> None:
    table = table_of(KEPT[name])
    assert Schema.resolve(table, {})["x"].kind is None
    assert table.take(np.array([3, 0])).n_rows == 2
    io.write(table, tmp_path / "t.parquet")
    assert io.read(tmp_path / "t.parquet").n_rows == 4
    with pytest.raises(GpuanonError, match="'x': its type"):
        Schema.resolve(table, {"x": {"role": "quasi"}})


@pytest.mark.parametrize("name", REFUSED)
def test_a_column_is_refused_by_name(name: str) -> None:
    for role in ("other", "quasi"):
        with pytest.raises(GpuanonError, match="'x'"):
            Schema.resolve(table_of(REFUSED[name]), {"x": {"role": role}})


def test_categories_of_numbers_cannot_be_averaged() -> None:
    table = table_of(pd.Categorical([1, 2, 1]))
    with pytest.raises(GpuanonError, match="the column holds categories; allowed: categorical, ordinal"):
        Schema.resolve(table, {"x": {"role": "quasi", "kind": "numeric"}})


def test_a_nan_comes_back_as_a_null() -> None:
    table = table_of(pl.Series([1.0, float("nan"), None, 3.0]))
    schema = Schema.resolve(table, {"x": {"role": "quasi"}})
    encoding = Encoding.fit(table, schema, nulls="indicator")
    assert encoding.decode(encoding.encode(table), table)["x"].to_list() == [1.0, None, None, 3.0]
