"""Read CSV files: every value as text; columns that are masked or measured in the type that all their values have.

A quoted line break is refused unless it was declared: a quote that is missing somewhere makes one value of many rows.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from gpuanon.arrays.threads import each
from gpuanon.errors import InputError
from gpuanon.tables.arrow import empty_table
from gpuanon.tables.formats.csv.csv_styles import ColumnStyle, CsvDialect, DateOrder, Thousands, has_fixed_decimals
from gpuanon.tables.formats.csv.csv_types import ColumnType, CsvColumns, Notation

if TYPE_CHECKING:
    import pyarrow as pa

_BLOCK = 1 << 22
_LONGEST = 1 << 24  # bytes of a line: of a hundred thousand columns, with room
_NAMED = 5  # lines that a message names, at most


class CsvOptions(BaseModel):
    """How CSV files are read, under ``[csv]`` of a recipe.  The release of a CSV is written as the CSV was."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    separator: str | None = Field(
        default=None, min_length=1, max_length=1, description="detected among comma, semicolon and tab if not said"
    )
    decimal: Literal[".", ","] = Field(default=".", description="decimal point of the input")
    encoding: str = Field(default="utf-8", description='such as "latin-1" or "utf-16"')
    nulls: tuple[str, ...] | None = Field(
        default=None,
        description="words for a missing value in columns that are masked or measured; "
        "if not said, NA, NaN, null and the like in numbers and dates only",
    )
    newlines: bool = Field(default=False, description="whether quoted values may contain line breaks")
    thousands: Thousands | None = Field(default=None, description="separator of thousands in numbers")
    percent: bool = Field(
        default=False, description="whether numbers may have a per cent sign, which is no part of them"
    )
    dates: DateOrder | None = Field(default=None, description="how dates are written, if not as YYYY-MM-DD")

    @property
    def notation(self) -> Notation:
        """What is not a value in the texts."""
        return Notation(self.nulls, self.decimal, self.thousands, self.percent, self.dates)

    @property
    def has_notation(self) -> bool:
        """Whether values are written otherwise than as plain numbers, dates and empty cells."""
        return self.notation != Notation()

    @model_validator(mode="after")
    def _two_signs(self) -> Self:
        if self.thousands == self.decimal:
            raise ValueError(f"thousands and decimal are both {self.decimal!r}")
        return self

    @field_validator("encoding")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            return codecs.lookup(name).name
        except LookupError:
            raise ValueError("there is no such encoding") from None

    @field_validator("separator")
    @classmethod
    def _usable(cls, separator: str | None) -> str | None:
        if separator is not None and (separator in '"\r\n' or not separator.isascii()):
            raise ValueError("a separator is one ASCII character, not a quote or a line break")
        return separator


@dataclass(frozen=True)
class _CsvFile:
    """A CSV with everything about its form decided."""

    path: Path
    options: CsvOptions
    separator: str
    single: bool
    line_end: str

    @classmethod
    def of(cls, path: Path, options: CsvOptions) -> _CsvFile:
        """Detect the separator; refuse another encoding than the one that was said."""
        with byte_stream(path) as stream:
            start = stream.read(1 << 16)
            if not _BREAK.search(start) and len(start) == 1 << 16:
                _check_line(start + stream.read(_LONGEST))
        _check_encoding(start, options.encoding)
        text = codecs.getincrementaldecoder(options.encoding)(errors="replace").decode(start)
        head = (re.sub(r'"[^"]*"', "", text).splitlines() or [""])[0]
        separator = options.separator or max(",;\t", key=head.count)
        line_end = "\r\n" if "\r\n" in text else "\n"
        return cls(path, options, separator, separator not in head, line_end)

    def settings(self) -> dict[str, Any]:
        """Options of the reader: all columns as text, an empty value without quotes is null.

        No function of ours handles bad rows: the reader's threads would still hold it when the interpreter ends, and
        abort the process.
        """
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        return {
            "read_options": arrow_csv.ReadOptions(encoding=self.options.encoding, block_size=_BLOCK),
            "parse_options": arrow_csv.ParseOptions(
                delimiter=self.separator,
                newlines_in_values=True,  # without it the reader loses rows after an open quote, in silence
                ignore_empty_lines=not self.single,
            ),
            "convert_options": arrow_csv.ConvertOptions(
                default_column_type=pa.string(),
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        }

    def read(self) -> pa.Table:
        """All rows as text."""
        from pyarrow import csv as arrow_csv

        with self._explained():
            table = arrow_csv.read_csv(self.path, **self.settings())
        return self._checked(table)

    def batches(self) -> Iterator[pa.Table]:
        """The rows as text, batch by batch; the first may be empty."""
        import pyarrow as pa
        from pyarrow import csv as arrow_csv

        with self._explained():
            reader = arrow_csv.open_csv(self.path, **self.settings())
        yield empty_table(reader.schema)
        while True:
            with self._explained():
                batch = next(reader, None)
            if batch is None:
                return
            yield self._checked(pa.Table.from_batches([batch]))

    def _explained(self) -> _Explained:
        return _Explained(self)

    def _checked(self, table: pa.Table) -> pa.Table:
        """The table, unless a value holds a line break that nobody declared."""
        if not self.options.newlines and (
            any(map(_BREAK.search, map(str.encode, table.column_names))) or _breaks(table)
        ):
            raise self.open_quote()
        return table

    def open_quote(self) -> InputError:
        """The error for a quote that does not end on its line, with the numbers of such lines."""
        count, lines = 0, list[int]()
        for number, line in enumerate(self._lines(), 1):
            if line.count('"') % 2:
                count += 1
                if len(lines) < _NAMED:
                    lines.append(number)
        return InputError(
            f"a quoted value does not end on its line, so that a row may swallow others: {_listed(count, lines)}",
            hint="close or double the quote; [csv] newlines = true (init: --csv newlines=true) reads line breaks that "
            "are meant",
        )

    def _lines(self) -> Iterator[str]:
        """The lines of the file; a line that is too long to be a row is an error."""
        decoder = codecs.getincrementaldecoder(self.options.encoding)(errors="replace")
        rest = ""
        with byte_stream(self.path) as stream:
            while piece := stream.read(_LONGEST):
                *lines, rest = (rest + decoder.decode(piece)).split("\n")
                yield from lines
                if len(rest) > _LONGEST:
                    raise _long_line()
        yield rest + decoder.decode(b"", final=True)

    def ragged(self, expected: int, found: int) -> InputError:
        """The error for rows with another number of values than the header, with the numbers of their lines.

        expected, found : values of the header and of such a row, as the reader says; those of the first one are told
        """
        count, lines = 0, list[int]()
        with byte_stream(self.path) as stream, suppress(csv.Error):
            text = io.TextIOWrapper(stream, self.options.encoding, errors="replace", newline="")
            rows, begun = csv.reader(text, delimiter=self.separator), 1
            for row in rows:
                if row and len(row) != expected:
                    found = found if count else len(row)
                    count += 1
                    lines += [begun] * (len(lines) < _NAMED)
                begun = rows.line_num + 1
        where = f": {_listed(count, lines)}" if count else ""
        return InputError(
            f"a row has {found} values, the header has {expected}{where}",
            hint="quote values that contain the separator; a value that begins with a quote must end with one",
        )


def _check_line(start: bytes) -> None:
    """Refuse a file whose first line has no end within reach."""
    if len(start) > _LONGEST and not _BREAK.search(start):
        raise _long_line()


def _long_line() -> InputError:
    return InputError(
        f"a line is longer than {_LONGEST >> 20} MB: this is no table with a header and a line for each row",
        hint="the lines of a CSV end in a line break",
    )


class _Explained:
    """Raises errors of the reader as `InputError`, with what can be said of them without a value."""

    def __init__(self, file: _CsvFile) -> None:
        self._file = file

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        text = str(error)
        if ragged := re.match(r"CSV parse error: (?:Row #\d+: )?Expected (\d+) columns, got (\d+)", text):
            raise self._file.ragged(int(ragged[1]), int(ragged[2])) from None
        if "out of sync" in text or "straddling" in text:
            raise self._file.open_quote() from None
        if "invalid UTF8" in text or isinstance(error, UnicodeError):
            names = re.search(r"In CSV column #(\d+)", text)
            where = f" in column {int(names[1]) + 1}" if names else ""
            raise InputError(
                f"not {self._file.options.encoding.upper()} text{where}",
                hint='save the file as UTF-8, or say [csv] encoding = "latin-1" (init: --csv encoding=latin-1)',
            ) from None


_BREAK = re.compile(rb"[\r\n]")


def _breaks(table: pa.Table) -> bool:
    """Whether a value of a table of texts holds a line break: one search of each buffer of characters."""
    buffers = [chunk.buffers()[2] for column in table.columns for chunk in column.chunks if len(chunk)]
    return any(b"\n" in text or b"\r" in text for text in (held.to_pybytes() for held in buffers if held is not None))


def _listed(count: int, lines: list[int]) -> str:
    """Line numbers, and how many there are in all."""
    if not lines:
        return f"{count} in all"
    named = f"line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}"
    return named if count <= len(lines) else f"{named} and others, {count} in all"


def byte_stream(path: Path) -> Any:
    """The bytes of a file, decompressed."""
    import pyarrow as pa

    return pa.input_stream(str(path), compression="gzip" if path.name.lower().endswith(".gz") else None)


def _check_encoding(start: bytes, encoding: str) -> None:
    """Refuse UTF-16 and UTF-32 that were not declared."""
    wide = start.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in start[:1024]
    if wide and not encoding.startswith(("utf-16", "utf-32")):
        raise InputError(
            "is not UTF-8 text, but UTF-16 or not text at all",
            hint='save the file as UTF-8, or say [csv] encoding = "utf-16" (init: --csv encoding=utf-16)',
        )


def read_csv(path: Path, columns: CsvColumns, options: CsvOptions) -> tuple[pa.Table, tuple[str, ...]]:
    """The whole CSV, types inferred from all of its rows, and notes on it."""
    import pyarrow as pa

    file = _CsvFile.of(path, options)
    table = file.read()
    found = _types(table.column_names, columns, options)
    numbers = list(range(table.num_columns))
    converted = each(lambda at: found[at].add(table.column(at)) if at in found else table.column(at), numbers)
    notes = (*_header_notes(path, table.column_names), *_notes(found))
    return pa.table(converted, names=table.column_names), notes


def open_csv(
    path: Path, columns: CsvColumns, options: CsvOptions
) -> tuple[pa.Schema, int, Callable[[int], Iterator[pa.RecordBatch]], tuple[str, ...]]:
    """Schema, rows, batches and notes of a CSV: a first pass widens the types until they fit the whole file."""
    import pyarrow as pa

    file = _CsvFile.of(path, options)
    texts = file.batches()
    names = next(texts).column_names
    found = _types(names, columns, options)
    rows = 0
    for batch in texts:
        rows += batch.num_rows
        each(lambda at, batch=batch: found[at].add(batch.column(at)), found)  # type: ignore[misc]
    schema = pa.schema([(name, found[at].type if at in found else pa.string()) for at, name in enumerate(names)])

    def batches(most: int) -> Iterator[pa.RecordBatch]:
        for batch in file.batches():
            converted = [
                found[at].convert(column) if at in found else column for at, column in enumerate(batch.columns)
            ]
            yield from pa.table(converted, schema=schema).to_batches(max_chunksize=most)

    return schema, rows, batches, (*_header_notes(path, names), *_notes(found))


def separator_of(path: Path, options: CsvOptions) -> str:
    """The separator of a CSV, detected unless it is given."""
    return _CsvFile.of(path, options).separator


def dialect_of(path: Path, columns: CsvColumns, options: CsvOptions, names: Collection[str]) -> CsvDialect:
    """How a CSV writes its values, and these columns theirs.

    Cost : the texts are read once more where columns have a notation of their own, or the same number of decimals in
    every value: ``3.0`` comes back so.
    """
    file = _CsvFile.of(path, options)
    styles: dict[str, ColumnStyle] = {}
    texts = file.batches()
    known = [name for name in next(texts).column_names if name in names]
    if not (options.has_notation or any(name in columns.missing for name in known)):
        first = next(texts, None)
        known = [] if first is None else [name for name in known if has_fixed_decimals(first[name])]
        texts = file.batches()
    if known:
        styles = {name: ColumnStyle(options.decimal, options.thousands, options.dates) for name in known}
        for batch in texts:
            each(lambda at, batch=batch: _add(styles[at], batch[at], columns, options.notation, at), known)  # type: ignore[misc]
        styles = {name: style.finish() for name, style in styles.items()}
    return CsvDialect(file.separator, options.encoding, file.line_end, styles)


def _add(style: ColumnStyle, texts: pa.ChunkedArray, columns: CsvColumns, notation: Notation, name: str) -> None:
    style.add(texts, notation.words(columns, name))


def _types(names: list[str], columns: CsvColumns, options: CsvOptions) -> dict[int, ColumnType]:
    """What is to be found out, by the number of the column."""
    return {at: ColumnType(name, columns, options.notation) for at, name in enumerate(names) if columns.converted(name)}


_VALUE = re.compile(
    r"\s*(0\d+|\d{5,}|[+-]?\d*[.,]\d+|[+-]?\d{1,3}([.,]\d{3})+([.,]\d+)?|\d{1,4}([-./]\d{1,4}){2}.*)\s*"
)
"""A name that only a value has: a date, a number with a fraction, with leading zeros, or longer than a year."""


def _header_notes(path: Path, names: list[str]) -> list[str]:
    """A note on a header that seems to be a record: it would be released as the names of the columns."""
    count = sum(_VALUE.fullmatch(name) is not None for name in names)
    if not count:
        return []
    return [
        f"{path.name}: {count} of {len(names)} names of columns are numbers or dates: if the first line is a record, "
        "its values are released as names; give the file a header"
    ]


def _notes(found: dict[int, ColumnType]) -> list[str]:
    """Notes on the columns; raises for those that are not of their kind."""
    notes = [column.check() for column in found.values()]
    return [note for note in notes if note is not None]
