"""The format of a file, by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

Format: TypeAlias = Literal["parquet", "csv", "csv.gz", "arrow", "parts"]

ALLOWED = ".parquet, .csv, .csv.gz, .arrow, or a folder of Parquet parts"
_SUFFIXES: dict[str, Format] = {".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv.gz", ".arrow": "arrow"}


def format_of(path: Path) -> Format | None:
    """The format by suffix; a folder, or a name without suffix, means Parquet parts.  None for an unknown suffix."""
    name = path.name.lower()
    for suffix, form in _SUFFIXES.items():
        if name.endswith(suffix) and len(name) > len(suffix):
            return form
    return "parts" if path.is_dir() or "." not in name.lstrip(".") else None


def suffix_of(path: Path) -> str:
    """The suffix, for messages."""
    return "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix
