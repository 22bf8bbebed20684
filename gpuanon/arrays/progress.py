"""Who wants to know how far a long run has come.

The work says `with stage("groups"): ...` and the thread pool says how many of its batches are done; a face
(the command line) may listen.  Nobody listening costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from gpuanon.arrays import interruption

Listener: TypeAlias = Callable[[str, float], None]
"""Called with the stage's name and the share of it that is done, 0 to 1."""

_listener: Listener | None = None
_stage = ""


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell `listener` what happens inside."""
    global _listener
    previous, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = previous


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name the work that is done inside."""
    global _stage
    previous, _stage = _stage, name
    report(0.0)
    try:
        yield
        report(1.0)
    finally:
        _stage = previous


def report(done: float) -> None:
    """Say what share of the current stage is done; a run that is to stop stops here."""
    interruption.check()
    if _listener is not None and _stage:
        _listener(_stage, done)
