"""Requests to stop a run, kept until they are honoured.

A signal handler raises at whatever the main thread is executing.  Inside an import that compiled code has started the
exception may be swallowed, and the run would continue, or turned into another.  So the request is stored, and `check`
raises it again: at every progress report, and before outputs are moved into place.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

_request: BaseException | None = None


def interrupt(request: BaseException) -> NoReturn:
    """Stop the run with this exception, now or at the next `check`."""
    global _request
    _request = request
    raise request


def requested() -> BaseException | None:
    """The stored request to stop, if there is one."""
    return _request


def check() -> None:
    """Raise the stored request to stop, if there is one."""
    if _request is not None:
        raise _request


@contextmanager
def only_here() -> Iterator[None]:
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
