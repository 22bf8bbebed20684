"""Formats of tables: each says in one file what it reads, writes and keeps, and `FORMATS` has one line for each.

Everything else asks the format of a path (`format_of`), and never looks at a suffix.  A file of a format imports at its
head nothing but the standard library: the command line lists all formats before it knows which one is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from gpuanon.errors import FormatError, GpuanonError, InputError

if TYPE_CHECKING:
    import pyarrow as pa

FORMATS: Mapping[str, str] = {
    "parquet": "parquet.PARQUET",
    "csv": "csv.CSV",
    "csv.gz": "csv.CSV_GZ",
    "arrow": "arrow_ipc.ARROW",
    "orc": "orc.ORC",
    "parts": "parquet.PARTS",
    "dta": "statistical.STATA",
    "sav": "statistical.SPSS",
    "sas7bdat": "statistical.SAS",
    "xpt": "statistical.SAS_TRANSPORT",
    "por": "statistical.SPSS_PORTABLE",
    "excel": "spreadsheets.SPREADSHEET",
}
"""Name → file of this package and its declaration."""

TypeName: TypeAlias = Literal[
    "whole number", "float", "decimal", "truth value", "text", "binary", "date", "time of day", "timestamp",
    "timestamp with zone", "duration", "levels", "ordered levels", "levels of numbers", "list", "structure",
    "map", "nulls only", "other",
]  # fmt: skip
TYPES: tuple[TypeName, ...] = get_args(TypeName)
_TESTS: Mapping[TypeName, tuple[str, ...]] = {
    "whole number": ("integer",), "float": ("floating",), "decimal": ("decimal",), "truth value": ("boolean",),
    "text": ("string", "large_string", "string_view"), "date": ("date",), "time of day": ("time",),
    "binary": ("binary", "large_binary", "binary_view", "fixed_size_binary"), "duration": ("duration",),
    "structure": ("struct",), "map": ("map",), "list": ("list", "large_list", "fixed_size_list"),
    "nulls only": ("null",),
}  # fmt: skip
"""How pyarrow tests for them."""

Append: TypeAlias = Callable[["pa.Table"], None]


@dataclass(frozen=True)
class Opened:
    """A table whose columns are known, and whose rows are not read yet.

    rows   : number of rows; None if it is known only after reading
    pieces : the rows in order, at most so many at a time
    notes  : what the steward should know of how the file is read
    """

    schema: pa.Schema
    rows: int | None
    pieces: Callable[[int], Iterator[pa.RecordBatch]] = field(repr=False)
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Format:
    """What a format reads, writes and keeps.  Functions take a path or an open file; errors are translated for them.

    Parameters
    ----------
    name     : in `FORMATS`, and for messages
    suffixes : lower case; none for a folder of files
    read     : path, dialect → the whole table, and notes on it.  The dialect is the format's own; most have none
    open     : path, dialect → the table in pieces; None: it is only read whole
    append   : open file (or folder), schema → context with a function that appends rows; None: it does not append
    write    : open file, table: writes it whole, for a format that does not append; None for both: it is only read
    reread   : path, columns → pieces of what was written, as another program reads it; None: by `open`
    becomes  : types that are written, and come back as another one with equal values
    refuses  : types that are not written, and why.  All others come back as they were
    labels   : path → the label of each column that has one; None: its files have none
    needs    : libraries of the extra ``[formats]``
    is_text  : its values are texts, in a dialect that is detected; columns that no mask changes come out text for text
    divisible : workers read ranges of its rows; any other format is copied to Parquet for them
    one_dictionary : a column has the same levels in all pieces
    views, run_ends : whether it stores these layouts of Arrow
    """

    name: str
    suffixes: tuple[str, ...]
    read: Callable[[Path, Any], tuple[pa.Table, tuple[str, ...]]]
    open: Callable[[Path, Any], Opened] | None = None
    append: Callable[..., AbstractContextManager[Append]] | None = None
    write: Callable[[IO[bytes], pa.Table], None] | None = None
    reread: Callable[..., Iterator[pa.Table]] | None = None
    becomes: Mapping[TypeName, TypeName] = field(default_factory=dict)
    refuses: Mapping[TypeName, str] = field(default_factory=dict)
    labels: Callable[[Path], Mapping[str, str]] | None = None
    needs: tuple[str, ...] = ()
    is_text: bool = False
    divisible: bool = False
    one_dictionary: bool = False
    views: bool = False
    run_ends: bool = False

    @property
    def is_folder(self) -> bool:
        """Whether a table is a folder of files."""
        return not self.suffixes

    @property
    def writes(self) -> bool:
        """Whether a release can be written."""
        return self.append is not None or self.write is not None

    @property
    def holds_intervals(self) -> bool:
        """Whether a column of intervals, which are structures, can be written."""
        return self.writes and "structure" not in self.refuses

    def speaking(self, dialect: Any) -> Format:
        """The format that writes, and rereads, in this dialect of its own; None: in the plain one."""
        if dialect is None or self.append is None or self.reread is None:
            return self
        append, reread = partial(self.append, dialect=dialect), partial(self.reread, dialect=dialect)
        return replace(self, append=append, reread=reread)

    def opened(self, path: Path, dialect: Any) -> Opened:
        """The table in pieces; of a format that is only read whole, cut from it."""
        if self.open is not None:
            return self.open(path, dialect)
        table, notes = self.read(path, dialect)
        return Opened(table.schema, table.num_rows, lambda rows: iter(table.to_batches(max_chunksize=rows)), notes)

    def written(self, path: Path, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of a table that was written, piece by piece, for verification."""
        import pyarrow as pa

        if self.reread is not None:
            return self.reread(path, columns)
        found = self.opened(path, None).pieces(1 << 18)
        return (pa.Table.from_batches([batch]).select(list(columns)) for batch in found)

    @contextmanager
    def appending(self, target: Any, schema: pa.Schema) -> Iterator[Append]:
        """A function that appends rows, none for a table without rows; what does not append is written at the end."""
        import pyarrow as pa

        from gpuanon.tables.arrow import empty_table

        pieces: list[pa.Table] = []
        if self.append is None:
            assert self.write is not None
            yield pieces.append
            self.write(target, pa.concat_tables([empty_table(schema), *pieces]))
            return
        with self.append(target, schema) as append:
            appended = False

            def put(rows: pa.Table) -> None:
                nonlocal appended
                appended = True
                append(rows)

            yield put
            if not appended:
                append(empty_table(schema))

    def check_installed(self, path: Path, error: type[GpuanonError]) -> None:
        """Raise if a library is missing."""
        missing = [name for name in self.needs if find_spec(name) is None]
        if missing:
            raise error(
                f"{path}: this format needs {' and '.join(missing)}, which is not installed",
                hint="pip install 'gpuanon[formats]'",
            )

    def check_types(self, path: Path, schema: pa.Schema) -> None:
        """Raise for columns whose type is not written, with the reason."""
        names = [(column.name, type_name(column.type)) for column in schema]
        faults = [f"column {name!r}: {self.refuses[type_]}" for name, type_ in names if type_ in self.refuses]
        if faults:
            raise FormatError(
                f"{path}: cannot be stored in this format: " + "; ".join(faults), hint=".arrow stores every type"
            )


def type_name(type_: pa.DataType) -> TypeName:
    """The type as formats distinguish them."""
    from pyarrow import BaseExtensionType, types

    if types.is_dictionary(type_):
        if type_name(type_.value_type) != "text":
            return "levels of numbers"
        return "ordered levels" if type_.ordered else "levels"
    if types.is_timestamp(type_):
        return "timestamp" if type_.tz is None else "timestamp with zone"
    if types.is_run_end_encoded(type_):
        return type_name(type_.value_type)
    if isinstance(type_, BaseExtensionType):
        return type_name(type_.storage_type)
    return next(
        (name for name, tests in _TESTS.items() if any(getattr(types, f"is_{t}")(type_) for t in tests)), "other"
    )


@cache
def formats() -> Mapping[str, Format]:
    """All formats by their names."""
    places = {name: place.rpartition(".") for name, place in FORMATS.items()}
    return {
        name: getattr(import_module(f"{__name__}.{file}"), declared) for name, (file, _, declared) in places.items()
    }


def find_format(path: Path) -> Format | None:
    """The format by suffix; a folder, or a name without suffix, means Parquet parts.  None for an unknown suffix."""
    name = path.name.lower()
    for form in formats().values():
        if any(name.endswith(suffix) and len(name) > len(suffix) for suffix in form.suffixes):
            return form
    return formats()["parts"] if path.is_dir() or "." not in name.lstrip(".") else None


def format_of(path: Path, error: type[GpuanonError] = InputError) -> Format:
    """The format of a path; raises for an unknown suffix, with those that are known."""
    form = find_format(path)
    if form is None:
        raise error(f"{path}: suffix {suffix_of(path)!r} is not one of {known_formats()}")
    return form


def suffix_of(path: Path) -> str:
    """The suffix, for messages."""
    return "".join(path.suffixes[-2:]) if path.suffix == ".gz" else path.suffix


@cache
def known_formats() -> str:
    """What a table may be, for messages and help."""

    def listed(needs: bool, writes: bool) -> list[str]:
        chosen = [form for form in formats().values() if (bool(form.needs), form.writes) == (needs, writes)]
        return [suffix for form in chosen for suffix in form.suffixes]

    return (
        f"{', '.join(listed(False, True))}, or a folder of Parquet parts (with gpuanon[formats] also "
        f"{', '.join(listed(True, True))}, and to read {', '.join(listed(True, False))})"
    )


def without_pandas_index(table: pa.Table) -> pa.Table:
    """The table without the index columns of pandas: they would link a release to its original rows."""
    import re

    return table.drop_columns([name for name in table.column_names if re.fullmatch(r"__index_level_\d+__", name)])


@contextmanager
def translate_read_errors(path: Path, name: str) -> Iterator[None]:
    """Raise errors of the block as `InputError`, with a message that quotes nothing of the file's content."""
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
        if "Empty CSV" in str(error):
            raise InputError(f"{path}: the file is empty") from None
        raise InputError(
            f"{path}: is not a whole {name} file: truncated, corrupt or of another kind",
            hint="create the file again; an incomplete copy looks like this",
        ) from None
