"""Spreadsheets, by fastexcel: the first sheet of a workbook, its first row the header."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.errors import InputError
from gpuanon.tables.formats import Format

if TYPE_CHECKING:
    import pyarrow as pa


def _read(path: Path, dialect: Any) -> tuple[pa.Table, tuple[str, ...]]:
    import fastexcel
    import pyarrow as pa

    try:
        book = fastexcel.read_excel(str(path))
        table = pa.Table.from_batches([pa.record_batch(book.load_sheet(0).to_arrow())])
    except fastexcel.FastExcelError:
        raise InputError("cannot be read: truncated, corrupt or of another kind") from None
    more = len(book.sheet_names) - 1
    return table, (f"{path.name}: the first of {more + 1} sheets was read",) if more else ()


SPREADSHEET = Format("excel", (".xlsx", ".xls", ".xlsb", ".ods"), _read, needs=("fastexcel",))
