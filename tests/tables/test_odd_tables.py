"""Tables of odd types, values and shapes: the right release or a message, never a raw exception and never a value."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.engine.protect import protect_in_parts
from gpuanon.errors import GpuanonError, InputError

KEY = gpuanon.Key(b"a key for tests, of sixteen bytes or more")
MASKS: list[dict[str, Any]] = [
    {"method": "microaggregation", "k": 4},
    {"method": "distribution-preserving", "k": 4, "bins": 8},
    {"method": "suppress", "k": 4},
    {"method": "noise"},
]


def released(table: Any, mask: dict[str, Any], **roles: str) -> Any:
    columns = {name: {"role": role} for name, role in roles.items()}
    return gpuanon.protect(table, {"columns": columns, "others": "keep", "mask": [mask]}, rng=KEY, backend="numpy").data


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask["method"])
@pytest.mark.parametrize(
    "type_",
    [
        pa.decimal32(9, 2),
        pa.decimal64(18, 4),
        pa.decimal128(38, 10),
        pa.decimal256(76, 20),
        pa.decimal128(5, 5),
        pa.decimal128(5, -2),
        pa.decimal128(38, 0),
    ],
    ids=str,
)
def test_decimals(type_: pa.DataType, mask: dict[str, Any]) -> None:
    step = Decimal(10) ** -type_.scale
    numbers = [None if i % 9 == 8 else step * (i // 4 * 37 % 100) for i in range(40)]
    table = pa.table({"x": pa.array(numbers, type_), "kept": pa.array(numbers, type_)})
    data = released(table, mask, x="quasi")
    assert data.schema == table.schema
    known = [number for number in numbers if number is not None]
    assert all(value is None or min(known) <= value <= max(known) for value in data["x"].to_pylist())
    if data.num_rows == 40:
        assert sorted(value for value in data["kept"].to_pylist() if value is not None) == sorted(known)


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask["method"])
@pytest.mark.parametrize("value", [float("inf"), float("-inf")])
@pytest.mark.parametrize("type_", [pa.float64(), pa.float32(), pa.float16()], ids=str)
def test_infinite_values_are_refused(mask: dict[str, Any], value: float, type_: pa.DataType) -> None:
    numbers = np.array([*range(39), value]).astype(type_.to_pandas_dtype())
    with pytest.raises(InputError, match="'x': 1 rows hold an infinite value"):
        released(pa.table({"x": pa.array(numbers, type_)}), mask, x="quasi")


NESTED = {
    "lists": pa.array([[i % 3] for i in range(20)]),
    "structures": pa.array([{"a": i % 3, "b": [str(i)]} for i in range(20)]),
    "maps": pa.array([[("a", i)] for i in range(20)], pa.map_(pa.string(), pa.int64())),
    "fixed": pa.array([[i, i] for i in range(20)], pa.list_(pa.int64(), 2)),
    "bytes": pa.array([b"a", None] * 10),
    "fixed bytes": pa.array([b"ab", None] * 10, pa.binary(2)),
    "nulls": pa.nulls(20),
    "nested levels": pa.array([["a"], ["b"]] * 10, pa.list_(pa.dictionary(pa.int32(), pa.string()))),
}


@pytest.mark.parametrize("name", NESTED)
@pytest.mark.parametrize("in_parts", [False, True])
def test_nested_columns_are_kept_or_refused(tmp_path: Path, name: str, in_parts: bool) -> None:
    table = pa.table({"age": list(range(20)), "x": NESTED[name]})
    if in_parts:
        pq.write_table(table, tmp_path / "in.parquet")
        recipe = gpuanon.Recipe.load({"columns": {"age": {"role": "quasi"}}, "others": "keep", "mask": MASKS[:1]})
        protect_in_parts(tmp_path / "in.parquet", recipe, tmp_path / "out.parquet", key=KEY)
        data = pq.read_table(tmp_path / "out.parquet")
    else:
        data = released(table, MASKS[0], age="quasi")
    assert sorted(data["x"].to_pylist(), key=str) == sorted(table["x"].to_pylist(), key=str)
    if name != "nulls":
        with pytest.raises(GpuanonError, match="'x': its type"):
            released(table, MASKS[0], age="quasi", x="quasi")


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask["method"])
@pytest.mark.parametrize("name", ["in.parquet", "in.csv", "in.arrow"])
def test_no_rows(tmp_path: Path, mask: dict[str, Any], name: str) -> None:
    table = pa.table({"x": pa.array([], pa.float64()), "c": pa.array([], pa.dictionary(pa.int32(), pa.string()))})
    with pytest.raises(InputError, match="no rows"):
        released(table, mask, x="quasi")
    from gpuanon.tables.formats import io
    from gpuanon.tables.table import Table

    io.write(Table.of(table), tmp_path / name)
    recipe = gpuanon.Recipe.load({"columns": {"x": {"role": "quasi"}}, "others": "keep", "mask": [mask]})
    with pytest.raises(GpuanonError, match="no rows"):
        protect_in_parts(tmp_path / name, recipe, tmp_path / "out", key=KEY)


@pytest.mark.parametrize("mask", MASKS, ids=lambda mask: mask["method"])
def test_one_column(tmp_path: Path, mask: dict[str, Any]) -> None:
    table = pa.table({"x": [float(i // 4) for i in range(40)]})
    assert released(table, mask, x="quasi").column_names == ["x"]
    with pytest.raises(GpuanonError):
        released(table, mask, x="identifier")
    table.to_pandas().to_csv(tmp_path / "in.csv", index=False)
    recipe = gpuanon.Recipe.load({"columns": {"x": {"role": "quasi"}}, "others": "keep", "mask": [mask]})
    protect_in_parts(tmp_path / "in.csv", recipe, tmp_path / "out.csv", key=KEY)
    assert pd.read_csv(tmp_path / "out.csv").shape == (40, 1)


def test_many_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pa.table({f"c{j}": rng.normal(size=30) for j in range(2000)})
    data = released(table, MASKS[0], c0="quasi", c1999="quasi")
    assert data.num_columns == 2000
    table.to_pandas().to_csv(tmp_path / "in.csv", index=False)
    recipe = gpuanon.Recipe.load({"columns": {"c0": {"role": "quasi"}}, "others": "keep", "mask": MASKS[:1]})
    protect_in_parts(tmp_path / "in.csv", recipe, tmp_path / "out.csv", key=KEY)
    assert pd.read_csv(tmp_path / "out.csv").shape == (30, 2000)
