"""ORC files, in stripes; timestamps are stored in nanoseconds, and levels as their values."""

from __future__ import annotations

from collections.abc import Iterator
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

    return Opened(file.schema, file.nrows, batches, ())


@contextmanager
def _append(file: IO[bytes], schema: pa.Schema) -> Iterator[Append]:
    import pyarrow as pa
    from pyarrow import orc

    with orc.ORCWriter(file, compression="zstd") as writer:
        yield lambda rows: writer.write(pa.table([*map(_stored, rows.columns)], names=rows.column_names))


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


ORC = Format(
    "orc",
    (".orc",),
    _read,
    _open,
    append=_append,
    becomes={"levels": "text", "ordered levels": "text", "levels of numbers": "whole number"},
    refuses={
        "time of day": "ORC has no times of day; convert the column to text",
        "duration": "ORC has no durations; convert the column to a number",
        "nulls only": "ORC has no type for a column without values; drop it",
        "other": "ORC has no type for its values",
    },
)
