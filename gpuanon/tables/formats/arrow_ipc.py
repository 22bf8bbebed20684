"""Arrow files, and Arrow streams of the same suffix: every type, in its own layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.tables.formats import Append, Format, Opened, without_pandas_index

if TYPE_CHECKING:
    import pyarrow as pa

_BATCH = 1 << 18


def _reader(path: Path) -> Any:
    """Open a file, or a stream."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.OSFile(str(path)))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.OSFile(str(path)))


def _read(path: Path, dialect: Any) -> tuple[pa.Table, tuple[str, ...]]:
    whole = _reader(path).read_all()
    whole.validate(full=True)
    return without_pandas_index(whole), ()


def _open(path: Path, dialect: Any) -> Opened:
    """The batches of the file itself, cut where they are too large."""
    from gpuanon.tables.arrow import empty_table

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        reader = _reader(path)
        numbers = range(reader.num_record_batches) if hasattr(reader, "num_record_batches") else None
        found = (reader.get_batch(number) for number in numbers) if numbers is not None else iter(reader)
        for batch in found:
            batch.validate(full=True)
            yield from without_pandas_index(pa.Table.from_batches([batch])).to_batches(max_chunksize=rows)

    return Opened(without_pandas_index(empty_table(_reader(path).schema)).schema, None, batches, ())


@contextmanager
def _append(file: IO[bytes], schema: pa.Schema) -> Iterator[Append]:
    import pyarrow as pa

    with pa.ipc.new_file(file, schema) as stream:
        yield lambda rows: stream.write_table(rows.unify_dictionaries(), max_chunksize=_BATCH)


def _reread(path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        reader = pa.ipc.open_file(source)
        for at in range(reader.num_record_batches):
            yield pa.Table.from_batches([reader.get_batch(at)]).select(list(columns))


ARROW = Format(
    "arrow", (".arrow",), _read, _open, append=_append, reread=_reread, one_dictionary=True, views=True, run_ends=True
)
