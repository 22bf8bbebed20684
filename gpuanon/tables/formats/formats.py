"""The format of a file, by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

Format: TypeAlias = Literal[
    "parquet", "csv", "csv.gz", "arrow", "parts", "dta", "sav", "por", "sas7bdat", "xpt", "excel"
]  # fmt: skip

ALLOWED = (
    ".parquet, .csv, .csv.gz, .arrow, or a folder of Parquet parts"
    " (with gpuanon[formats] also .dta and .sav, and to read .sas7bdat, .xpt, .por, .xlsx, .xls, .ods)"
)
READ_ONLY: tuple[Format, ...] = ("por", "sas7bdat", "xpt", "excel")
FOREIGN: tuple[Format, ...] = ("dta", "sav", *READ_ONLY)
"""Formats of other programs, by libraries of the extra ``formats``; read and written whole."""
_SUFFIXES: dict[str, Format] = {
    ".parquet": "parquet", ".csv": "csv", ".csv.gz": "csv.gz", ".arrow": "arrow", ".dta": "dta", ".sav": "sav",
    ".zsav": "sav", ".por": "por", ".sas7bdat": "sas7bdat", ".xpt": "xpt", ".xlsx": "excel", ".xls": "excel",
    ".xlsb": "excel", ".ods": "excel",
}  # fmt: skip


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
