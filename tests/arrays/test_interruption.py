"""A request to stop that compiled code has swallowed still stops the run, and no output is written."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress

import pytest

from gpuanon.arrays import progress
from gpuanon.tables.formats import io


class Stop(BaseException):
    pass


@pytest.fixture
def dropped(monkeypatch):
    monkeypatch.setattr(progress, "_request", None)
    with suppress(Stop):  # as in an import started by compiled code
        progress.interrupt(Stop())


def test_without_a_request_nothing_stops(tmp_path):
    progress.check_interrupt()
    progress.report(0.5)
    with io.Writing() as out:
        out.text(tmp_path / "a.txt", "a")
    assert (tmp_path / "a.txt").read_text() == "a"


def test_a_request_stops_at_once(monkeypatch):
    monkeypatch.setattr(progress, "_request", None)
    with pytest.raises(Stop):
        progress.interrupt(Stop())


@pytest.mark.usefixtures("dropped")
def test_a_dropped_request_stops_at_the_next_report():
    with pytest.raises(Stop), progress.stage("groups"):
        pytest.fail("the stage was begun")


@pytest.mark.usefixtures("dropped")
def test_after_a_dropped_request_no_output_is_put_in_place(tmp_path):
    with pytest.raises(Stop), io.Writing() as out:
        out.text(tmp_path / "a.txt", "a")
    assert not list(tmp_path.iterdir())


BLOCKED = "import signal; print(signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))"


def test_processes_that_are_started_inside_do_not_get_an_interrupt():
    def blocked():
        return subprocess.run([sys.executable, "-c", BLOCKED], capture_output=True, text=True, check=True).stdout

    with progress.interrupts_here():
        assert blocked() == "True\n"
    assert blocked() == "False\n"
