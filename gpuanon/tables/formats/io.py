"""Read tables from files: whole, in batches, and again as they were written.  `Writing` and `write` write them.

Errors never quote the content of a file; pyarrow's own messages contain values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gpuanon.arrays.rng import Key
from gpuanon.errors import InputError
from gpuanon.tables.class_counts import HELD, count_classes, smallest_of
from gpuanon.tables.formats import (
    Format,
    Opened,
    find_format,
    format_of,
    known_formats,
    suffix_of,
    translate_read_errors,
)
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.formats.csv.csv_types import CsvColumns
from gpuanon.tables.formats.writing import Writing, check_output, write
from gpuanon.tables.row_bits import keyed_rows
from gpuanon.tables.schema import Kind
from gpuanon.tables.table import Table
from gpuanon.tables.values import plain

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Source", "Writing", "check_output", "holds", "open", "read", "smallest_classes", "write"]

BATCH_ROWS = 1 << 18


@dataclass(frozen=True)
class Source(Opened):
    """An opened file or folder."""

    path: Path
    form: Format

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Table]:
        """The rows in order, at most `rows` at a time; no batch for an empty table."""
        import pyarrow as pa

        with translate_read_errors(self.path, self.form.name):
            for batch in self.pieces(rows):
                if batch.num_rows:
                    yield Table.of(pa.Table.from_batches([batch]))


def open(
    path: str | Path, text: Collection[str] = (), *, csv: CsvOptions | None = None, columns: CsvColumns | None = None
) -> Source:
    """Open a table that may be larger than memory; the parameters are those of `read`."""
    path, form = _path_and_format(Path(path))
    with translate_read_errors(path, form.name):
        return Source(**vars(form.opened(path, _dialect(text, csv, columns))), path=path, form=form)


def read(
    path: str | Path, text: Collection[str] = (), *, csv: CsvOptions | None = None, columns: CsvColumns | None = None
) -> Table:
    """Read a table as Arrow.

    Parameters
    ----------
    path    : a file of a known format, told by its suffix, or a folder of Parquet parts (read in the order of their
              names)
    text    : columns of a CSV that stay text
    csv     : the form of a CSV; by default the separator is detected, and the encoding is UTF-8
    columns : which columns of a CSV are converted to the type that their values have; None for all

    Raises
    ------
    InputError : the file is missing, of another kind, truncated or corrupt

    Examples
    --------
    >>> import gpuanon
    >>> from pathlib import Path
    >>> _ = Path("registry.csv").write_text("age;cost\\n31;1.5\\n35;2.5\\n")
    >>> table = gpuanon.read("registry.csv")
    >>> table.n_rows, table.names
    (2, ('age', 'cost'))
    """
    path, form = _path_and_format(Path(path))
    with translate_read_errors(path, form.name):
        table, notes = form.read(path, _dialect(text, csv, columns))
        return Table.of(table).with_notes(notes)


def _dialect(
    text: Collection[str], csv: CsvOptions | None, columns: CsvColumns | None
) -> tuple[CsvColumns, CsvOptions]:
    """Which columns of a CSV are converted (those in `text` are not), and its form."""
    given = columns or CsvColumns()
    kinds: dict[str, Kind | None] = {**given.kinds, **dict.fromkeys(text, "categorical")}
    return CsvColumns(kinds, given.rest, given.missing), csv or CsvOptions()


def _path_and_format(path: Path) -> tuple[Path, Format]:
    """The path and its format; raises if it does not exist or cannot be read as a table."""
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", hint=f"a table is {known_formats()}")
    if not (path.is_file() or path.is_dir()):
        raise InputError(
            f"{path}: is a pipe or a device, and a table is read more than once", hint="write it to a file first"
        )
    form = find_format(path)
    if form is None or form.is_folder != path.is_dir():
        what = f"suffix {suffix_of(path)!r}" if form is None or not path.is_dir() else "a folder with a file's suffix"
        raise InputError(f"{path}: {what} is not one of {known_formats()}")
    form.check_installed(path, InputError)
    return path, form


C = TypeVar("C", bound="Classes")


class Classes(Protocol):
    """See `gpuanon.masking.claims.Counted`."""

    @property
    def columns(self) -> tuple[str, ...]: ...
    @property
    def wildcard(self) -> bool: ...
    @property
    def covered(self) -> bool: ...


def smallest_classes(written: Path, name: Path, counted: Sequence[C], rows: int, dialect: Any = None) -> dict[C, int]:
    """Rows of the smallest of each kind of classes.

    written : where the file or folder lies
    name    : its final name, which tells the format
    rows    : that it holds
    dialect : in which it was written
    """
    found = dict.fromkeys(counted, rows)
    columns = tuple(dict.fromkeys(column for classes in counted for column in classes.columns))
    wanted = [(classes.columns, classes.wildcard, classes.covered) for classes in counted]
    rounds = max(1, -(-rows // HELD))
    with keyed_rows(Key.fresh()):
        for share in range(rounds if counted else 0):
            pieces = [
                count_classes(piece, wanted, (share, rounds)) for piece in _pieces(written, name, columns, dialect)
            ]
            for number, classes in enumerate(counted):
                smallest = smallest_of([piece[number] for piece in pieces])
                found[classes] = min(found[classes], smallest or rows)
    return found


def holds(written: Path, name: Path, table: Table, columns: Sequence[str], dialect: Any = None) -> bool:
    """Whether a file holds these columns of `table`, row by row and to the bit.

    Then its classes are those of the table.  False also where values come back as another type: numbers from text.
    """
    at = 0
    for piece in _pieces(written, name, columns, dialect):
        pairs = ((piece.arrow(column), table.arrow(column).slice(at, piece.n_rows)) for column in columns)
        if not all(same_bits(one, other) for one, other in pairs):
            return False
        at += piece.n_rows
    return at == table.n_rows


def same_bits(one: pa.ChunkedArray, other: pa.ChunkedArray) -> bool:
    """Whether two columns have the same type, nulls and values; floats by their bits."""
    import pyarrow as pa

    one, other = plain(one), plain(other)
    if one.type != other.type:
        return False
    if pa.types.is_floating(one.type):
        whole = {16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[one.type.bit_width]
        one, other = (pa.chunked_array([c.view(whole) for c in column.chunks], whole) for column in (one, other))
    return bool(one.equals(other))


def _pieces(written: Path, name: Path, columns: Sequence[str], dialect: Any) -> Iterator[Table]:
    """The columns of a written table, piece by piece, as anybody else would read them."""
    return map(Table.of, format_of(name).speaking(dialect).written(written, columns))
