"""Outputs are complete or absent, whatever happens while they are written."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pyarrow as pa
import pytest

from gpuanon.errors import OutputError
from gpuanon.tables.formats import io, places, writing
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table
from tests.support.files import FORMATS, error_message, left_behind
from tests.support.frames import same


def test_nothing_is_replaced_without_force(tmp_path: Path) -> None:
    table = Table.of(pa.table({"x": [1]}))
    for name in FORMATS:
        io.write(table, tmp_path / name)
        before = left_behind(tmp_path)
        assert "exists already" in error_message(lambda name=name: io.write(table, tmp_path / name), OutputError)
        assert "exists already" in error_message(lambda name=name: io.check_output(tmp_path / name), OutputError)
        io.write(Table.of(pa.table({"x": [2]})), tmp_path / name, force=True)
        assert io.read(tmp_path / name).to_native()["x"].to_pylist() == [2]
        assert left_behind(tmp_path) == before


def test_files_created_meanwhile_are_not_replaced(tmp_path: Path) -> None:
    table = Table.of(pa.table({"x": [1]}))

    def late(name: str) -> None:
        with io.Writing() as out:
            out.table(tmp_path / name, table)
            out.text(tmp_path / "manifest", "text")
            (tmp_path / name).mkdir() if name == "parts" else (tmp_path / name).write_text("mine")

    for name in ("t.parquet", "parts"):
        assert "exists already" in error_message(lambda name=name: late(name), OutputError)
        assert left_behind(tmp_path) == [name]
        (tmp_path / name).rmdir() if name == "parts" else (tmp_path / name).unlink()


def test_a_folder_that_holds_more_than_parts_is_never_replaced(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis.tex").write_text("years of work")
    table = Table.of(pa.table({"x": [1]}))
    assert "not replaced" in error_message(lambda: io.write(table, tmp_path / "home", force=True), OutputError)
    assert (tmp_path / "home" / "thesis.tex").read_text() == "years of work"


def test_the_input_is_never_replaced(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    io.write(Table.of(pa.table({"x": [1]})), path)
    os.symlink(path, tmp_path / "same.parquet")
    for name in ("t.parquet", "same.parquet"):
        assert "is the input" in error_message(
            lambda name=name: io.check_output(tmp_path / name, force=True, inputs=[path]), OutputError
        )


def test_special_files_are_not_replaced() -> None:
    assert "is not a file" in error_message(lambda: io.check_output("/dev/null", force=True, table=False), OutputError)


def test_files_appear_together_tables_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    order: list[str] = []
    place = writing._rename

    def watched(hidden: Path, final: Path, force: bool) -> None:
        order.append(final.name)
        place(hidden, final, force)

    monkeypatch.setattr(writing, "_rename", watched)
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
def test_a_failed_rename_undoes_the_earlier_ones(tmp_path: Path, monkeypatch, at: int, error, force: bool) -> None:
    names = ("manifest.json", "link.csv", "t.parquet")
    if force:
        for name in names:
            (tmp_path / name).write_text(f"old {name}")
    place, calls = writing._rename, []

    def failing(hidden: Path, final: Path, force: bool) -> None:
        calls.append(final)
        if len(calls) == at + 1:
            raise error
        place(hidden, final, force)

    monkeypatch.setattr(writing, "_rename", failing)

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
def test_paths_that_cannot_be_written_are_refused(tmp_path: Path, name: str) -> None:
    table = Table.of(pa.table({"x": [1]}))
    (tmp_path / "file").touch()
    for folder in (tmp_path / "missing", tmp_path / "file", Path("/proc/self")):
        for use in (lambda f=folder: io.write(table, f / name), lambda f=folder: io.check_output(f / name)):
            assert "cannot be written" in error_message(use, OutputError)
    assert left_behind(tmp_path) == ["file"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_permission(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    try:
        assert "Permission denied" in error_message(lambda: io.check_output(tmp_path / "t.parquet"), OutputError)
    finally:
        tmp_path.chmod(0o700)


def test_a_type_that_csv_cannot_store_is_refused(tmp_path: Path) -> None:
    table = Table.of(pa.table({"x": [[1, 2]]}))
    assert "cannot be stored" in error_message(lambda: io.write(table, tmp_path / "t.csv"), OutputError)
    assert left_behind(tmp_path) == []


def run(script: str, *arguments: object, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a script in a process of its own."""
    command = [sys.executable, "-c", textwrap.dedent(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, **options)  # type: ignore[call-overload]


FULL = """
import sys
from gpuanon.errors import OutputError
from gpuanon.tables.formats import io
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table
try:
    with io.Writing() as out:
        out.text(sys.argv[1] + ".manifest.json", "{}")
        out.table(sys.argv[1], Table.of(make_registry(100_000)))
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
from gpuanon.tables.formats import io
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


KILLED = """
import json, os, signal, sys
from pathlib import Path
from gpuanon.engine.outputs import clean
from gpuanon.tables.formats import io, writing

folder, name, force = Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "force"
NAMES = ("link.csv", "manifest.json", name)
STEPS = {"open", "os.rename", "os.link", "os.remove", "os.rmdir", "shutil.rmtree"}
counting = []

def put(text):
    with io.Writing(force=force) as out:
        for other in NAMES[:2]:
            out.text(folder / other, text)
        if "." in name:
            with out._file(folder / name, table=True) as file:
                file.write(text.encode())
        else:
            (out.folder(folder / name) / "0.parquet").write_text(text)

def held():
    def text(path):
        path = path / "0.parquet" if path.is_dir() else path
        return path.read_text() if path.exists() else None
    return [text(folder / each) for each in NAMES]

def dies(at):
    def watch(event, arguments):
        if counting and event in STEPS:
            counting[0] += 1
            if counting[0] == at:
                os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(watch)
    commit = writing._commit
    def committed(*arguments):
        counting.append(0)
        commit(*arguments)
    writing._commit = committed
    put("new")
    os._exit(0)

found = []
for at in range(1, 80):
    for entry in folder.iterdir():
        (entry / "0.parquet").unlink(missing_ok=True) if entry.is_dir() else entry.unlink()
        entry.rmdir() if entry.is_dir() else None
    if force:
        put("old")
    child = os.fork()
    if child == 0:
        dies(at)
    ended = os.waitpid(child, 0)[1] == 0
    if at % 2:
        clean(folder / name)
    else:  # what the next run looks at before any work
        try:
            io.check_output(folder / name, force=force, table=False)
        except Exception:
            pass
        clean(folder / name)
    found.append([held(), sorted(set(os.listdir(folder)) - set(NAMES))])
    if ended:
        break
print(json.dumps(found))
"""


@pytest.mark.parametrize("force", ["force", "new"])
@pytest.mark.parametrize("name", ["t.csv", "parts"])
def test_a_kill_at_any_step_of_the_renames_leaves_all_old_or_all_new(tmp_path: Path, name: str, force: str) -> None:
    done = run(KILLED, tmp_path, name, force)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert len(found) > 5
    old = "old" if force == "force" else None
    for texts, others in found:
        assert texts in ([old] * 3, ["new"] * 3)
        assert others == []
    assert found[0][0] == [old] * 3
    assert found[-1][0] == ["new"] * 3


def test_what_somebody_made_of_an_old_output_after_a_kill_is_left_to_them(tmp_path: Path) -> None:
    for name in ("manifest.json", "t.csv"):
        (tmp_path / name).write_text("old")
    hidden = {name: places.hidden_name(tmp_path / name) for name in ("manifest.json", "t.csv")}
    moves = []
    for name, path in hidden.items():
        path.write_text("new")
        moves.append(places.Move.planned(path, tmp_path / name))
    journal = places.hidden_name(tmp_path / "t.csv", places.COMMIT)
    journal.write_text(places.journal_text(moves))
    os.link(tmp_path / "manifest.json", moves[0].backup)
    os.replace(hidden["manifest.json"], tmp_path / "manifest.json")  # killed here
    (tmp_path / "t.csv").write_text("old, and edited by hand")
    places.mend(tmp_path)
    assert (tmp_path / "t.csv").read_text() == "old, and edited by hand"
    assert (tmp_path / "manifest.json").read_text() == "old"
    places.remove_stale(tmp_path)
    assert left_behind(tmp_path) == ["manifest.json", "t.csv"]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"gpuanon": "commit", "moves": [{"final": "x"}]}', "thesis"])
def test_what_is_no_journal_moves_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / ".gpuanon-0123456789abcdef.commit").write_text(text)
    (tmp_path / "mine").write_text("mine")
    assert places.mend(tmp_path) == []
    assert (tmp_path / "mine").read_text() == "mine"
