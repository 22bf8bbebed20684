"""Files: tables come back as they were, broken ones are told without their content, outputs are whole or not there."""

from __future__ import annotations

import datetime as dt
import errno
import gzip
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings

from gpuanon.errors import GpuanonError, InputError, OutputError
from gpuanon.tables import io, writing
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table
from tests.frames import KINDS, arrow_tables, as_kind, example_table, same

FORMATS = ("t.parquet", "t.arrow", "t.csv", "t.csv.gz", "parts")


def left_behind(folder: Path) -> list[str]:
    """Everything in the folder, hidden files too."""
    return sorted(entry.name for entry in folder.iterdir())


def told(call: Callable[[], object], kind: type[GpuanonError] = InputError) -> str:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)


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
    assert table.num_rows == 0 or same(back, table)  # without rows there are no levels in a file


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
    assert same(io.read(tmp_path / name).to_native(), table)


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


def test_an_index_that_pandas_hides_in_a_file_does_not_come_along(tmp_path: Path) -> None:
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
def test_separators_are_found(tmp_path: Path, separator: str) -> None:
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


def test_a_head_alone_is_an_empty_table(tmp_path: Path) -> None:
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
        ("a,b\n1,2\njane doe\n", "a row has 1 cells, the head has 2"),
        ("a,b\n1,2\n3,4,jane doe\n", "a row has 3 cells, the head has 2"),
        ("a,a\n1,2\n", "found twice: 'a'"),
        ("name\nj\xe4ne doe\n".encode("latin1"), "not UTF-8 text in 'name'"),
    ],
)
def test_a_broken_csv_is_told_without_a_cell(tmp_path: Path, text: str | bytes, said: str) -> None:
    path = csv(tmp_path, text)
    message = told(lambda: io.read(path))
    assert str(path) in message
    assert said in message
    assert "jane" not in message
    assert "doe" not in message


def test_a_broken_row_is_told_without_a_cell_in_batches_too(tmp_path: Path) -> None:
    path = csv(tmp_path, "a,b\n1,2\njane doe\n")
    assert "jane" not in told(lambda: list(io.open(path).batches()))


# Files that are not there or not whole


@pytest.mark.parametrize("use", [io.read, io.open])
def test_a_missing_file(tmp_path: Path, use: Callable) -> None:
    for name in FORMATS:
        assert "no such file or folder" in told(lambda name=name: use(tmp_path / name))


@pytest.mark.parametrize("use", [io.read, io.open])
def test_a_wrong_suffix(tmp_path: Path, use: Callable) -> None:
    for name in ("t.xlsx", "t.csv.zip", "t.parquet.bak"):
        (tmp_path / name).touch()
        assert "is not one of .parquet, .csv" in told(lambda name=name: use(tmp_path / name))
    assert "is not one of" in told(lambda: io.write(Table.of(pa.table({"a": [1]})), tmp_path / "t.xlsx"), OutputError)


def test_folders_that_are_no_tables(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    assert "holds no .parquet file" in told(lambda: io.read(tmp_path / "empty"))
    (tmp_path / "folder.csv").mkdir()
    assert "folder" in told(lambda: io.read(tmp_path / "folder.csv"))
    (tmp_path / "file").touch()
    assert "is not one of" in told(lambda: io.read(tmp_path / "file"))


def test_parts_with_other_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["1"]}), tmp_path / "b.parquet")
    for use in (io.read, io.open):
        assert "b.parquet: has other columns or types than a.parquet" in told(lambda use=use: use(tmp_path))


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
    message = told(lambda: use(path))
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
    assert "part-00001.parquet" in told(lambda: use(folder))


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
        else:  # Parquet has checksums; Arrow has none, and other values in the right places are not to be told
            assert name == "t.arrow" or back.to_native().equals(table)
            assert back.to_native().schema == table.schema
    assert refused >= (20 if name == "t.parquet" else 1)


def test_a_text_file_named_parquet(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_text("jane,doe\n1,2\n" * 100)
    assert "jane" not in told(lambda: io.read(tmp_path / "t.parquet"))


def test_a_truncated_gzip_made_elsewhere(tmp_path: Path) -> None:
    content = gzip.compress(b"a,b\n" + b"1,2\n" * 10_000)
    (tmp_path / "t.csv.gz").write_bytes(content[:-30])
    assert "truncated" in told(lambda: io.read(tmp_path / "t.csv.gz"))


# Whole or not at all


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    table = Table.of(pa.table({"x": [1]}))
    for name in FORMATS:
        io.write(table, tmp_path / name)
        before = left_behind(tmp_path)
        assert "exists already" in told(lambda name=name: io.write(table, tmp_path / name), OutputError)
        assert "exists already" in told(lambda name=name: io.check_output(tmp_path / name), OutputError)
        io.write(Table.of(pa.table({"x": [2]})), tmp_path / name, force=True)
        assert io.read(tmp_path / name).to_native()["x"].to_pylist() == [2]
        assert left_behind(tmp_path) == before


def test_what_appears_in_the_meantime_is_not_replaced(tmp_path: Path) -> None:
    table = Table.of(pa.table({"x": [1]}))

    def late(name: str) -> None:
        with io.Writing() as out:
            out.table(tmp_path / name, table)
            out.text(tmp_path / "manifest", "text")
            (tmp_path / name).mkdir() if name == "parts" else (tmp_path / name).write_text("mine")

    for name in ("t.parquet", "parts"):
        assert "exists already" in told(lambda name=name: late(name), OutputError)
        assert left_behind(tmp_path) == [name]
        (tmp_path / name).rmdir() if name == "parts" else (tmp_path / name).unlink()


def test_a_folder_that_holds_more_than_parts_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    table = Table.of(pa.table({"x": [1]}))
    assert "not replaced" in told(lambda: io.write(table, tmp_path / "home", force=True), OutputError)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"


def test_the_input_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    io.write(Table.of(pa.table({"x": [1]})), path)
    os.symlink(path, tmp_path / "same.parquet")
    for name in ("t.parquet", "same.parquet"):
        assert "is the input" in told(
            lambda name=name: io.check_output(tmp_path / name, force=True, inputs=[path]), OutputError
        )


def test_special_files_are_not_replaced() -> None:
    assert "is not a file" in told(lambda: io.check_output("/dev/null", force=True, table=False), OutputError)


def test_files_appear_together_tables_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    place = writing._place

    def watched(hidden: Path, final: Path, force: bool) -> None:
        order.append(final.name)
        place(hidden, final, force)

    monkeypatch.setattr(writing, "_place", watched)
    with io.Writing() as out:
        out.table(tmp_path / "t.parquet", Table.of(pa.table({"x": [1]})))
        out.text(tmp_path / "manifest.json", "{}")
        out.text(tmp_path / "link.csv", "row\n0\n", private=True)
        assert all(name.startswith(".gpuanon-") for name in left_behind(tmp_path))
    assert order == ["manifest.json", "link.csv", "t.parquet"]
    assert left_behind(tmp_path) == ["link.csv", "manifest.json", "t.parquet"]
    assert stat.S_IMODE((tmp_path / "link.csv").stat().st_mode) == 0o600


@pytest.mark.parametrize("force", [False, True])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt(), RuntimeError("bug")])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_failure_among_the_moves_undoes_those_before(
    tmp_path: Path, monkeypatch, at: int, error, force: bool
) -> None:
    names = ("manifest.json", "link.csv", "t.parquet")
    if force:
        for name in names:
            (tmp_path / name).write_text(f"old {name}")
    place, calls = writing._place, []

    def failing(hidden: Path, final: Path, force: bool) -> None:
        calls.append(final)
        if len(calls) == at + 1:
            raise error
        place(hidden, final, force)

    monkeypatch.setattr(writing, "_place", failing)

    def write() -> None:
        with io.Writing(force=force) as out:
            out.table(tmp_path / "t.parquet", Table.of(pa.table({"x": [1]})))
            for name in names[:2]:
                out.text(tmp_path / name, "new")

    with pytest.raises(OutputError if isinstance(error, OSError) else type(error)):
        write()
    assert left_behind(tmp_path) == (sorted(names) if force else [])
    assert all((tmp_path / name).read_text() == f"old {name}" for name in names if force)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_an_error_in_the_block_leaves_nothing(tmp_path: Path, name: str, error: type[BaseException]) -> None:
    table = make_registry(100)

    def write() -> None:
        with io.Writing() as out:
            out.text(tmp_path / "manifest.json", "{}")
            out.stream(tmp_path / name, table.schema)(table)
            raise error

    with pytest.raises(error):
        write()
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("name", FORMATS)
def test_places_that_cannot_be_written_to(tmp_path: Path, name: str) -> None:
    table = Table.of(pa.table({"x": [1]}))
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing", tmp_path / "file", Path("/proc/self")):
        for use in (lambda f=folder: io.write(table, f / name), lambda f=folder: io.check_output(f / name)):
            assert "cannot be written" in told(use, OutputError)
    assert left_behind(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in told(lambda: io.check_output(tmp_path / "t.parquet"), OutputError)
    finally:
        tmp_path.chmod(0o700)


def test_a_type_that_has_no_form_in_a_csv(tmp_path: Path) -> None:
    table = Table.of(pa.table({"x": [[1, 2]]}))
    assert "has no form" in told(lambda: io.write(table, tmp_path / "t.csv"), OutputError)
    assert left_behind(tmp_path) == []


def run(script: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload]


FULL = """
import sys
from gpuanon.errors import OutputError
from gpuanon.tables import io
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table
try:
    with io.Writing() as out:
        out.text(sys.argv[1] + ".manifest.json", "{}")
        out.table(sys.argv[1], Table.of(make_registry(50_000)))
except OutputError as error:
    print(error)
    sys.exit(3)
"""


@pytest.fixture
def full_disk(tmp_path: Path):
    """A file system of one megabyte."""
    if (
        os.geteuid() != 0
        or subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(tmp_path)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("a file system can only be mounted with the right to")
    yield tmp_path
    subprocess.run(["umount", "-l", str(tmp_path)], check=True)


@pytest.mark.parametrize("name", FORMATS)
def test_a_full_disk_leaves_nothing(full_disk: Path, name: str) -> None:
    done = run(FULL, full_disk / name)
    assert done.returncode == 3, done.stderr
    assert "No space left on device" in done.stdout
    assert left_behind(full_disk) == []


@pytest.mark.parametrize("name", FORMATS)
def test_a_limit_on_file_size_leaves_nothing(tmp_path: Path, name: str) -> None:
    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000))

    done = run(FULL, tmp_path / name, preexec_fn=limit)
    assert done.returncode == 3, done.stderr
    assert "File too large" in done.stdout
    assert left_behind(tmp_path) == []


ENDLESS = """
import sys
from gpuanon.tables import io
from gpuanon.tables.registry import make_registry
table = make_registry(20_000)
with io.Writing(force=True) as out:
    out.text(sys.argv[1] + ".manifest.json", "{}")
    put = out.stream(sys.argv[1], table.schema)
    while True:
        put(table)
        print("more", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
@pytest.mark.parametrize("name", ["t.parquet", "t.csv", "parts"])
def test_an_interrupt_in_mid_write_leaves_the_old_output_and_no_part_of_the_new(
    tmp_path: Path, name: str, number
) -> None:
    old = Table.of(pa.table({"x": [1]}))
    io.write(old, tmp_path / name)
    command = [sys.executable, "-c", ENDLESS, str(tmp_path / name)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.readline()
        time.sleep(0.02)
        process.send_signal(number)
        process.stdout.read()
        process.wait(30)
    assert process.returncode != 0
    hidden = [entry for entry in left_behind(tmp_path) if entry != name]
    assert same(io.read(tmp_path / name).to_native(), old.to_native())
    if number == signal.SIGINT:
        assert hidden == []
    else:
        assert hidden
        assert all(entry.startswith(".gpuanon-") and entry.endswith(".partial") for entry in hidden)


def test_reading_does_not_hold_the_file(tmp_path: Path) -> None:
    for name in FORMATS:
        io.write(Table.of(pa.table({"x": [1, 2]})), tmp_path / name)
        table = io.read(tmp_path / name)
        io.write(Table.of(pa.table({"x": [3]})), tmp_path / name, force=True)
        assert table.to_native()["x"].to_pylist() == [1, 2]


def test_the_same_table_gives_the_same_bytes(tmp_path: Path) -> None:
    table = Table.of(make_registry(2000))
    for name in FORMATS[:4]:
        io.write(table, tmp_path / name)
        first = (tmp_path / name).read_bytes()
        io.write(table, tmp_path / name, force=True)
        assert (tmp_path / name).read_bytes() == first
