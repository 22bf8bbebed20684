"""The one family of exceptions.

A message names the parameter or column, what is allowed, what came, and ends in a hint.
It never holds a cell value, a key or a seed.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from gpuanon.visible import visible


class GpuanonError(Exception):
    """Anything that this package refuses to do.  `exit_code` is what the command line returns.

    Examples
    --------
    >>> import gpuanon
    >>> try:
    ...     gpuanon.Key(b"short")
    ... except gpuanon.GpuanonError as error:
    ...     print(error)
    key: at least 16 bytes are needed
    Hint: 'openssl rand -hex 32 > key.txt' makes a good one
    """

    exit_code = 2

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(visible(message if hint is None else f"{message}\nHint: {hint}"))
        self.hint = hint


class ParameterError(GpuanonError, ValueError):
    """A parameter is outside of what is allowed."""


class RecipeError(GpuanonError, ValueError):
    """The recipe is malformed or does not fit the table; every fault is named at once."""


class InputError(GpuanonError, ValueError):
    """A file or a table cannot be read or masked as it is."""


class OutputError(GpuanonError):
    """The release could not be written; nothing was left behind."""


class FormatError(OutputError):
    """The format cannot store a column; a second try would meet it again."""


class BackendError(GpuanonError, RuntimeError):
    """The requested device or library is not there, or cannot hold the work."""


class GuaranteeError(GpuanonError):
    """The release does not keep what the recipe promises; nothing was written."""

    exit_code = 1


class Remark(str):
    """A note that this package adds to an error (`add_note`), fit to be shown; notes of others may quote values."""


def nearest(name: str, known: Iterable[str]) -> str:
    """``"; did you mean 'role'?"``: the end of a message on a name that there is not; empty if no other is near."""
    lowered = {other.lower(): other for other in known if other != name}
    near = get_close_matches(name.lower(), lowered, n=1)
    return f"; did you mean {lowered[near[0]]!r}?" if near else ""
