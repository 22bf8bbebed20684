"""Types of CSV columns that are masked or measured: inferred from all values, never at the cost of a value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array, arrow_scalar
from gpuanon.tables.formats.csv.csv_styles import DateOrder, plain_dates, plain_numbers
from gpuanon.tables.schema import Kind

if TYPE_CHECKING:
    import pyarrow as pa

NULL_WORDS = (
    "", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "N/A", "NA", "NULL",
    "NaN", "n/a", "nan", "null",
)  # fmt: skip
"""Words for a missing number or date, unless the recipe names others."""

NUMBER = {point: rf"^\s*[+-]?(\d+[{point}]?\d*|[{point}]\d+)([eE][+-]?\d+)?\s*$" for point in (".", ",")}
"""A number, by its decimal point."""
_THOUSANDS = "^\\s*[+-]?\\d{1,3}([.,' \u00a0\u202f]\\d{3})+([.,]\\d+)?\\s*$"
_COMMA = r"^\s*[+-]?\d*,\d+\s*$"
_DIGIT = r"^\s*[+-]?[\d,.]+\s*$"
_SAMPLES = (10, 1000)  # values that rule a type out before all are parsed: Arrow writes a message for each that fails
_EXACT_DIGITS = 15  # more cannot be told apart as float64
_CODE = r"^\s*[+-]?(0\d+|0x.*|\d{16,})\s*$"
_WIDER = {
    "int64": ("float64",),
    "date": ("timestamp[s]", "timestamp[ns]"),
    "timestamp[s]": ("timestamp[ns]",),
    "timestamp[s, UTC]": ("timestamp[ns, UTC]",),
}
_TIMES = ("date", "time", "timestamp[s]", "timestamp[ns]", "timestamp[s, UTC]", "timestamp[ns, UTC]")
_CANDIDATES: Mapping[str | None, tuple[str, ...]] = {
    "numeric": ("int64", "float64", "bool"),
    "date": _TIMES,
    "categorical": (),
    "ordinal": ("int64", *_TIMES, "float64"),
    None: ("int64", *_TIMES, "float64"),
}


@dataclass(frozen=True)
class CsvColumns:
    """Which columns of a CSV are converted; all others stay text.

    kinds : column → its kind, or None to infer it; a categorical column stays text
    rest  : whether the columns that are not named are converted too, to the type that all their values have
    missing : column → words for no value, besides those of the whole file
    """

    kinds: Mapping[str, Kind | None] = field(default_factory=dict)
    rest: bool = True
    missing: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def converted(self, name: str) -> bool:
        """Whether the values of this column are looked at."""
        return self.rest or name in self.kinds


@dataclass(frozen=True)
class Notation:
    """What is not a value in the texts of a file; see `CsvOptions`."""

    nulls: tuple[str, ...] | None = None
    decimal: str = "."
    thousands: str | None = None
    percent: bool = False
    dates: DateOrder | None = None

    def words(self, columns: CsvColumns, name: str, *, text: bool = False) -> tuple[str, ...]:
        """For no value in this column; a column of text has only those that were said."""
        general = self.nulls or (() if text else NULL_WORDS)
        return (*general, *columns.missing.get(name, ()))


class ColumnType:
    """The narrowest type that fits all values of a column, found batch by batch.

    Whole numbers with leading zeros, and those with more digits than a float holds, are codes: they stay text.
    """

    def __init__(self, name: str, columns: CsvColumns, notation: Notation) -> None:
        self.name, self.kind = name, columns.kinds.get(name)
        self._candidates = _CANDIDATES[self.kind]
        if self.kind is None and name not in columns.kinds:
            self._candidates = (*self._candidates, "bool")
        self._words, self._notation = notation.words(columns, name), notation
        self._own_words = notation.words(columns, name, text=True)
        self._found: str | None = None  # None: only nulls until now
        self._values = self._numbers = self._commas = self._thousands = self._codes = 0
        self._lossy = False  # whether a number would not keep a value
        self._worded = False  # whether there are words for a missing value, which stay if there is nothing else

    def add(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Widen the type to fit these values too; the values in the type found until now."""
        import pyarrow as pa

        if self._found == "text" or not self._candidates:
            self._found = "text"
            self._count(texts)
            return self._without_words(texts, self._own_words)
        missing = self._without_words(texts)
        if missing.null_count == len(missing) and self._found is None:
            self._worded |= texts.null_count < len(texts)
            return texts if self._worded else pa.chunked_array([pa.nulls(len(texts))])
        tried = self._candidates if self._found is None else (self._found, *_WIDER.get(self._found, ()))
        for rows in _SAMPLES:
            sample = missing.slice(0, rows)
            tried = tuple(type_ for type_ in tried if self._parse(sample, type_, checked=False) is not None)
        for type_ in tried:
            parsed = self._parse(missing, type_)
            if parsed is not None:
                self._found = type_
                self._values += len(missing) - missing.null_count
                self._numbers += len(missing) - missing.null_count if type_ in ("int64", "float64") else 0
                return parsed
        self._found = "text"
        self._count(texts)
        return self._without_words(texts, self._own_words)

    @property
    def type(self) -> pa.DataType:
        """The type that fits all values."""
        import pyarrow as pa

        undecided = self._found is None and self._candidates and not self._worded
        return pa.null() if undecided else _arrow_type(self._found or "text")

    def convert(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """The values in the final type."""
        import pyarrow as pa

        if self._found is None and self._candidates:
            return texts if self._worded else pa.chunked_array([pa.nulls(len(texts))])
        if self._found == "text" or not self._candidates:
            return self._without_words(texts, self._own_words)
        parsed = self._parse(self._without_words(texts), self._found or "text", checked=False)
        if parsed is None:
            raise InputError(f"column {self.name!r}: holds other values than it did when it was opened")
        return parsed

    def check(self) -> str | None:
        """A note on a column that looks like another kind than it is read as; raises if its kind was given."""
        if self._found != "text" or self.kind in ("categorical", "ordinal"):  # what it is was said
            return None
        odd = self._values - self._numbers
        if self.kind in ("numeric", "date"):
            what = "numbers" if self.kind == "numeric" else "dates (YYYY-MM-DD)"
            count = f"{odd} of {self._values}" if self.kind == "numeric" else "some of them"
            hint = "[csv] nulls = [...] names words for missing values"
            if self._thousands:
                hint = "write numbers without separators of thousands"
            elif self._commas:
                hint = '[csv] decimal = ","'
            raise InputError(
                f"column {self.name!r}: kind {self.kind}, but not all values are {what}: {count} are not", hint=hint
            )
        if self._lossy:
            return (
                f"column {self.name!r}: {self._codes} of {self._values} values are digits that a number would not "
                'keep (leading zeros, or too many); read as text; kind = "numeric" reads numbers'
            )
        if self._thousands and 2 * (self._thousands + self._commas + self._numbers) > self._values:
            return (
                f"column {self.name!r}: {self._thousands} of {self._values} values are numbers with separators of "
                "thousands; read as categories; without these separators they are read as numbers"
            )
        if self._commas and 2 * (self._commas + self._numbers) > self._values:
            return (
                f"column {self.name!r}: {self._commas} of {self._values} values are numbers with a decimal comma; "
                'read as categories; [csv] decimal = "," reads numbers'
            )
        if 2 * self._numbers > self._values and odd:
            return (
                f"column {self.name!r}: {odd} of {self._values} values are not numbers; read as categories; "
                "[csv] nulls = [...] names words for missing values"
            )
        return None

    def _count(self, texts: pa.ChunkedArray) -> None:
        """Count numbers, and those with a decimal comma or separators of thousands, among values that stay text."""
        import pyarrow.compute as pc

        if self.kind == "categorical":
            return
        some = pc.match_substring_regex(texts.slice(0, _SAMPLES[-1]), _DIGIT)
        if not (self._numbers or self._lossy or self.kind or pc.any(some).as_py()):
            self._values += len(texts)
            return
        counts = pc.value_counts(self._without_words(texts).drop_null())
        values, sizes = counts.field("values"), counts.field("counts")
        self._values += pc.sum(sizes).as_py() or 0
        numbers = pc.match_substring_regex(values, NUMBER[self._notation.decimal])
        commas = pc.and_not(pc.match_substring_regex(values, _COMMA), numbers)
        thousands = pc.and_not(pc.match_substring_regex(values, _THOUSANDS), pc.or_(numbers, commas))
        self._numbers += pc.sum(sizes.filter(numbers)).as_py() or 0
        self._commas += pc.sum(sizes.filter(commas)).as_py() or 0
        self._thousands += pc.sum(sizes.filter(thousands)).as_py() or 0
        if self._lossy:
            self._codes += pc.sum(sizes.filter(pc.match_substring_regex(values, _CODE))).as_py() or 0

    def _without_words(self, texts: pa.ChunkedArray, words: tuple[str, ...] | None = None) -> pa.ChunkedArray:
        """The texts with nulls in place of the words for them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        found = pc.is_in(texts, value_set=arrow_array(self._words if words is None else words, pa.string()))
        return pc.if_else(found, None, texts) if pc.any(found).as_py() else texts

    def _parse(self, texts: pa.ChunkedArray, type_: str, checked: bool = True) -> pa.ChunkedArray | None:
        """The values in this type, or None if one does not fit, or would not be kept."""
        import pyarrow as pa
        import pyarrow.compute as pc

        written = self._notation
        if type_ in ("int64", "float64"):
            texts = plain_numbers(texts, written.decimal, written.thousands, written.percent)
        elif type_ == "date" and written.dates is not None:
            dates = plain_dates(texts, written.dates)
            texts = texts if dates is None else dates
        parsed = _cast(texts, type_)
        if parsed is None:
            trimmed = pc.utf8_trim_whitespace(texts)
            parsed = None if trimmed.equals(texts) else _cast(trimmed, type_)
        if parsed is None or not checked or self.kind == "numeric" or type_ not in ("int64", "float64"):
            return parsed
        if type_ == "int64":
            kept = parsed.cast(pa.string())
            self._lossy |= not (kept.equals(texts) or kept.equals(pc.utf8_trim_whitespace(texts)))
        else:
            self._lossy |= _too_long(texts)
        return None if self._lossy else parsed


def _too_long(texts: pa.ChunkedArray) -> bool:
    """Whether there are whole numbers with more digits than float64 holds."""
    import pyarrow as pa
    import pyarrow.compute as pc

    long = pc.greater(pc.binary_length(texts), arrow_scalar(_EXACT_DIGITS, pa.int32()))
    return bool(pc.any(long).as_py() and pc.any(pc.and_(long, pc.utf8_is_digit(texts))).as_py())


def _arrow_type(type_: str) -> pa.DataType:
    """The Arrow type of this name."""
    import pyarrow as pa

    types: dict[str, Callable[[], pa.DataType]] = {
        "int64": pa.int64,
        "float64": pa.float64,
        "bool": pa.bool_,
        "date": pa.date32,
        "time": lambda: pa.time32("s"),
        "timestamp[s]": lambda: pa.timestamp("s"),
        "timestamp[ns]": lambda: pa.timestamp("ns"),
        "timestamp[s, UTC]": lambda: pa.timestamp("s", "UTC"),
        "timestamp[ns, UTC]": lambda: pa.timestamp("ns", "UTC"),
        "text": pa.string,
    }
    return types[type_]()


def _cast(texts: pa.ChunkedArray, type_: str) -> pa.ChunkedArray | None:
    """The texts in this type, or None if one does not fit.  Arrow's own error would quote a value."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if type_ == "time":  # a text is cast to a moment, not to a time of day
            day = arrow_scalar("1970-01-01", texts.type)
            moments = pc.binary_join_element_wise(day, texts, arrow_scalar(" ", texts.type)).cast(pa.timestamp("s"))
            return moments.cast(pa.time32("s"))
        return texts.cast(_arrow_type(type_))
    except pa.ArrowException:
        return None
