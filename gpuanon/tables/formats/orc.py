"""ORC files, in stripes; timestamps are stored in nanoseconds, and levels as their values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.tables.formats import Append, Format, Opened

if TYPE_CHECKING:
    import pyarrow as pa


def _read(path: Path, dialect: Any) -> tuple[pa.Table, tuple[str, ...]]:
    from pyarrow import orc

    return orc.ORCFile(path).read(), ()


def _open(path: Path, dialect: Any) -> Opened:
    from pyarrow import orc

    file = orc.ORCFile(path)

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for stripe in range(file.nstripes):
            yield from pa.Table.from_batches([file.read_stripe(stripe)]).to_batches(max_chunksize=rows)

    return Opened(file.schema, file.nrows, batches)


@contextmanager
def _append(file: IO[bytes], schema: pa.Schema) -> Iterator[Append]:
    import pyarrow as pa
    from pyarrow import orc

    from gpuanon.tables.arrow import empty_table

    written = False
    with orc.ORCWriter(file, compression="zstd") as writer:

        def append(rows: pa.Table) -> None:
            nonlocal written
            writer.write(pa.table([_stored(column) for column in rows.columns], names=rows.column_names))
            written = True

        yield append
        if not written:
            append(empty_table(schema))


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that ORC has; raises where a value would change."""
    import pyarrow as pa

    from gpuanon.tables.values import plain

    column, types = plain(column), pa.types
    if types.is_unsigned_integer(column.type):
        return column.cast(pa.int64())
    if types.is_float16(column.type):
        return column.cast(pa.float32())
    if types.is_date64(column.type):
        return column.cast(pa.date32())
    return column.cast(pa.timestamp("ns", column.type.tz)) if types.is_timestamp(column.type) else column


def _reread(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    import pyarrow as pa
    from pyarrow import orc

    file = orc.ORCFile(path)
    for stripe in range(file.nstripes):
        yield pa.Table.from_batches([file.read_stripe(stripe, columns=list(columns))])


ORC = Format(
    "orc",
    (".orc",),
    _read,
    _open,
    append=_append,
    reread=_reread,
    becomes={"levels": "text", "ordered levels": "text", "levels of numbers": "whole number"},
    refuses={
        "time of day": "ORC has no times of day; convert the column to text",
        "duration": "ORC has no durations; convert the column to a number",
        "nulls only": "ORC has no type for a column without values; drop it",
        "other": "ORC has no type for its values",
    },
)
