"""Classes of equal rows, counted on a file as it is written: for text formats on the text itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from gpuanon.tables.class_counts import HELD, count_classes, smallest_of
from gpuanon.tables.formats.formats import FOREIGN, format_of
from gpuanon.tables.formats.statistical import read_table as read_foreign
from gpuanon.tables.table import Table
from gpuanon.tables.values import plain

if TYPE_CHECKING:
    import pyarrow as pa

C = TypeVar("C", bound="Classes")


class Classes(Protocol):
    """See `gpuanon.masking.claims.Counted`."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def wildcard(self) -> bool: ...
    @property
    def covered(self) -> bool: ...


def smallest_classes(written: Path, name: Path, counted: Sequence[C], rows: int) -> dict[C, int]:
    """Rows of the smallest of each kind of classes.

    written : where the file or folder lies
    name    : its final name, which tells the format
    rows    : that it holds
    """
    found = dict.fromkeys(counted, rows)
    columns = tuple(dict.fromkeys(column for classes in counted for column in classes.columns))
    wanted = [(classes.columns, classes.wildcard, classes.covered) for classes in counted]
    rounds = max(1, -(-rows // HELD))
    for share in range(rounds if counted else 0):
        pieces = [count_classes(piece, wanted, (share, rounds)) for piece in _pieces(written, name, columns)]
        for number, classes in enumerate(counted):
            smallest = smallest_of([piece[number] for piece in pieces])
            found[classes] = min(found[classes], smallest or rows)
    return found


def holds(written: Path, name: Path, table: Table, columns: Sequence[str]) -> bool:
    """Whether a Parquet or Arrow file holds these columns of `table`, row by row and to the bit.

    Then its classes are those of the table.  False also where values cannot be compared: for text formats.
    """
    if format_of(name) not in ("parquet", "arrow"):
        return False
    at = 0
    for piece in _pieces(written, name, columns):
        pairs = ((piece.arrow(column), table.arrow(column).slice(at, piece.n_rows)) for column in columns)
        if not all(_same_bits(one, other) for one, other in pairs):
            return False
        at += piece.n_rows
    return at == table.n_rows


def _same_bits(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns have the same type, nulls and values; floats by their bits."""
    import pyarrow as pa

    one, other = plain(one), plain(other)
    if one.type != other.type:
        return False
    if pa.types.is_floating(one.type):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = (pa.chunked_array([c.view(whole) for c in column.chunks], whole) for column in (one, other))
    return bool(one.equals(other))


def _pieces(written: Path, name: Path, columns: Sequence[str]) -> Iterator[Table]:
    """The columns of a written table, piece by piece, as anybody else would read them."""
    import pyarrow as pa
    import pyarrow.csv as csv

    form = format_of(name)
    if form in ("parquet", "parts"):
        import pyarrow.parquet as pq

        for file in sorted(written.iterdir()) if form == "parts" else [written]:
            with pq.ParquetFile(file) as parquet:
                for group in range(parquet.num_row_groups):
                    yield Table.of(parquet.read_row_group(group, columns=list(columns)))
    elif form in FOREIGN:
        yield Table.of(read_foreign(written, form)[0].select(list(columns)))
    elif form == "arrow":
        with pa.memory_map(str(written)) as source:
            reader = pa.ipc.open_file(source)
            for at in range(reader.num_record_batches):
                yield Table.of(pa.Table.from_batches([reader.get_batch(at)]).select(list(columns)))
    else:
        file_ = pa.OSFile(str(written))
        source = pa.CompressedInputStream(file_, "gzip") if form == "csv.gz" else file_
        text = csv.ConvertOptions(
            include_columns=list(columns),
            column_types=dict.fromkeys(columns, pa.string()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,  # an empty text is quoted, a null is not
        )
        quoted = csv.ParseOptions(newlines_in_values=True)
        with source, csv.open_csv(source, parse_options=quoted, convert_options=text) as lines:
            for batch in lines:
                yield Table.of(pa.Table.from_batches([batch]))
