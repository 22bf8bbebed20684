"""Names of files of every format, the content of a folder, and error messages, for tests of reading and writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuanon.errors import GpuanonError, InputError

FORMATS = ("t.parquet", "t.arrow", "t.csv", "t.csv.gz", "parts")


def left_behind(folder: Path) -> list[str]:
    """Everything in the folder, hidden files too."""
    return sorted(entry.name for entry in folder.iterdir())


def error_message(call: Callable[[], object], kind: type[GpuanonError] = InputError) -> str:
    """The message of a call's error, which must not chain another one, whose text may quote values."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)
