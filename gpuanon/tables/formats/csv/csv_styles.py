"""How a CSV writes its values: decimal sign, separators of thousands, per cent, dates, words for no value.

A value is read without what only its notation has (`plain_numbers`, `plain_dates`).  A release is written as its
original was: the styles of all columns that masks changed are found in the original's texts, and the separator, the
encoding and the line ends are the file's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from gpuanon.errors import OutputError
from gpuanon.tables.arrow import arrow_array, arrow_scalar
from gpuanon.tables.values import family

if TYPE_CHECKING:
    import pyarrow as pa

DateOrder: TypeAlias = Literal["DD.MM.YYYY", "DD/MM/YYYY", "MM/DD/YYYY", "DD-MM-YYYY", "MM-DD-YYYY", "YYYY/MM/DD"]
DATE_ORDERS: tuple[DateOrder, ...] = get_args(DateOrder)
Thousands: TypeAlias = Literal[".", ",", "'", "’", " ", "\u00a0", "\u202f"]
THOUSANDS: tuple[Thousands, ...] = get_args(Thousands)
_MOST_DECIMALS = 12


def date_format(order: DateOrder) -> str:
    """The same for strptime."""
    return order.replace("DD", "%d").replace("MM", "%m").replace("YYYY", "%Y")


def grouped(thousands: str, decimal: str) -> str:
    """Pattern of numbers with separators of thousands."""
    return rf"^\s*[+-]?\d{{1,3}}([{re.escape(thousands)}]\d{{3}})+([{re.escape(decimal)}]\d*)?\s*%?\s*$"


def plain_numbers(texts: pa.ChunkedArray, decimal: str, thousands: str | None, percent: bool) -> pa.ChunkedArray:
    """Texts of numbers with a decimal point and nothing else; what is no number stays none."""
    import pyarrow.compute as pc

    if thousands is not None:
        some = pc.match_substring_regex(texts, grouped(thousands, decimal))
        texts = pc.if_else(some, pc.replace_substring(texts, thousands, ""), texts)
    if percent:
        texts = pc.replace_substring_regex(texts, r"^(\s*[+-]?[\d.,]+)\s*%\s*$", r"\1")
    if decimal == ",":
        texts = pc.replace_substring(pc.replace_substring(texts, ".", "_"), ",", ".")
    return texts


def plain_dates(texts: pa.ChunkedArray, order: DateOrder) -> pa.ChunkedArray | None:
    """Dates as YYYY-MM-DD; None if a text is none, or would not be written so again."""
    import pyarrow.compute as pc

    form = date_format(order)
    found = pc.strptime(texts, format=form, unit="s", error_is_null=True)
    if found.null_count > texts.null_count:
        return None
    again = pc.strftime(found, format=form)
    if not (again.equals(texts) or _unpadded(again).equals(texts)):
        return None
    return pc.strftime(found, format="%Y-%m-%d")


def _unpadded(texts: pa.ChunkedArray) -> pa.ChunkedArray:
    """Dates without leading zeros."""
    import pyarrow.compute as pc

    return pc.replace_substring_regex(texts, r"\b0(\d)", r"\1")


def has_fixed_decimals(texts: pa.ChunkedArray) -> bool:
    """Whether all values have the same number of digits after a point, and some."""
    import pyarrow.compute as pc

    values = pc.unique(texts).drop_null()
    found = pc.extract_regex(values, r"^[+-]?\d+\.(?P<digits>\d+)$")
    return bool(len(values)) and not found.null_count and len(pc.unique(pc.utf8_length(found.field("digits")))) == 1


@dataclass
class ColumnStyle:
    """How a column is written, found from its texts batch by batch.

    decimals : digits after the decimal sign, where all values have the same number of them, and some; else None
    percent  : what follows each number, with the space before it; "" for nothing
    missing  : the word for no value; "" where there are several, or none
    """

    decimal: str = "."
    thousands: str | None = None
    order: DateOrder | None = None
    decimals: int | None = None
    percent: str = ""
    padded: bool = True
    missing: str = ""
    _words: set[str] = field(default_factory=set)
    _decimals: set[int] = field(default_factory=set)
    _grouped: bool = False

    def add(self, texts: pa.ChunkedArray, words: Sequence[str]) -> None:
        """Look at more texts; `words` stand for no value."""
        import pyarrow as pa
        import pyarrow.compute as pc

        different = pc.unique(texts)
        self._words |= {"" if word is None else word for word in different.to_pylist() if word is None or word in words}
        values = different.filter(pc.invert(pc.is_in(different, value_set=arrow_array(list(words), pa.string()))))
        values = values.drop_null()
        if self.order is not None and self.padded and len(values):
            self.padded = not bool(pc.any(pc.match_substring_regex(values, r"(^|\D)\d(\D|$)")).as_py())
        if self.thousands is not None and len(values):
            self._grouped |= bool(
                pc.any(pc.match_substring_regex(values, grouped(self.thousands, self.decimal))).as_py()
            )
        ends = pc.extract_regex(values, r"(?P<percent>\s*%)\s*$").drop_null()
        if len(ends):
            self.percent = str(ends[0].as_py()["percent"])
        found = pc.extract_regex(values, rf"[{re.escape(self.decimal)}](?P<digits>\d+)\s*%?\s*$").drop_null()
        self._decimals |= set(pc.unique(pc.utf8_length(found.field("digits"))).to_pylist()) if len(found) else set()
        self._decimals |= {0} if len(found) < len(values) else set()

    def finish(self) -> ColumnStyle:
        """With what holds of all texts."""
        self.missing = next(iter(self._words)) if len(self._words) == 1 else ""
        self.thousands = self.thousands if self._grouped else None
        same = len(self._decimals) == 1 and self._decimals != {0} and max(self._decimals) <= _MOST_DECIMALS
        self.decimals = next(iter(self._decimals)) if same else None
        return self

    @property
    def is_plain(self) -> bool:
        """Whether numbers are written with a point and nothing else, and no word stands for no value."""
        return self.decimal == "." and self.thousands is None and not self.percent and not self.missing

    def texts(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """The values as this column writes them; a null is its word for no value, or null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        if family(column.type) == "number":
            found = self._numbers(column)
        elif pa.types.is_date(column.type) and self.order is not None:
            found = pc.strftime(column.cast(pa.timestamp("s")), format=date_format(self.order))
            found = found if self.padded else _unpadded(found)
        else:
            found = column.cast(pa.string())
        return pc.fill_null(found, arrow_scalar(self.missing, pa.string())) if self.missing else found

    def _numbers(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Numbers as texts; each different one is written once."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if self.thousands is None and self.decimals is None:
            return _joined(self._with_sign(column.cast(pa.string())), self.percent)
        coded = column.combine_chunks().dictionary_encode()
        coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
        values = coded.dictionary.to_pylist()
        texts = self._with_sign(pa.chunked_array([pa.array(list(map(self._grouped_text, values)), pa.string())]))
        return pa.chunked_array(
            [_joined(texts, self.percent).combine_chunks().take(pc.cast(coded.indices, pa.int64()))]
        )

    def _grouped_text(self, value: Any) -> str:
        """A number with decimals and groups of digits; decimals as it has them where that many would change it."""
        comma = "," if self.thousands else ""
        if isinstance(value, int) and self.decimals is None:
            return f"{value:{comma}}"
        if self.decimals is not None:
            text = f"{value:{comma}.{self.decimals}f}"
            if float(text.replace(",", "")) == float(value):
                return text
        whole, _, rest = repr(float(value)).partition(".")
        return (
            repr(float(value)) if "e" in rest or not comma else f"{int(whole):,}" + (f".{rest}" if rest != "0" else "")
        )

    def _with_sign(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Numbers with a point, and commas between thousands, in the signs of this column."""
        import pyarrow.compute as pc

        if self.thousands is not None:
            texts = pc.replace_substring(texts, ",", "\x00")
        if self.decimal == ",":
            texts = pc.replace_substring(texts, ".", ",")
        return texts if self.thousands is None else pc.replace_substring(texts, "\x00", self.thousands)


def _joined(texts: pa.ChunkedArray, end: str) -> pa.ChunkedArray:
    """The texts with this end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not end:
        return texts
    return pc.binary_join_element_wise(texts, arrow_scalar(end, pa.string()), arrow_scalar("", pa.string()))


@dataclass(frozen=True)
class CsvDialect:
    """How a release is written: as its original.

    styles : of columns that are no text
    """

    separator: str = ","
    encoding: str = "utf-8"
    line_end: str = "\n"
    styles: Mapping[str, ColumnStyle] = field(default_factory=dict)

    def lines(self, rows: pa.Table) -> Any:
        """The rows as they are written, as bytes or a buffer of them."""
        import pyarrow as pa
        import pyarrow.compute as pc

        if not rows.num_rows:
            return b""
        columns = [self._cells(name, rows[name], single=rows.num_columns == 1) for name in rows.column_names]
        end, nothing = (arrow_scalar(text, pa.large_string()) for text in (self.line_end, ""))
        joined = pc.binary_join_element_wise(*columns, arrow_scalar(self.separator, pa.large_string()))
        lines = pc.binary_join_element_wise(joined, end, nothing).combine_chunks()
        length = int(pc.sum(pc.binary_length(lines)).as_py())
        text = lines.buffers()[2].slice(0, length)  # values of an array that was just made follow each other
        return text if self.encoding == "utf-8" else self.encoded(text.to_pybytes().decode())

    def header(self, names: Iterable[str]) -> bytes:
        """The line of names."""
        import pyarrow as pa

        cells = self._quoted(pa.chunked_array([arrow_array(list(names), pa.large_string())])).to_pylist()
        return self.encoded(self.separator.join(cells) + self.line_end)

    def encoded(self, text: str) -> bytes:
        """The text in the encoding of the file; no byte-order mark after the first line."""
        name = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(self.encoding, self.encoding)
        try:
            return text.encode(name)
        except UnicodeEncodeError:
            raise OutputError(
                f"a text cannot be written in {self.encoding}, the encoding of the input", hint="a .parquet holds it"
            ) from None

    def _cells(self, name: str, column: pa.ChunkedArray, *, single: bool) -> pa.ChunkedArray:
        """A column as cells: quoted where they have to be, empty for a null."""
        import pyarrow as pa
        import pyarrow.compute as pc

        style = self.styles.get(name, ColumnStyle())
        if pa.types.is_dictionary(column.type):
            coded = column.unify_dictionaries().combine_chunks()
            coded = coded.combine_chunks() if isinstance(coded, pa.ChunkedArray) else coded
            levels = pa.chunked_array([coded.dictionary])
            texts = self._quoted(style.texts(levels).cast(pa.large_string())).take(coded.indices)
            texts = pc.fill_null(texts, arrow_scalar(style.missing, pa.large_string())) if style.missing else texts
        else:
            texts = style.texts(column).cast(pa.large_string())
            texts = texts if style.is_plain and _never_quoted(column.type) else self._quoted(texts)
        return pc.fill_null(texts, arrow_scalar('""' if single else "", pa.large_string()))

    def _quoted(self, texts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Texts with quotes where a reader needs them; an empty text is quoted, a null is not."""
        import pyarrow as pa
        import pyarrow.compute as pc

        special = pc.match_substring_regex(texts, rf'[{re.escape(self.separator)}"\r\n]|^$|^\s|\s$')
        if not pc.any(special).as_py():
            return texts
        mark, nothing = arrow_scalar('"', pa.large_string()), arrow_scalar("", pa.large_string())
        doubled = pc.binary_join_element_wise(mark, pc.replace_substring(texts, '"', '""'), mark, nothing)
        return pc.if_else(special, doubled, texts)


def _never_quoted(dtype: pa.DataType) -> bool:
    """Whether no text of this type has a separator, a quote or a space at an end."""
    import pyarrow as pa

    return bool(pa.types.is_integer(dtype) or pa.types.is_floating(dtype) or pa.types.is_boolean(dtype))
