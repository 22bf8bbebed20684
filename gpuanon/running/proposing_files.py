"""From a file to a proposal: how a CSV is to be read is found out first."""

from __future__ import annotations

import codecs
from pathlib import Path

from gpuanon.arrays import progress
from gpuanon.errors import InputError
from gpuanon.masking.methods.purposes import Purpose
from gpuanon.running.propose import Findings, examine
from gpuanon.tables.files import io
from gpuanon.tables.files.csv_files import CsvOptions
from gpuanon.tables.files.formats import format_of
from gpuanon.tables.table import Table
from gpuanon.tables.values import family

_DECIMAL_COMMA = r"^\s*[+-]?\d+,\d+\s*$"
_SAMPLE = 1000


def examine_file(path: Path, purpose: Purpose) -> tuple[Table, Findings]:
    """The table in a file, and what is found in it."""
    with progress.stage("read"):
        table, csv = read_any(path)
    return table, examine(table, purpose, source=path.name, csv=csv)


def read_any(path: Path) -> tuple[Table, CsvOptions | None]:
    """The table in a file; of a CSV also how it had to be read: in which encoding, with which decimal point.

    Text that is not UTF-8 is read as Windows-1252, in which every byte but five is a letter; columns of numbers with a
    decimal comma are read as numbers.
    """
    if format_of(path) not in ("csv", "csv.gz"):
        return io.read(path), None
    csv = CsvOptions()
    try:
        table = io.read(path, csv=csv)
    except InputError:
        if not path.is_file() or is_utf8(path):  # to open a pipe would wait for somebody to write
            raise
        csv = CsvOptions(encoding="windows-1252")
        table = io.read(path, csv=csv)
    if _decimal_commas(table):
        csv = csv.model_copy(update={"decimal": ","})
        table = io.read(path, csv=csv)
    return table, csv


def is_utf8(path: Path) -> bool:
    """Whether all of a file, decompressed, is UTF-8."""
    import pyarrow as pa

    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with pa.input_stream(str(path), compression="gzip" if path.suffix.lower() == ".gz" else None) as stream:
            while piece := stream.read(1 << 20):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _decimal_commas(table: Table) -> bool:
    """Whether a column of text holds numbers with a decimal comma only."""
    import pyarrow.compute as pc

    for name in table.names:
        column = table.arrow(name)
        if family(column.type) != "text":
            continue
        some = pc.match_substring_regex(column.drop_null().slice(0, _SAMPLE), _DECIMAL_COMMA)
        if len(some) and pc.all(some).as_py():
            return True
    return False
