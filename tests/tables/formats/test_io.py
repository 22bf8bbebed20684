"""Files: tables are read back unchanged, errors do not quote their content, outputs are complete or absent."""

from __future__ import annotations

import datetime as dt
import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings

from gpuanon.errors import InputError, OutputError
from gpuanon.tables.formats import io
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table
from tests.support.files import FORMATS, error_message
from tests.support.frames import KINDS, arrow_tables, as_kind, example_table, same

# Round trips


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "parts"])
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=arrow_tables())
@example(table=example_table())
@example(table=example_table(0))
def test_types_dictionaries_and_values_survive(tmp_path: Path, name: str, table: pa.Table) -> None:
    io.write(Table.of(table), tmp_path / name, force=True)
    back = io.read(tmp_path / name).to_native()
    assert back.schema == table.schema
    assert back.num_rows == table.num_rows
    assert table.num_rows == 0 or same(back, table)  # a file without rows stores no levels


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "parts"])
def test_the_registry_survives_with_the_order_of_its_levels(tmp_path: Path, name: str) -> None:
    table = make_registry(1000)
    io.write(Table.of(table), tmp_path / name)
    back = io.read(tmp_path / name).to_native()
    assert same(back, table)
    assert back.schema.field("education").type.ordered


@pytest.mark.parametrize("name", ["t.csv", "t.csv.gz"])
def test_values_survive_a_csv_and_types_are_inferred(tmp_path: Path, name: str) -> None:
    table = pa.table(
        {
            "whole": pa.array([1, None, 3], pa.int64()),
            "number": [0.1, 1e-300, None],
            "flag": [True, None, False],
            "date": pa.array([dt.date(2020, 2, 29), None, dt.date(1900, 1, 1)]),
            "text, with a comma": ['q"uote', "two\nlines", "ü"],
            "empty or null": ["", None, "NA"],
        }
    )
    io.write(Table.of(table), tmp_path / name)
    assert same(io.read(tmp_path / name, csv=CsvOptions(newlines=True)).to_native(), table)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", FORMATS)
def test_every_kind_of_dataframe_can_be_written(tmp_path: Path, name: str, kind: str) -> None:
    table = example_table()
    io.write(Table.of(as_kind(table, kind)), tmp_path / name)
    back = io.read(tmp_path / name)
    assert back.names == tuple(table.column_names)
    assert back.to_native()["dictionary"].to_pylist() == table["dictionary"].to_pylist()
    assert back.to_native()["date"].to_pylist() == table["date"].to_pylist()


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("rows", [1, 97, 10_000])
def test_batches_put_together_are_the_table(tmp_path: Path, name: str, rows: int) -> None:
    io.write(Table.of(make_registry(1000)), tmp_path / name)
    source = io.open(tmp_path / name)
    batches = list(source.batches(rows))
    whole = io.read(tmp_path / name).to_native()
    assert all(0 < batch.n_rows <= rows for batch in batches)
    assert source.rows in (None, 1000)
    assert same(pa.concat_tables([batch.to_native() for batch in batches]), whole)
    assert source.schema.equals(whole.schema)
    assert same(pa.concat_tables([batch.to_native() for batch in source.batches()]), whole)  # again from the start


def test_tables_written_piece_by_piece(tmp_path: Path) -> None:
    table = make_registry(1000)
    for name in FORMATS:
        with io.Writing() as out:
            put = out.stream(tmp_path / name, table.schema)
            for start in range(0, 1000, 300):
                put(table.slice(start, 300))
        assert io.read(tmp_path / name).to_native()["cost"].equals(table["cost"])
    assert len(list((tmp_path / "parts").iterdir())) == 4


def test_parts_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    folder = tmp_path / "parts"
    folder.mkdir()
    for number in (2, 0, 1):
        pq.write_table(pa.table({"x": [number]}), folder / f"part-{number}.parquet")
    (folder / "_SUCCESS").touch()
    (folder / ".hidden.parquet").touch()
    assert io.read(folder).to_native()["x"].to_pylist() == [0, 1, 2]


def test_the_index_of_pandas_in_a_file_is_dropped(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2]}, index=[77, 78]).to_parquet(tmp_path / "t.parquet")
    assert "__index_level_0__" in pq.read_schema(tmp_path / "t.parquet").names
    table = io.read(tmp_path / "t.parquet")
    assert table.names == ("a",)
    assert table.to_native().schema.metadata is None
    assert io.open(tmp_path / "t.parquet").schema.names == ["a"]
    assert next(io.open(tmp_path / "t.parquet").batches()).names == ("a",)


# CSV


def csv(tmp_path: Path, text: str | bytes, name: str = "t.csv") -> Path:
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    return tmp_path / name


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_separators_are_inferred(tmp_path: Path, separator: str) -> None:
    path = csv(tmp_path, f'a{separator}"b,;x"{separator}c\n1{separator}2{separator}3\n')
    assert io.read(path).to_native().to_pydict() == {"a": [1], "b,;x": [2], "c": [3]}


def test_columns_can_be_read_as_text(tmp_path: Path) -> None:
    path = csv(tmp_path, "zip,n\n01234,1\n99999,2\n")
    assert io.read(path, text=["zip"]).to_native()["zip"].to_pylist() == ["01234", "99999"]
    assert next(io.open(path, text=["zip"]).batches()).to_native()["zip"].to_pylist() == ["01234", "99999"]
    assert io.read(path, text=["zip", "not there"]).names == ("zip", "n")


def test_a_byte_order_mark_and_windows_line_ends(tmp_path: Path) -> None:
    path = csv(tmp_path, "\ufeffa,b\r\n1,x\r\n".encode())
    assert io.read(path).to_native().to_pydict() == {"a": [1], "b": ["x"]}


def test_nulls_of_a_single_column_are_rows(tmp_path: Path) -> None:
    io.write(Table.of(pa.table({"x": [1, None, 3]})), tmp_path / "t.csv")
    assert io.read(tmp_path / "t.csv").to_native()["x"].to_pylist() == [1, None, 3]


def test_a_header_alone_is_an_empty_table(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b\n")
    assert (io.read(path).n_rows, io.read(path).names) == (0, ("a", "b"))
    assert list(io.open(path).batches()) == []


def test_types_are_widened_when_a_later_row_needs_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["whole,half,flag,gap"] + [f"{i},{i},true," for i in range(200_000)] + ["x,0.5,maybe,7"]
    path = csv(tmp_path, "\n".join(lines) + "\n")
    source = io.open(path)
    whole = io.read(path).to_native()
    assert [str(type_) for type_ in source.schema.types] == ["string", "double", "string", "int64"]
    assert source.schema.equals(whole.schema)
    assert same(pa.concat_tables([batch.to_native() for batch in source.batches()]), whole)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("a,b\n1,2\njane doe\n", "a row has 1 values, the header has 2"),
        ("a,b\n1,2\n3,4,jane doe\n", "a row has 3 values, the header has 2"),
        ("a,a\n1,2\n", "found twice: 'a'"),
        ("name\nj\xe4ne doe\n".encode("latin1"), "not UTF-8 text in column 1"),
    ],
)
def test_errors_of_a_broken_csv_do_not_quote_values(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = csv(tmp_path, text)
    message = error_message(lambda: io.read(path))
    assert str(path) in message
    assert said in message
    assert "jane" not in message
    assert "doe" not in message


def test_errors_of_a_broken_row_do_not_quote_values_in_batches_either(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b\n1,2\njane doe\n")
    assert "jane" not in error_message(lambda: list(io.open(path).batches()))


# Missing and incomplete files


@pytest.mark.parametrize("use", [io.read, io.open])
def test_a_missing_file(tmp_path: Path, use: Callable) -> None:
    for name in FORMATS:
        assert "no such file or folder" in error_message(lambda name=name: use(tmp_path / name))


@pytest.mark.parametrize("use", [io.read, io.open])
def test_a_wrong_suffix(tmp_path: Path, use: Callable) -> None:
    for name in ("t.docx", "t.csv.zip", "t.parquet.bak"):
        (tmp_path / name).touch()
        assert "is not one of .parquet, .csv" in error_message(lambda name=name: use(tmp_path / name))
    assert "is not one of" in error_message(
        lambda: io.write(Table.of(pa.table({"a": [1]})), tmp_path / "t.docx"), OutputError
    )


def test_folders_that_are_not_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no .parquet file" in error_message(lambda: io.read(tmp_path / "empty"))
    (tmp_path / "folder.csv").mkdir()
    assert "folder" in error_message(lambda: io.read(tmp_path / "folder.csv"))
    (tmp_path / "file").touch()
    assert "is not one of" in error_message(lambda: io.read(tmp_path / "file"))


def test_parts_with_other_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["1"]}), tmp_path / "b.parquet")
    for use in (io.read, io.open):
        assert "b.parquet: has other columns or types than a.parquet" in error_message(lambda use=use: use(tmp_path))


def consume(path: Path) -> None:
    for _ in io.open(path).batches():
        pass


@pytest.mark.parametrize("use", [io.read, consume])
@pytest.mark.parametrize("name", ["t.parquet", "t.arrow", "t.csv.gz"])
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.9, 0.999])
def test_a_truncated_file(tmp_path: Path, name: str, share: float, use: Callable) -> None:
    path = tmp_path / name
    io.write(Table.of(make_registry(2000)), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    message = error_message(lambda: use(path))
    assert "truncated, corrupt or of another kind" in message or "is empty" in message


@pytest.mark.parametrize("use", [io.read, consume])
def test_a_truncated_part_is_named(tmp_path: Path, use: Callable) -> None:
    folder = tmp_path / "parts"
    with io.Writing() as out:
        put = out.stream(folder, make_registry(0).schema)
        put(make_registry(100))
        put(make_registry(100, seed=1))
    second = folder / "part-00001.parquet"
    second.write_bytes(second.read_bytes()[:-20])
    assert "part-00001.parquet" in error_message(lambda: use(folder))


@pytest.mark.parametrize("name", ["t.parquet", "t.arrow"])
def test_garbage_in_the_middle_of_a_file_is_refused_or_harmless(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    table = make_registry(3000)
    io.write(Table.of(table), path)
    content = path.read_bytes()
    rng = np.random.default_rng(0)
    refused = 0
    for _ in range(25):
        at = int(rng.integers(8, len(content) - 64))
        path.write_bytes(content[:at] + rng.bytes(64) + content[at + 64 :])
        try:
            back = io.read(path)
        except InputError as error:
            refused += "truncated, corrupt" in str(error)
        else:  # Parquet has checksums; Arrow has none, so that changed values cannot be detected
            assert name == "t.arrow" or back.to_native().equals(table)
            assert back.to_native().schema == table.schema
    assert refused >= (20 if name == "t.parquet" else 1)


def test_a_text_file_named_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("jane,doe\n1,2\n" * 100)
    assert "jane" not in error_message(lambda: io.read(tmp_path / "t.parquet"))


def test_a_truncated_gzip_made_elsewhere(tmp_path: Path) -> None:
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    (tmp_path / "t.csv.gz").write_bytes(content[:-30])
    assert "truncated" in error_message(lambda: io.read(tmp_path / "t.csv.gz"))
