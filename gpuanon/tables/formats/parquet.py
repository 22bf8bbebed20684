"""Parquet files, and folders of them: read in row groups, so that workers share one table."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.errors import InputError
from gpuanon.tables.formats import Append, Format, Opened, known_formats, translate_read_errors, without_pandas_index

if TYPE_CHECKING:
    import pyarrow as pa

ROW_GROUP = 1 << 18
_SAMPLE = 4096
_WORTH = 0.9  # of its size, to which a column has to be compressed


def _file(path: Path) -> Any:
    """Open a Parquet file; its checksums, if any, are verified."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True)


def parquet_files(path: Path) -> list[Path]:
    """The files of a Parquet table: itself, or those of a folder in the order of their names."""
    if not path.is_dir():
        return [path]
    parts = sorted(p for p in path.iterdir() if p.suffix.lower() == ".parquet" and p.name[0] not in "._")
    if not parts:
        raise InputError(f"{path}: holds no .parquet file", hint=f"a table is {known_formats()}")
    return parts


def _with_equal_schemas(parts: list[Path]) -> list[Path]:
    """The parts; raises if their schemas differ."""
    import pyarrow.parquet as pq

    first: pa.Schema | None = None
    for part in parts:
        with translate_read_errors(part, "parquet"):
            schema = pq.read_schema(part).remove_metadata()
        first = schema if first is None else first
        if not schema.equals(first):
            raise InputError(f"{part}: has other columns or types than {parts[0].name}")
    return parts


def _read(path: Path, dialect: Any) -> tuple[pa.Table, tuple[str, ...]]:
    import pyarrow as pa

    tables = []
    for part in _with_equal_schemas(parquet_files(path)):
        with translate_read_errors(part, "parquet"):
            tables.append(_file(part).read())
    return without_pandas_index(pa.concat_tables(tables)), ()


def _open(path: Path, dialect: Any) -> Opened:
    """The files one after the other."""
    import pyarrow as pa

    from gpuanon.tables.arrow import empty_table

    parts = _with_equal_schemas(parquet_files(path))
    files = [_file(part) for part in parts]

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        for part, file in zip(parts, files, strict=True):
            with translate_read_errors(part, "parquet"):
                for batch in file.iter_batches(rows):
                    yield from without_pandas_index(pa.Table.from_batches([batch])).to_batches()

    schema = without_pandas_index(empty_table(files[0].schema_arrow)).schema
    return Opened(schema, sum(file.metadata.num_rows for file in files), batches, ())


def read_row_range(
    path: Path, groups: Sequence[int], skip: int, rows: int, columns: Collection[str] | None = None
) -> pa.Table:
    """Consecutive rows of a Parquet file, as Arrow; other row groups are not read.

    Parameters
    ----------
    groups  : row groups, in their order
    skip    : rows of these groups before the first one to read
    rows    : number of rows
    columns : names; None for all
    """
    import pyarrow as pa

    from gpuanon.tables.table import Table

    with translate_read_errors(path, "parquet"), _file(path) as file:
        held = sum(file.metadata.row_group(group).num_rows for group in groups)
        names = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
        if (skip, rows) == (0, held):
            found = file.read_row_groups(list(groups), columns=names)
        else:
            found = pa.Table.from_batches(_rows_inside(file, groups, skip, rows, names))
        if found.num_rows != rows:
            raise InputError(f"{path}: holds other rows than it did when the run began")
        return Table.of(without_pandas_index(found if names is None else found.select(names))).to_arrow()


def _rows_inside(
    file: Any, groups: Sequence[int], skip: int, rows: int, names: list[str] | None
) -> list[pa.RecordBatch]:
    """Batches of consecutive rows inside row groups; the rows before them are decoded and dropped."""
    batches, at, end = [], 0, skip + rows
    for batch in file.iter_batches(1 << 16, row_groups=list(groups), columns=names):
        begin, until = max(skip - at, 0), min(end - at, batch.num_rows)
        if begin < until:
            batches.append(batch.slice(begin, until - begin))
        at += batch.num_rows
        if at >= end:
            break
    return batches


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

    from gpuanon.tables.arrow import empty_table

    if not any(pa.types.is_nested(field.type) for field in schema):
        return list(schema.names)
    file = pa.BufferOutputStream()
    pq.write_table(empty_table(schema), file)
    stored = pq.read_metadata(pa.BufferReader(file.getvalue())).schema
    return [stored.column(at).path for at in range(len(stored))]


def _compressible(column: pa.ChunkedArray) -> bool:
    """Whether zstd makes the first values of a column smaller by a tenth or more."""
    import pyarrow as pa

    from gpuanon.tables.arrow import arrow_scalar, numpy_array

    sample = column.slice(0, _SAMPLE).combine_chunks()
    values = numpy_array(sample.fill_null(arrow_scalar(0, sample.type))).tobytes()
    return not values or len(pa.compress(values, "zstd", asbytes=True)) < _WORTH * len(values)


def write_parquet(rows: pa.Table, path: Path) -> None:
    """Write one Parquet file."""
    import pyarrow.parquet as pq

    pq.write_table(rows, path, row_group_size=ROW_GROUP, **parquet_settings(rows))


def spooled(batches: pa.RecordBatchReader, path: Path) -> Path:
    """Write all batches to one Parquet file, as they come; its path."""
    import pyarrow as pa

    with path.open("wb") as file, PARQUET.appending(file, batches.schema) as append:
        held: list[pa.RecordBatch] = []
        for batch in batches:
            held.append(batch)
            if sum(one.num_rows for one in held) >= ROW_GROUP:
                append(pa.Table.from_batches(held))
                held = []
        if held:
            append(pa.Table.from_batches(held))
    return path


def unify_parts(folder: Path, declared: Mapping[str, Sequence[Any] | None]) -> None:
    """Give ordered levels the same dictionary in all parts of a folder: readers take the order of the first part.

    Only parts that lack a level are written again.  Columns without an order keep the levels of their own part.

    declared : see `common_levels`
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    from gpuanon.tables.dictionaries import common_levels, with_levels
    from gpuanon.tables.table import Table

    files = sorted(folder.iterdir())
    schema = pq.read_schema(files[0])
    ordered = [field.name for field in schema if pa.types.is_dictionary(field.type) and field.type.ordered]
    if len(files) < 2 or not ordered:
        return

    def read(file: Path, columns: list[str] | None = None) -> pa.Table:
        return pq.read_table(file, columns=columns, partitioning=None).unify_dictionaries()

    levels = common_levels((Table.of(read(file, ordered)) for file in files), declared, ordered_only=True)
    for file in files:
        held = read(file, ordered)
        if any(not held[name].chunk(0).dictionary.equals(values) for name, values in levels.items()):
            hidden = file.with_name(f".{file.name}")  # the part has a second name in the workspace: not in place
            write_parquet(with_levels(read(file), levels), hidden)
            os.replace(hidden, file)


@contextmanager
def _append(file: IO[bytes], schema: pa.Schema) -> Iterator[Append]:
    import pyarrow.parquet as pq

    with ExitStack() as closing:
        writers: list[pq.ParquetWriter] = []

        def append(rows: pa.Table) -> None:
            if not writers:  # its settings depend on the first rows
                made = pq.ParquetWriter(file, schema, **parquet_settings(rows))
                writers.append(closing.enter_context(made))
            writers[0].write_table(rows, row_group_size=ROW_GROUP)

        yield append


@contextmanager
def _append_parts(folder: Path, schema: pa.Schema) -> Iterator[Append]:
    """Each piece becomes the next part."""
    numbers = count()
    yield lambda rows: write_parquet(rows, folder / f"part-{next(numbers):05d}.parquet")


def _reread(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    import pyarrow.parquet as pq

    for file in sorted(path.iterdir()) if path.is_dir() else [path]:
        with pq.ParquetFile(file) as parquet:
            for group in range(parquet.num_row_groups):
                yield parquet.read_row_group(group, columns=list(columns))


PARQUET = Format(
    "parquet",
    (".parquet",),
    _read,
    _open,
    append=_append,
    reread=_reread,
    becomes={"levels of numbers": "whole number"},
    refuses={"other": "Parquet has no type for its values"},
    divisible=True,
    views=True,
)
PARTS = replace(PARQUET, name="parts", suffixes=(), append=_append_parts)
