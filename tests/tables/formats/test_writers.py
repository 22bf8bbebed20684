"""Parquet settings: floats that no compression makes smaller are stored as they are; everything else is compressed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gpuanon.tables.formats import io
from gpuanon.tables.formats.io import holds
from gpuanon.tables.table import Table

N = 10_000


def table() -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "noise": rng.normal(size=N),
            "money": rng.integers(0, 900, N) / 4,
            "count": rng.integers(0, 9, N),
            "text": np.array(["a", "b"])[rng.integers(0, 2, N)],
            "nulls": pa.array(rng.normal(size=N), mask=rng.random(N) < 0.5),
            "range": pa.array([{"low": 1.0, "high": 2.0}] * N),
        }
    )


@pytest.mark.parametrize("name", ["release.parquet", "release"])
def test_only_floats_that_cannot_be_compressed_are_stored_as_they_are(tmp_path: Path, name: str) -> None:
    io.write(Table.of(table()), tmp_path / name)
    file = tmp_path / name if name.endswith("parquet") else next((tmp_path / name).iterdir())
    group = pq.ParquetFile(file).metadata.row_group(0)
    found = {group.column(at).path_in_schema: group.column(at) for at in range(group.num_columns)}
    assert {path for path, column in found.items() if column.compression == "UNCOMPRESSED"} == {"noise"}
    assert "RLE_DICTIONARY" in found["range.low"].encodings
    assert "RLE_DICTIONARY" not in found["money"].encodings
    assert pq.read_table(file).equals(table())


def test_a_table_without_rows_has_its_columns(tmp_path: Path) -> None:
    io.write(Table.of(table().slice(0, 0)), tmp_path / "release.parquet")
    assert pq.read_table(tmp_path / "release.parquet").equals(table().slice(0, 0))


def changed(column: str, value: Any) -> pa.Table:
    """The table with another value in one place."""
    data = table()
    values = data[column].to_pylist()
    values[N - 1] = value
    return data.set_column(data.column_names.index(column), column, pa.array(values, data[column].type))


@pytest.mark.parametrize("name", ["release.parquet", "release.arrow"])
def test_a_file_holds_a_table_to_the_bit_or_does_not(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    zero = changed("noise", 0.0)
    io.write(Table.of(zero), path)
    names = zero.column_names
    assert holds(path, path, Table.of(zero), names)
    others = [changed("noise", -0.0), changed("money", None), changed("text", "c"), changed("count", 10), table()]
    assert not any(holds(path, path, Table.of(other), names) for other in others)
    assert holds(path, path, Table.of(changed("noise", -0.0)), names[1:])
    assert not holds(path, path, Table.of(zero.slice(0, N - 1)), names)
    assert not holds(path, path, Table.of(zero.cast(zero.schema.set(2, pa.field("count", pa.int32())))), names)


def test_text_formats_are_counted_as_they_are_written(tmp_path: Path) -> None:
    data = table().drop_columns(["range"])
    io.write(Table.of(data), tmp_path / "release.csv")
    assert not holds(tmp_path / "release.csv", tmp_path / "release.csv", Table.of(data), data.column_names)
