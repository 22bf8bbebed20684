"""Progress reports of long runs, and requests to stop them.

Code names its stages, `with stage("groups"): ...`, and the thread pool reports how many of its batches are done.  A
listener (such as the command line's progress bar) receives the reports; without a listener they cost nothing.

A signal handler raises at whatever the main thread is executing.  Inside an import that compiled code has started the
exception may be swallowed, and the run would continue, or turned into another.  So the request is stored, and
`check_interrupt` raises it again: at every progress report, and before outputs are moved into place.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import NoReturn, TypeAlias

from gpuanon.arrays import ledger

_request: BaseException | None = None


def interrupt(request: BaseException) -> NoReturn:
    """Stop the run with this exception, now or at the next `check_interrupt`."""
    global _request
    _request = request
    raise request


def interrupt_requested() -> BaseException | None:
    """The stored request to stop, if there is one."""
    return _request


def check_interrupt() -> None:
    """Raise the stored request to stop, if there is one."""
    if _request is not None:
        raise _request


@contextmanager
def interrupts_here() -> Iterator[None]:
    """Processes started inside this block do not get the terminal's Ctrl-C: the one that started them ends them.

    Otherwise each prints a traceback of its own, between which the message of the command is lost.
    """
    if not hasattr(signal, "pthread_sigmask"):  # not a POSIX system
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # starting it later would unblock the signal again
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


Listener: TypeAlias = Callable[[str, float], None]
"""Called with the name of the stage and the share of it that is done, 0 to 1."""

_listener: Listener | None = None
_stage = ""
_here = threading.local()  # `span`: share of the stage that reports of this thread are about, and how far it is


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Send the progress reports of the block to `listener`."""
    global _listener
    previous, _listener = _listener, listener
    try:
        yield
    finally:
        _listener = previous


@contextmanager
def stage(name: str) -> Iterator[None]:
    """Name the stage that the block carries out."""
    global _stage
    previous, _stage = _stage, name
    report(0.0)
    written = ledger.current()
    try:
        with nullcontext() if written is None else written.stage(name):
            yield
        report(1.0)
    finally:
        _stage = previous


@contextmanager
def share(low: float, high: float) -> Iterator[None]:
    """Reports of the block, 0 to 1, are about this share of the stage; they never go back."""
    previous = getattr(_here, "span", None)
    _here.span = [low, high, low]
    try:
        yield
        report(1.0)
    finally:
        _here.span = previous


@contextmanager
def silent() -> Iterator[None]:
    """Reports of this thread inside the block are not sent; a pending request to stop is raised all the same."""
    previous = getattr(_here, "span", None)
    _here.span = ()
    try:
        yield
    finally:
        _here.span = previous


def report(done: float) -> None:
    """Report the share of the current stage that is done; raise a pending request to stop."""
    reporter()(done)


def note(text: str) -> None:
    """Say in words how far the current stage is, to a listener that shows words."""
    show = getattr(_listener, "note", None)
    if show is not None and _stage:
        show(_stage, text)


def reporter() -> Callable[[float], None]:
    """`report` of this thread, which other threads that work for it may call, one at a time."""
    span = getattr(_here, "span", None)

    def send(done: float) -> None:
        check_interrupt()
        if span == () or _listener is None or not _stage:
            return
        if span is not None:
            low, high, reached = span
            done = span[2] = max(reached, low + (high - low) * done)
        _listener(_stage, done)

    return send
