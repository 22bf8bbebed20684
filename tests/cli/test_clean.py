"""What the command line says of a run that was stopped, and what `gpuanon clean` removes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from gpuanon.cli import app as cli
from gpuanon.cli import releasing
from gpuanon.engine.outputs import work_path
from tests.support.every import registry

COLUMNS = ["person_id", "age", "income"]
RECIPE = """
nulls = "indicator"
[columns]
person_id = { role = "identifier" }
age       = { role = "quasi" }
income    = { role = "quasi", transform = "log1p" }
[[mask]]
method = "microaggregation"
k = 5
groups = "k-member"
block = 0
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    pq.write_table(registry(60_000).select(COLUMNS), tmp_path / "registry.parquet")
    (tmp_path / "recipe.toml").write_text(RECIPE)
    (tmp_path / "key").write_text("a secret key for the tests")
    monkeypatch.chdir(tmp_path)
    return tmp_path


ROOT = str(Path(__file__).parents[2])
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])}


def command(*arguments):
    return [sys.executable, "-m", "gpuanon.cli.app", *map(str, arguments)]


def finished(*arguments):
    return subprocess.run(command(*arguments), capture_output=True, text=True, check=False, env=ENVIRONMENT)


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stopped_run_says_what_is_left_and_clean_removes_it(folder, number, code):
    run = ["protect", "registry.parquet", "recipe.toml", "-o", "release.parquet", "--workers", 0]
    run += ["--cell", "100000", "--key-file", "key", "--quiet"]
    work = work_path(folder / "release.parquet")
    process = subprocess.Popen(command(*run), stderr=subprocess.PIPE, text=True, env=ENVIRONMENT)
    deadline = time.monotonic() + 60
    while not list(work.glob("place-*.result")) and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    second = finished(*run, "--force")
    assert second.returncode == 2
    assert "in progress" in second.stderr
    process.send_signal(number)
    message = process.communicate(timeout=60)[1]
    assert process.returncode == code
    assert "nothing was written" in message
    for text in (str(work), "personal data", "--resume", "gpuanon clean"):
        assert text in message
    cleaned = finished("clean", "release.parquet")
    assert f"removed {work}" in cleaned.stdout
    assert not work.exists()
    again = finished("clean", "release.parquet")
    assert "nothing" in again.stdout
    assert sorted(path.name for path in folder.iterdir()) == ["key", "recipe.toml", "registry.parquet"]


def main(monkeypatch, capsys, *arguments):
    monkeypatch.setattr(sys, "argv", ["gpuanon", *map(str, arguments)])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    return stopped.value.code, capsys.readouterr().err


@pytest.mark.parametrize("error", [cli.Interrupted, MemoryError, ZeroDivisionError, cli.Terminated])
def test_an_error_after_the_release_is_in_place_says_so(tmp_path, monkeypatch, capsys, error):
    pq.write_table(registry(200).select(COLUMNS), tmp_path / "registry.parquet")
    (tmp_path / "recipe.toml").write_text(RECIPE)
    monkeypatch.chdir(tmp_path)

    def fail(*_):
        raise error

    monkeypatch.setattr(releasing, "print_release", fail)
    code, message = main(monkeypatch, capsys, "protect", "registry.parquet", "recipe.toml", "-o", "release.parquet")
    assert code != 0
    assert "nothing was written" not in message
    assert "release.parquet" in message
    assert Path("release.parquet").exists()


def test_clean_refuses_what_gpuanon_did_not_make(tmp_path, monkeypatch, capsys):
    folder = work_path(tmp_path / "release.parquet")
    folder.mkdir(mode=0o700)
    (folder / "thesis.tex").write_text("years of work")
    code, message = main(monkeypatch, capsys, "clean", tmp_path / "release.parquet")
    assert code == 2
    assert "was not made by gpuanon" in message
    assert os.listdir(folder) == ["thesis.tex"]
