"""Read CSV files: separators and types are inferred, empty values are nulls."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa


def _options(path: Path, text: Collection[str], types: dict[str, pa.DataType] | None = None) -> dict[str, Any]:
    """Options of the CSV reader.

    An empty value is null, as is an unquoted NA or NaN; a quoted one is text.  So files of pyarrow, R and pandas are
    read back unchanged.
    """
    import pyarrow as pa
    import pyarrow.csv as csv

    head = _head(path)
    separator = max(",;\t", key=head.count)
    return {
        "parse_options": csv.ParseOptions(
            delimiter=separator, newlines_in_values=True, ignore_empty_lines=separator in head
        ),
        "convert_options": csv.ConvertOptions(
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            column_types=types or {name: pa.string() for name in text},
        ),
    }


def _head(path: Path) -> str:
    """The first line, without quoted text."""
    import pyarrow as pa

    with pa.input_stream(str(path), compression="gzip" if path.name.lower().endswith(".gz") else None) as stream:
        start = stream.read(1 << 16).decode("utf-8", errors="replace")
    return (re.sub(r'"[^"]*"', "", start).splitlines() or [""])[0]


def read_csv(path: Path, text: Collection[str]) -> pa.Table:
    """The whole CSV; types are inferred from all of its rows."""
    import pyarrow.csv as csv

    return _checked(csv.read_csv(path, **_options(path, text)))


def _checked(table: pa.Table) -> pa.Table:
    """The table, unless a column is not UTF-8: pyarrow would read it as bytes, which cannot be masked."""
    import pyarrow as pa

    odd = [
        name for name, type_ in zip(table.schema.names, table.schema.types, strict=True) if pa.types.is_binary(type_)
    ]
    if odd:
        raise InputError(f"not UTF-8 text in {', '.join(map(repr, odd))}", hint="save the file as UTF-8")
    return table


def open_csv(path: Path, text: Collection[str]) -> tuple[pa.Schema, int, Callable[[int], Iterator[pa.RecordBatch]]]:
    """Schema, rows and batches of a CSV: a first pass widens the types until they fit the whole file."""
    import pyarrow as pa
    import pyarrow.csv as csv

    types: dict[str, pa.DataType] = {name: pa.string() for name in text}
    while True:
        reader = csv.open_csv(path, **_options(path, text, types))
        schema = reader.schema
        rows = 0
        try:
            for batch in reader:
                rows += batch.num_rows
            break
        except pa.ArrowInvalid as error:
            misfit = re.search(r"In CSV column #(\d+)", str(error))
            if not misfit or pa.types.is_string(schema.field(int(misfit[1])).type):
                raise
            wide = schema.field(int(misfit[1]))
            types |= {f.name: f.type for f in schema} | {wide.name: _wider(wide.type)}

    final = {f.name: f.type for f in schema}

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        for batch in csv.open_csv(path, **_options(path, text, final)):
            yield from pa.Table.from_batches([batch]).to_batches(max_chunksize=rows)

    return _checked(schema.empty_table()).schema, rows, batches


def _wider(type_: pa.DataType) -> pa.DataType:
    """The next wider type: null, int64, float64, string."""
    import pyarrow as pa

    if pa.types.is_null(type_):
        return pa.int64()
    return pa.float64() if pa.types.is_integer(type_) else pa.string()
