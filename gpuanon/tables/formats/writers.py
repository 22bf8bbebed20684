"""Functions that append rows to a file or folder of each format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.tables.arrow import arrow_scalar, empty_table, numpy_array
from gpuanon.tables.formats.formats import FOREIGN, Format
from gpuanon.tables.formats.statistical import write_table as write_foreign

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 18


_SAMPLE = 4096
_WORTH = 0.9  # of its size, to which a column has to be compressed


def parquet_settings(rows: pa.Table) -> dict[str, Any]:
    """Settings of a Parquet file: floats are stored as they are, everything else through dictionaries.

    Of a million rows of 10 columns of floats most values are different: their dictionaries take 70 % of the time of
    writing and most of that of reading, and make the file larger (microaggregated ones: smaller by a tenth).  Such
    floats are not compressed either: zstd takes most of the time of writing for 4 % of the size.  Whether a column of
    floats is worth it is tried on its first values.
    """
    import pyarrow as pa

    floats = [name for name in rows.column_names if pa.types.is_floating(rows.schema.field(name).type)]
    raw = {name for name in floats if not _compressible(rows[name])}
    paths = _paths(rows.schema)
    return {
        "use_dictionary": [path for path in paths if path not in floats],
        "compression": {path: "none" if path in raw else "zstd" for path in paths},
        "write_page_checksum": True,
    }


def _paths(schema: pa.Schema) -> list[str]:
    """The columns as Parquet names them: those of lists and structures are inside them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if not any(pa.types.is_nested(field.type) for field in schema):
        return list(schema.names)
    file = pa.BufferOutputStream()
    pq.write_table(empty_table(schema), file)
    stored = pq.read_metadata(pa.BufferReader(file.getvalue())).schema
    return [stored.column(at).path for at in range(len(stored))]


def _compressible(column: pa.ChunkedArray) -> bool:
    """Whether zstd makes the first values of a column smaller by a tenth or more."""
    import pyarrow as pa

    sample = column.slice(0, _SAMPLE).combine_chunks()
    values = numpy_array(sample.fill_null(arrow_scalar(0, sample.type))).tobytes()
    return not values or len(pa.compress(values, "zstd", asbytes=True)) < _WORTH * len(values)


def write_parquet(rows: pa.Table, path: Path) -> None:
    """Write one Parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(rows, path, row_group_size=ROW_GROUP, **parquet_settings(rows))


@contextmanager
def parts_writer(folder: Path, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """A function that writes the next part; a table without rows becomes one part without rows."""
    written = 0

    def write_part(rows: pa.Table) -> None:
        nonlocal written
        path = folder / f"part-{written:05d}.parquet"
        write_parquet(rows, path)
        written += 1

    yield write_part
    if not written:
        write_part(empty_table(schema))


@contextmanager
def file_writer(form: Format, file: IO[Any], schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """A function that appends rows to an open file of this format."""
    import pyarrow as pa
    import pyarrow.csv as csv

    if form in FOREIGN:
        pieces: list[pa.Table] = []
        yield pieces.append
        write_foreign(pa.concat_tables(pieces) if pieces else empty_table(schema), form, file)
    elif form == "parquet":
        import pyarrow.parquet as pq

        with ExitStack() as closing:
            writers: list[pq.ParquetWriter] = []

            def append(rows: pa.Table) -> None:
                if not writers:  # its settings depend on the first rows
                    made = pq.ParquetWriter(file, schema, **parquet_settings(rows))
                    writers.append(closing.enter_context(made))
                writers[0].write_table(rows, row_group_size=ROW_GROUP)

            yield append
            if not writers:
                append(empty_table(schema))
    elif form == "arrow":
        with pa.ipc.new_file(file, schema) as stream:
            yield lambda rows: stream.write_table(rows.unify_dictionaries(), max_chunksize=ROW_GROUP)
    else:
        sink = pa.CompressedOutputStream(file, "gzip") if form == "csv.gz" else pa.PythonFile(file, "w")
        single = len(schema) == 1
        with sink, csv.CSVWriter(sink, _texts(empty_table(schema)).schema if single else schema) as lines:
            yield lambda rows: lines.write_table(_texts(rows) if single else rows)


def _texts(rows: pa.Table) -> pa.Table:
    """A single column as text without nulls: most readers skip an empty line, and a null would be one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = rows.column(0)
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    return pa.table({rows.column_names[0]: pc.fill_null(column.cast(pa.string()), arrow_scalar("", pa.string()))})
