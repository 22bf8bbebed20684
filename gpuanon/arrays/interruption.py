"""Requests to stop a run, kept until they are honoured.

A signal handler raises at whatever the main thread is executing.  Inside an import that compiled code has started the
exception may be swallowed, and the run would continue, or turned into another.  So the request is stored, and `check`
raises it again: at every progress report, and before outputs are moved into place.
"""

from __future__ import annotations

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
