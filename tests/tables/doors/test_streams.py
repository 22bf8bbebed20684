"""Streams as inputs and outputs: standard ones, named pipes, and what Python programs read batch by batch."""

from __future__ import annotations

import io
import os
import threading

import narwhals as nw
import polars as pl
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.errors import InputError
from tests.support.at_doors import KEY, RECIPE, command, plain_rows, table_of_types

PROTECT = ("protect", "-", "recipe.toml", "-o", "-", "--key-file", "key")


@pytest.fixture(scope="module")
def table():
    return table_of_types()


def expected(table, folder):
    """The release of the same table through Parquet files."""
    pq.write_table(table, folder / "registry.parquet")
    done = command(folder, "protect", "registry.parquet", "recipe.toml", "-o", "release.parquet", "--key-file", "key")
    assert done.returncode == 0, done.stderr
    return plain_rows(pq.read_table(folder / "release.parquet"))


def streamed(table):
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table, max_chunksize=17)
    return sink.getvalue()


def test_arrow_and_parquet_through_standard_streams_give_the_release_of_files(table, tmp_path):
    wanted = expected(table, tmp_path)
    done = command(tmp_path, *PROTECT, "--format", "arrow", stdin=streamed(table))
    assert done.returncode == 0, done.stderr
    assert plain_rows(pa.ipc.open_stream(done.stdout).read_all()) == wanted  # a stream, which needs no end to be read
    done = command(tmp_path, *PROTECT, "--format", "parquet", stdin=(tmp_path / "registry.parquet").read_bytes())
    assert plain_rows(pq.read_table(pa.BufferReader(done.stdout))) == wanted
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "key", "recipe.toml", "registry.parquet", "release.parquet", "release.parquet.manifest.json"
    ]  # fmt: skip


def test_csv_is_the_format_of_streams_and_results_go_to_stderr(table, tmp_path):
    text = table.drop_columns(["raw"])
    csv.write_csv(text, tmp_path / "registry.csv")
    (tmp_path / "temporary").mkdir()
    env = {"TMPDIR": str(tmp_path / "temporary")}
    recipe = RECIPE.replace('raw     = { role = "other" }\n', "")
    for name in ("plain.toml", "recipe.toml"):
        (tmp_path / name).write_text(recipe)
    run = ("protect", "registry.csv", "plain.toml", "-o", "release.csv", "--key-file", "key")
    assert command(tmp_path, *run).returncode == 0
    content = (tmp_path / "registry.csv").read_bytes()
    arguments = ("protect", "-", "plain.toml", "-o", "-", "--key-file", "key", "--json")
    done = command(tmp_path, *arguments, stdin=content, env=env)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (tmp_path / "release.csv").read_bytes()
    assert b'"rows_out": 120' in done.stderr
    assert not list((tmp_path / "temporary").iterdir())


def test_a_run_that_fails_sends_nothing_and_leaves_nothing(tmp_path):
    (tmp_path / "temporary").mkdir()
    env = {"TMPDIR": str(tmp_path / "temporary")}
    for content, reason in ((b"", "nothing came from it"), (b"person,age\na,1\nb,2\n", "height")):
        done = command(tmp_path, *PROTECT, stdin=content, env=env)
        assert done.returncode == 2
        assert done.stdout == b""
        assert reason in done.stderr.decode()
        assert "/temporary" not in done.stderr.decode()  # the private copy is named as the stream
        assert not list((tmp_path / "temporary").iterdir())


def test_a_named_pipe_is_read_and_written(table, tmp_path):
    wanted = expected(table, tmp_path)
    for name in ("in.arrow", "out.arrow"):
        os.mkfifo(tmp_path / name)
    held = []

    def write():
        (tmp_path / "in.arrow").write_bytes(streamed(table))

    def read():
        held.append((tmp_path / "out.arrow").read_bytes())

    threads = [threading.Thread(target=work, daemon=True) for work in (write, read)]
    for thread in threads:
        thread.start()
    done = command(tmp_path, "protect", "in.arrow", "recipe.toml", "-o", "out.arrow", "--key-file", "key")
    assert done.returncode == 0, done.stderr
    for thread in threads:
        thread.join(10)
    assert plain_rows(pa.ipc.open_stream(held[0]).read_all()) == wanted


def lazily(kind, table):
    if kind == "reader":
        return table.to_reader(11)
    if kind == "batches":
        return iter(table.to_batches(13))
    if kind == "polars":
        return pl.from_arrow(table).lazy()
    if kind == "narwhals":
        return nw.from_native(pl.from_arrow(table).lazy())
    if kind == "dask":
        return pytest.importorskip("dask.dataframe").from_pandas(table.to_pandas(), npartitions=3)
    return pytest.importorskip("duckdb").connect().from_arrow(table)


@pytest.mark.parametrize("kind", ["reader", "batches", "polars", "narwhals", "dask", "duckdb"])
def test_what_is_read_batch_by_batch_gives_the_release_of_a_table(kind, table):
    chosen = table.select(["person", "age", "height", "visits", "note"])
    recipe = {
        "nulls": "indicator",
        "columns": {
            "person": {"role": "identifier"},
            **{name: {"role": "quasi"} for name in ("age", "height")},
            **{name: {"role": "other"} for name in ("visits", "note")},
        },
        "mask": [{"method": "microaggregation", "k": 3}],
    }
    if kind == "dask":  # pandas has no null among whole numbers
        chosen = chosen.drop_columns(["visits"])
        recipe["columns"].pop("visits")
    wanted = gpuanon.protect(chosen, recipe, rng=KEY.encode()).data
    found = gpuanon.protect(lazily(kind, chosen), recipe, rng=KEY.encode()).data
    library = {"polars": "polars", "narwhals": "polars", "dask": "pandas"}.get(kind, "pyarrow")
    assert type(found).__module__.split(".")[0] == library
    found = pa.Table.from_pandas(found) if library == "pandas" else found
    assert plain_rows(found) == plain_rows(wanted)


def test_an_iterator_of_something_else_is_refused():
    for data in (iter([1, 2]), iter([])):
        with pytest.raises(InputError, match="has to give Arrow batches"):
            gpuanon.protect(data, {"columns": {"a": {"role": "quasi"}}, "mask": [{"method": "rhs", "k": 3}]})


def test_addresses_that_no_door_knows_are_named_and_a_password_is_never_repeated(tmp_path):
    done = command(tmp_path, "protect", "ftp://host/x.csv", "recipe.toml", "-o", "r.csv", text=True)
    assert done.returncode == 2
    assert "no such kind of address" in done.stderr
    done = command(
        tmp_path, "protect", "-", "recipe.toml", "-o", "ftp://me:hunter2@host/x.csv", stdin="a\n1\n", text=True
    )
    assert done.returncode == 2
    assert "holds a password" in done.stderr
    assert "hunter2" not in done.stdout + done.stderr
