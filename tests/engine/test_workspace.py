"""The private folder of a run: locked while a run works on it, reported when it is left behind."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gpuanon.arrays.rng import Key
from gpuanon.engine.outputs import clean, work_path
from gpuanon.engine.protect import protect_file, protect_in_parts
from gpuanon.engine.store import workspace as module
from gpuanon.engine.store.workspace import Workspace
from gpuanon.errors import BackendError, GpuanonError, InputError, OutputError, Remark
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import places
from tests.support.every import recipe, registry

KEY = Key(b"a key for tests, of sixteen bytes or more")
RUN = {"run": "a", "key": "b"}


@pytest.fixture
def source(tmp_path):
    pq.write_table(registry(200), tmp_path / "registry.parquet")
    return tmp_path / "registry.parquet"


def protect(source, **options):
    options = {"key": KEY, "backend": "numpy", "cell_rows": 100, **options}
    return protect_in_parts(source, Recipe.load(recipe("permute")), source.parent / "release.parquet", **options)


def failing(error, after=2):
    """Workers that fail in a later stage."""
    calls = 0

    def work(task, items):
        nonlocal calls
        calls += 1
        if calls > after:
            raise error
        return [task(item) for item in items]

    return work


@pytest.mark.parametrize("error", [KeyboardInterrupt(), MemoryError(), BackendError("the scheduler was lost")])
def test_a_run_that_fails_says_which_personal_data_is_left_and_what_to_do(source, error):
    work = work_path(source.parent / "release.parquet")
    with pytest.raises(type(error)) as caught:
        protect(source, workers=failing(error))
    (note,) = caught.value.__notes__
    assert isinstance(note, Remark)
    assert all(text in note for text in (str(work), "personal data", "--resume", "gpuanon clean"))
    with pytest.raises(OutputError, match=r"interrupted.*personal data[\s\S]*gpuanon clean"):
        protect(source)
    protect(source, resume=True)
    assert not work.exists()


def test_a_run_that_nobody_can_resume_leaves_nothing_and_says_nothing(source):
    with pytest.raises(KeyboardInterrupt) as caught:
        protect(source, workers=failing(KeyboardInterrupt()), resumable=False)
    assert not hasattr(caught.value, "__notes__")
    assert not work_path(source.parent / "release.parquet").exists()


def test_force_begins_anew_on_an_interrupted_run_only(source):
    with pytest.raises(MemoryError):
        protect(source, workers=failing(MemoryError()))
    protect(source, force=True, key=Key(b"another key of sixteen bytes or more"))

    def second(task, items):
        with pytest.raises(OutputError, match="in progress"):
            protect(source, force=True)
        return [task(item) for item in items]

    protect(source, force=True, workers=second)


HOLD = """
import sys, time
from pathlib import Path
from gpuanon.engine.store.workspace import Workspace
Workspace.begin(Path(sys.argv[1]), {"run": "a", "key": "b"}, resume=False, force=False)
print("held", flush=True)
time.sleep(60)
"""


@pytest.fixture
def held(tmp_path):
    """A workspace in which another process works."""
    folder = work_path(tmp_path / "release.parquet")
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(program, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout.readline().strip() == "held"
    yield folder, process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("options", [{}, {"force": True}, {"resume": True}, {"resume": True, "force": True}])
def test_a_workspace_of_a_living_process_is_refused_and_that_of_a_killed_one_is_not(held, options):
    folder, process = held
    options = {"resume": False, "force": False, **options}
    with pytest.raises(OutputError, match=rf"in progress there \(process {process.pid} on "):
        Workspace.begin(folder, RUN, **options)
    with pytest.raises(OutputError, match="in progress"):
        clean(folder.parent / "release.parquet")
    assert (folder / "run.json").exists()
    process.send_signal(signal.SIGKILL)
    process.wait()
    if options["resume"] or options["force"]:
        Workspace.begin(folder, RUN, **options).end()
    else:
        assert clean(folder.parent / "release.parquet") == [folder]
    assert not folder.exists()


def test_a_run_in_memory_does_not_overtake_one_in_parts(held, source, tmp_path):
    (tmp_path / "recipe.json").write_text(json.dumps(recipe("permute")))
    with pytest.raises(OutputError, match="in progress"):
        protect_file(source, tmp_path / "recipe.json", tmp_path / "release.parquet", force=True)


@pytest.mark.parametrize("host", [None, "elsewhere"])
def test_without_locks_the_host_and_the_process_are_looked_at(tmp_path, monkeypatch, host):
    monkeypatch.setattr(module, "lock", lambda number: None)
    folder = tmp_path / ".release.gpuanon-work"
    Workspace.begin(folder, RUN, resume=False, force=False).leave()
    Workspace.begin(folder, RUN, resume=True, force=False).leave()  # the process is this one
    holder = json.loads((folder / "lock").read_text())
    (folder / "lock").write_text(json.dumps({"host": host or holder["host"], "process": os.getppid()}))
    with pytest.raises(OutputError, match="may be in progress"):
        Workspace.begin(folder, RUN, resume=False, force=True)
    if host is None:
        with pytest.raises(OutputError, match="may be in progress"):
            Workspace.begin(folder, RUN, resume=True, force=False)
    else:
        Workspace.begin(folder, RUN, resume=True, force=False).end()


def test_a_release_that_is_in_place_is_told_of_when_the_workspace_cannot_be_removed(source, monkeypatch):
    def stuck(path, *arguments, **options):
        raise OSError(errno.EBUSY, "busy")

    monkeypatch.setattr(module.shutil, "rmtree", stuck)
    with pytest.raises(OutputError) as caught:
        protect(source)
    assert "the release is in place" in str(caught.value)
    assert "personal data" in str(caught.value)
    assert "no release was written" not in str(caught.value)
    assert (source.parent / "release.parquet").exists()


def test_an_interrupt_after_the_release_is_in_place_tells_of_both(source, monkeypatch):
    def interrupted(path, *arguments, **options):
        raise KeyboardInterrupt

    places.PLACED.clear()
    monkeypatch.setattr(module.shutil, "rmtree", interrupted)
    with pytest.raises(KeyboardInterrupt) as caught:
        protect(source)
    assert "personal data is left" in caught.value.__notes__[0]
    assert source.parent / "release.parquet" in places.PLACED


@pytest.mark.parametrize("kind", ["folder", "file", "symbolic link", "open to others", "somebody else's", "no mark"])
def test_nothing_that_gpuanon_did_not_make_is_removed(tmp_path, kind):
    folder = work_path(tmp_path / "release")
    thesis = tmp_path / "mine"
    thesis.mkdir()
    if kind == "file":
        folder.write_text("mine")
    elif kind == "symbolic link":
        Workspace.begin(thesis / "work", RUN, resume=False, force=False).leave()
        os.symlink(thesis / "work", folder)
    elif kind in ("folder", "no mark"):
        folder.mkdir(mode=0o700)
        (folder / ("thesis.tex" if kind == "folder" else "run.json")).write_text("{}")
    else:
        Workspace.begin(folder, RUN, resume=False, force=False).leave()
        if kind == "open to others":
            folder.chmod(0o755)
        elif os.geteuid() == 0:
            os.chown(folder, 65534, 65534)
        else:
            pytest.skip("only root can give files away")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    with pytest.raises(OutputError):
        clean(tmp_path / "release")
    with pytest.raises(OutputError):
        Workspace.begin(folder, RUN, resume=False, force=True)
    assert sorted(str(path) for path in tmp_path.rglob("*")) == before


def test_hidden_files_are_removed_only_when_no_process_writes_them(tmp_path):
    stale = tmp_path / ".gpuanon-0123456789abcdef.partial"
    stale.write_text("rows")
    parts = tmp_path / ".gpuanon-fedcba9876543210.partial"
    parts.mkdir()
    (parts / "part-0.parquet").write_text("rows")
    for name in (".gpuanon-notes", ".gpuanon-0123456789abcdef.previous", "0.partial"):
        (tmp_path / name).write_text("not ours to remove")
    nested = tmp_path / ".gpuanon-aaaaaaaaaaaaaaaa.partial"
    (nested / "deep").mkdir(parents=True)
    from gpuanon.tables.formats import io
    from gpuanon.tables.table import Table

    with io.Writing() as out:
        out.table(tmp_path / "a.parquet", Table.of(registry(10)))
        out.table(tmp_path / "b", Table.of(registry(10)))
        out.finish(tmp_path / "a.parquet")
        assert clean(tmp_path / "release") == [stale, nested, parts]
    assert pq.read_table(tmp_path / "a.parquet").num_rows == 10
    assert pq.read_table(tmp_path / "b").num_rows == 10
    assert not nested.exists()
    assert clean(tmp_path / "release") == []


def test_another_run_is_not_resumed_and_stays_as_it_is(tmp_path):
    folder = tmp_path / ".release.gpuanon-work"
    Workspace.begin(folder, RUN, resume=False, force=False).leave()
    with pytest.raises(InputError, match="another recipe"):
        Workspace.begin(folder, {"run": "other", "key": "b"}, resume=True, force=False)
    Workspace.begin(folder, RUN, resume=True, force=False).end()


def test_clean_names_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(GpuanonError, match="there is no folder"):
        clean(Path(tmp_path / "missing" / "release"))
