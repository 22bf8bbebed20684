"""Read tables from files, whole or in batches, through pyarrow.

Errors never quote the content of a file; pyarrow's own messages contain values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.errors import InputError
from gpuanon.tables.arrow import empty_table
from gpuanon.tables.formats.csv.csv_files import CsvOptions, open_csv, read_csv
from gpuanon.tables.formats.csv.csv_types import CsvColumns
from gpuanon.tables.formats.formats import ALLOWED, FOREIGN, Format, format_of, suffix_of
from gpuanon.tables.formats.statistical import read_table as read_foreign
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    import pyarrow as pa

BATCH_ROWS = 1 << 18
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Source:
    """An opened file or folder: its schema is known, its rows are not read yet.

    schema : names and types of the columns
    rows   : number of rows; None if it is known only after reading
    notes  : what the steward should know of how the file is read
    """

    path: Path
    schema: pa.Schema
    rows: int | None
    _batches: Callable[[int], Iterator[pa.RecordBatch]] = field(repr=False)
    notes: tuple[str, ...] = ()

    def batches(self, rows: int = BATCH_ROWS) -> Iterator[Table]:
        """The rows in order, at most `rows` at a time; no batch for an empty table."""
        import pyarrow as pa

        with _translate_read_errors(self.path):
            for batch in self._batches(rows):
                if batch.num_rows:
                    yield Table.of(_without_pandas_index(pa.Table.from_batches([batch])))


def open(
    path: str | Path, text: Collection[str] = (), *, csv: CsvOptions | None = None, columns: CsvColumns | None = None
) -> Source:
    """Open a table that may be larger than memory; the parameters are those of `read`."""
    path, form = _path_and_format(Path(path))
    with _translate_read_errors(path):
        if form == "parts":
            return _open_parts(path)
        if form == "parquet":
            return _open_parquet(path)
        if form == "arrow":
            return _open_arrow(path)
        if form in FOREIGN:
            return _open_foreign(path, form)
        return Source(path, *open_csv(path, _csv_columns(text, columns), csv or CsvOptions()))


def read(
    path: str | Path, text: Collection[str] = (), *, csv: CsvOptions | None = None, columns: CsvColumns | None = None
) -> Table:
    """Read a table as Arrow.

    Parameters
    ----------
    path    : a ``.parquet``, ``.csv``, ``.csv.gz`` or ``.arrow`` file, or a folder of Parquet parts (read in the
              order of their names)
    text    : columns of a CSV that stay text
    csv     : the form of a CSV; by default the separator is detected, and the encoding is UTF-8
    columns : which columns of a CSV are converted to the type that their values have; None for all

    Raises
    ------
    InputError : the file is missing, of another kind, truncated or corrupt
    """
    path, form = _path_and_format(Path(path))
    with _translate_read_errors(path):
        if form in ("csv", "csv.gz"):
            table, notes = read_csv(path, _csv_columns(text, columns), csv or CsvOptions())
            return Table.of(table).with_notes(notes)
        if form in FOREIGN:
            found, notes = read_foreign(path, form)
            return Table.of(found).with_notes(notes)
        import pyarrow as pa

        if form == "arrow":
            whole = _arrow_reader(path).read_all()
            whole.validate(full=True)
            return Table.of(_without_pandas_index(whole))
        parts = _parts(path) if form == "parts" else [path]
        return Table.of(
            _without_pandas_index(pa.concat_tables([_parquet(part).read() for part in _with_equal_schemas(parts)]))
        )


def _csv_columns(text: Collection[str], columns: CsvColumns | None) -> CsvColumns:
    """Which columns of a CSV are converted; those in `text` are not."""
    given = columns or CsvColumns()
    return CsvColumns({**given.kinds, **dict.fromkeys(text, "categorical")}, given.rest)


def parquet_files(path: str | Path) -> list[Path]:
    """The files of a Parquet table: itself, or those of a folder in the order of their names."""
    path, form = _path_and_format(Path(path))
    return _parts(path) if form == "parts" else [path]


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

    with _translate_read_errors(path), _parquet(path) as file:
        held = sum(file.metadata.row_group(group).num_rows for group in groups)
        names = None if columns is None else [name for name in file.schema_arrow.names if name in columns]
        if (skip, rows) == (0, held):
            found = file.read_row_groups(list(groups), columns=names)
        else:
            found = pa.Table.from_batches(_rows_inside(file, groups, skip, rows, names))
        if found.num_rows != rows:
            raise InputError(f"{path}: holds other rows than it did when the run began")
        return Table.of(_without_pandas_index(found if names is None else found.select(names))).to_arrow()


def _rows_inside(
    file: Any, groups: Sequence[int], skip: int, rows: int, names: list[str] | None
) -> list[pa.RecordBatch]:
    """Batches of consecutive rows inside row groups; the rows before them are decoded and dropped."""
    batches, at, end = [], 0, skip + rows
    for batch in file.iter_batches(min(BATCH_ROWS, 1 << 16), row_groups=list(groups), columns=names):
        begin, until = max(skip - at, 0), min(end - at, batch.num_rows)
        if begin < until:
            batches.append(batch.slice(begin, until - begin))
        at += batch.num_rows
        if at >= end:
            break
    return batches


def _path_and_format(path: Path) -> tuple[Path, Format]:
    """The path and its format; raises if it does not exist or cannot be read as a table."""
    form = format_of(path)
    if not path.exists():
        raise InputError(f"{path}: no such file or folder", hint=f"a table is {ALLOWED}")
    if not (path.is_file() or path.is_dir()):
        raise InputError(
            f"{path}: is a pipe or a device, and a table is read more than once", hint="write it to a file first"
        )
    if form is None or (form == "parts") != path.is_dir():
        what = f"suffix {suffix_of(path)!r}" if form is None or not path.is_dir() else "a folder with a file's suffix"
        raise InputError(f"{path}: {what} is not one of {ALLOWED}")
    return path, form


@contextmanager
def _translate_read_errors(path: Path) -> Iterator[None]:
    """Raise errors of the block as `InputError` with a message that quotes nothing of the file's content."""
    import pyarrow as pa

    try:
        yield
    except InputError as error:
        if str(error).startswith(str(path)):
            raise
        raise InputError(f"{path}: {error}") from None
    except (PermissionError, IsADirectoryError) as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or 'not allowed'})") from None
    except (pa.ArrowException, OSError, EOFError, ValueError, UnicodeError) as error:
        message, hint = _diagnosis(path, str(error))
        raise InputError(f"{path}: {message}", hint=hint) from None


def _diagnosis(path: Path, said: str) -> tuple[str, str | None]:
    """Message and hint for an error of pyarrow, without the values that its text contains."""
    if "Empty CSV" in said:
        return "the file is empty", None
    form = format_of(path)
    return f"is not a whole {form if form != 'parts' else 'parquet'} file: truncated, corrupt or of another kind", (
        "create the file again; an incomplete copy looks like this"
    )


def _without_pandas_index(table: pa.Table) -> pa.Table:
    """The table without the index columns of pandas: they would link a release to its original rows."""
    return table.drop_columns([name for name in table.column_names if _PANDAS_INDEX.fullmatch(name)])


def _parquet(path: Path) -> Any:
    """Open a Parquet file; its checksums, if any, are verified."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(path, page_checksum_verification=True)


def _parts(folder: Path) -> list[Path]:
    """The Parquet files of a folder, by name."""
    parts = sorted(p for p in folder.iterdir() if p.suffix.lower() == ".parquet" and p.name[0] not in "._")
    if not parts:
        raise InputError(f"{folder}: holds no .parquet file", hint=f"a table is {ALLOWED}")
    return parts


def _with_equal_schemas(parts: list[Path]) -> list[Path]:
    """The parts; raises if their schemas differ."""
    import pyarrow.parquet as pq

    first: pa.Schema | None = None
    for part in parts:
        with _translate_read_errors(part):
            schema = pq.read_schema(part).remove_metadata()
        first = schema if first is None else first
        if not schema.equals(first):
            raise InputError(f"{part}: has other columns or types than {parts[0].name}")
    return parts


def _open_parquet(path: Path) -> Source:
    """Open one Parquet file."""
    file = _parquet(path)
    return Source(
        path,
        _without_pandas_index(empty_table(file.schema_arrow)).schema,
        file.metadata.num_rows,
        lambda rows: file.iter_batches(rows),
    )


def _open_parts(folder: Path) -> Source:
    """Open a folder of Parquet files, to be read one after the other."""
    sources = [_open_parquet(part) for part in _with_equal_schemas(_parts(folder))]

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        for source in sources:
            with _translate_read_errors(source.path):
                yield from source._batches(rows)

    return Source(folder, sources[0].schema, sum(source.rows or 0 for source in sources), batches)


def _open_foreign(path: Path, form: Format) -> Source:
    """Open a file of another program: its rows are read at once."""
    table, notes = read_foreign(path, form)
    return Source(path, table.schema, table.num_rows, lambda rows: iter(table.to_batches(max_chunksize=rows)), notes)


def _arrow_reader(path: Path) -> Any:
    """Open an Arrow file, or an Arrow stream with the same suffix."""
    import pyarrow as pa

    try:
        return pa.ipc.open_file(pa.OSFile(str(path)))
    except pa.ArrowInvalid:
        return pa.ipc.open_stream(pa.OSFile(str(path)))


def _open_arrow(path: Path) -> Source:
    """Open an Arrow file, to be read in its own batches."""
    reader = _arrow_reader(path)
    schema = reader.schema

    def batches(rows: int) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        reader = _arrow_reader(path)
        numbers = range(reader.num_record_batches) if hasattr(reader, "num_record_batches") else None
        found = (reader.get_batch(number) for number in numbers) if numbers is not None else iter(reader)
        for batch in found:
            batch.validate(full=True)
            yield from pa.Table.from_batches([batch]).to_batches(max_chunksize=rows)

    return Source(path, _without_pandas_index(empty_table(schema)).schema, None, batches)
