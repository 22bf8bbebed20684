"""Files of every format, what is left in a folder, and what an error tells: for the tests of reading and writing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuanon.errors import GpuanonError, InputError

FORMATS = ("t.parquet", "t.arrow", "t.csv", "t.csv.gz", "parts")


def left_behind(folder: Path) -> list[str]:
    """Everything in the folder, hidden files too."""
    return sorted(entry.name for entry in folder.iterdir())


def told(call: Callable[[], object], kind: type[GpuanonError] = InputError) -> str:
    """What the error of a call says; it must not carry another one, whose text may hold cells."""
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return str(caught.value)
