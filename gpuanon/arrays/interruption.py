"""A request to stop that is not lost.

A signal's handler raises where the main thread happens to be.  Inside an import that compiled code has started, the
exception may be dropped, and the run would go on to its end.  So the request is remembered: the work asks for it
whenever it reports progress, and once more before outputs are put in place.
"""

from __future__ import annotations

from typing import NoReturn

_request: BaseException | None = None


def interrupt(request: BaseException) -> NoReturn:
    """Stop the run with this exception, now or at the next `check`."""
    global _request
    _request = request
    raise request


def check() -> None:
    """Raise the request to stop, if there was one."""
    if _request is not None:
        raise _request
