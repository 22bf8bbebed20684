"""CSV files, compressed or not: values as text; the release of a CSV is written as the CSV was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.tables.formats import Append, Format, Opened

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuanon.tables.formats.csv.csv_styles import CsvDialect


def _read(path: Path, dialect: Any) -> tuple[pa.Table, tuple[str, ...]]:
    """dialect : `CsvColumns` and `CsvOptions`."""
    from gpuanon.tables.formats.csv.csv_files import read_csv

    return read_csv(path, *dialect)


def _open(path: Path, dialect: Any) -> Opened:
    from gpuanon.tables.formats.csv.csv_files import open_csv

    return Opened(*open_csv(path, *dialect))


@contextmanager
def _append(
    file: IO[bytes], schema: pa.Schema, compressed: bool, dialect: CsvDialect | None = None
) -> Iterator[Append]:
    import pyarrow as pa

    from gpuanon.tables.formats.csv.csv_styles import CsvDialect

    dialect = dialect or CsvDialect()
    with pa.CompressedOutputStream(file, "gzip") if compressed else pa.PythonFile(file, "w") as sink:
        mark = {"utf-16": b"\xff\xfe", "utf-32": b"\xff\xfe\0\0"}.get(dialect.encoding, b"")
        sink.write(mark + dialect.header(schema.names))
        yield lambda rows: sink.write(dialect.lines(rows))


def _reread(
    path: Path, columns: Sequence[str], compressed: bool, dialect: CsvDialect | None = None
) -> Iterator[pa.Table]:
    """The texts: what is equal as a number may be written as different ones."""
    import pyarrow as pa
    import pyarrow.csv as csv

    file = pa.OSFile(str(path))
    source = pa.CompressedInputStream(file, "gzip") if compressed else file
    text = csv.ConvertOptions(
        include_columns=list(columns),
        column_types=dict.fromkeys(columns, pa.string()),
        null_values=[""],
        strings_can_be_null=True,
        quoted_strings_can_be_null=False,  # an empty text is quoted, a null is not
    )
    quoted = csv.ParseOptions(newlines_in_values=True, delimiter="," if dialect is None else dialect.separator)
    read = csv.ReadOptions(encoding="utf-8" if dialect is None else dialect.encoding)
    with source, csv.open_csv(source, read, quoted, text) as lines:
        for batch in lines:
            yield pa.Table.from_batches([batch])


CSV = Format(
    "csv",
    (".csv",),
    _read,
    _open,
    append=partial(_append, compressed=False),
    reread=partial(_reread, compressed=False),
    becomes={
        "decimal": "float", "duration": "whole number", "levels": "text", "ordered levels": "text",
        "levels of numbers": "whole number",
    },
    refuses={
        "binary": "bytes are not text", "other": "there is no text for its values",
        **dict.fromkeys(("list", "structure", "map"), "a cell of a CSV holds one value"),
    },
    is_text=True,
)  # fmt: skip
CSV_GZ = replace(
    CSV,
    name="csv.gz",
    suffixes=(".csv.gz",),
    append=partial(_append, compressed=True),
    reread=partial(_reread, compressed=True),
)
