"""How a CSV has to be read, found out from the file: encoding, notation of numbers and dates, words for no value."""

from __future__ import annotations

import codecs
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.formats import find_format, io
from gpuanon.tables.formats.csv.csv_files import CsvOptions, byte_stream, separator_of
from gpuanon.tables.formats.csv.csv_styles import (
    DATE_ORDERS,
    THOUSANDS,
    DateOrder,
    grouped,
    plain_dates,
    plain_numbers,
)
from gpuanon.tables.formats.csv.csv_types import NULL_WORDS, NUMBER, CsvColumns
from gpuanon.tables.table import Table
from gpuanon.tables.values import family

if TYPE_CHECKING:
    import pyarrow as pa

Missing: TypeAlias = Mapping[str, tuple[str, ...]]
"""Column → its words for no value."""
Texts: TypeAlias = Mapping[str, tuple["pa.Array", "pa.Array"]]

_DECIMAL_COMMA = r"^\s*[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+\s*%?\s*$"
_WHOLE_OR_NO_DIGIT = r"^(\s*[+-]?(\d+|\d{1,3}(\.\d{3})+)\s*%?\s*|\D*)$"
_SAMPLE = 1000
_SIGNS = ("-", "--", "–", "—", ".", "..", "?", "*")
"""Signs for a missing value by convention."""
WORDS = (
    *_SIGNS,
    "n", "n.a.", "none", "missing", "unknown", "not applicable", "inapplicable", "don't know", "dont know", "dk",
    "refused", "no answer", "not stated", "not available", "unspecified", "unbekannt", "k.a.", "k. a.", "ka",
    "keine angabe", "keine angaben", "weiß nicht", "weiss nicht", "trifft nicht zu", "entfällt", "fehlend", "fehlt",
    "verweigert", "inconnu", "inconnue", "non renseigné", "non renseigne", "nr", "manquant", "sans objet",
    "ne sait pas", "nsp", "refus", "non applicable", "desconocido", "no aplica", "no sabe", "ns/nc", "ns", "nc",
    "sin dato", "sin datos", "no contesta", "no consta", "faltante", "rehúsa",
)  # fmt: skip
"""Signs and words for no value: missing, unknown, refused, not applicable."""
_KNOWN = frozenset(WORDS)
_FEW_NUMBERS = 12  # different numbers of a code list: words beside them are levels, and stay text
_LEAST_SHARE = 0.05  # of the rows hold a number, so that the others are words for none


def read_any(
    path: Path, given: CsvOptions | None = None, coded: Missing | None = None
) -> tuple[Table, CsvOptions | None, Missing]:
    """The table in a file; of a CSV also how it had to be read, and the words for no value of columns of numbers.

    Text that is not UTF-8 is read as UTF-16 if it says so, else as Windows-1252, in which every byte but five is a
    letter.  Numbers with a decimal comma, separators of thousands, per cent signs and words for no value are read as
    numbers, dates as 31.12.2020 or 12/31/2020 as dates.  What is given is taken as it is.

    coded : words for no value that are known beforehand
    """
    form = find_format(path)
    if form is None or not form.is_text:
        return io.read(path), None, {}
    csv = given or CsvOptions()
    known = csv.model_fields_set
    try:
        table = io.read(path, csv=csv)
    except InputError:
        # To open a pipe would wait for somebody to write.
        if "encoding" in known or not path.is_file() or is_utf8(path):
            raise
        with path.open("rb") as file:
            wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        csv = csv.model_copy(update={"encoding": codecs.lookup("utf-16" if wide else "windows-1252").name})
        table = io.read(path, csv=csv)
    found: dict[str, object] = {}
    if "decimal" not in known and _decimal_commas(table, separator_of(path, csv)):
        found["decimal"] = ","
        csv = csv.model_copy(update=found)
        table = io.read(path, csv=csv)
    texts = {name: _different(table, name) for name in table.names if family(table.arrow(name).type) == "text"}
    found = {name: value for name, value in _notation(texts, csv.decimal).items() if name not in known}
    csv = csv.model_copy(update=found)
    missing = {**({} if "nulls" in known else _missing(texts, csv)), **(coded or {})}
    if found or missing:
        table = io.read(path, csv=csv, columns=CsvColumns(missing=missing))
    return table, csv, missing


def _different(table: Table, name: str) -> tuple[pa.Array, pa.Array]:
    """Different texts of a column, and the rows of each."""
    import pyarrow.compute as pc

    counts = pc.value_counts(table.arrow(name).drop_null().cast("string"))
    return counts.field("values"), counts.field("counts")


def _notation(texts: Texts, decimal: str) -> dict[str, object]:
    """Separator of thousands, per cent signs and order of dates, each where all values of a column show it."""
    found: dict[str, object] = {}
    orders: list[DateOrder] = []
    for values, _ in texts.values():
        values = _without(values, (*NULL_WORDS, *WORDS))
        if not len(values):
            continue
        for sign in THOUSANDS:
            some = "" if sign == decimal else grouped(sign, decimal)
            if some and "thousands" not in found and _any(values, some) and _all(values, some, _numbers(decimal)):
                found["thousands"] = sign
        signs = [grouped(sign, decimal) for sign in THOUSANDS if sign != decimal]
        if _any(values, r"%\s*$") and _all(values, r"^[^%]+%\s*$") and _all(values, _numbers(decimal), *signs):
            found["percent"] = True
        order = _order_of_dates(values, decimal)
        if order is not None:
            orders.append(order)
    if orders:
        found["dates"] = max(dict.fromkeys(orders), key=orders.count)
    return found


def _numbers(decimal: str) -> str:
    """Pattern of plain numbers, with or without a per cent sign."""
    return NUMBER[decimal].removesuffix(r"\s*$") + r"\s*%?\s*$"


def _order_of_dates(values: pa.Array, decimal: str) -> DateOrder | None:
    """The order in which all values are dates; of two that fit, the one of the file's decimal sign."""
    first = str(values[0].as_py())
    likely = [order for order in DATE_ORDERS if order.strip("DMY")[0] in first]
    months = decimal == "." and "/" in first
    likely.sort(key=lambda order: order.startswith("MM") != months)
    chunked = pa_chunked(values)
    return next((order for order in likely if plain_dates(chunked, order) is not None), None)


def _missing(texts: Texts, csv: CsvOptions) -> Missing:
    """Words for no value in columns that hold many different numbers besides, or signs beside any numbers."""
    import pyarrow.compute as pc

    found: dict[str, tuple[str, ...]] = {}
    for name, (values, sizes) in texts.items():
        plain = plain_numbers(pa_chunked(values), csv.decimal, csv.thousands, csv.percent).combine_chunks()
        numbers = pc.match_substring_regex(plain, NUMBER["."])
        dates = None if csv.dates is None else plain_dates(pa_chunked(_without(values, WORDS)), csv.dates)
        odd = _without(values if dates is not None else values.filter(pc.invert(numbers)), NULL_WORDS)
        words = {str(word) for word in odd.to_pylist() if str(word).strip().lower() in _KNOWN}
        rows = pc.sum(sizes.filter(numbers)).as_py() or 0
        enough = dates is not None or rows > _LEAST_SHARE * (pc.sum(sizes).as_py() or 0)
        signs = words and words <= set(_SIGNS)
        many = dates is not None or (pc.sum(numbers).as_py() or 0) > (2 if signs else _FEW_NUMBERS)
        if words and enough and many and (dates is not None or len(words) == len(odd)):
            found[name] = tuple(sorted(words))
    return found


def _without(values: pa.Array, words: Sequence[str]) -> pa.Array:
    """The values that are none of these words, in any case of letters."""
    import pyarrow as pa
    import pyarrow.compute as pc

    lower = pc.utf8_lower(pc.utf8_trim_whitespace(values))
    known = arrow_array([word.lower() for word in words], pa.string())
    return values.filter(pc.invert(pc.is_in(lower, value_set=known)))


def _any(values: pa.Array, pattern: str) -> bool:
    import pyarrow.compute as pc

    return bool(pc.any(pc.match_substring_regex(values, pattern)).as_py())


def _all(values: pa.Array, *patterns: str) -> bool:
    """Whether every value matches one of the patterns."""
    import pyarrow.compute as pc

    left = values
    for pattern in patterns:
        left = left.filter(pc.invert(pc.match_substring_regex(left, pattern)))
    return len(left) == 0


def pa_chunked(values: pa.Array) -> pa.ChunkedArray:
    """An array as a column."""
    import pyarrow as pa

    return pa.chunked_array([values])


def release_options(path: Path, options: CsvOptions) -> CsvOptions:
    """How a release is read whose original is read with these options: as the original, or plainly.

    A release of another format's table has commas and points; no file has commas for both.
    """
    form = find_format(path)
    if form is None or not form.is_text or not path.is_file():
        return options
    known = options.model_copy(update={"newlines": True, "encoding": "utf-8" if is_utf8(path) else options.encoding})
    if options.decimal == "," and separator_of(path, known.model_copy(update={"separator": None})) == ",":
        return CsvOptions(newlines=True, nulls=options.nulls)
    return known


def count_columns(path: Path, given: CsvOptions | None = None) -> int:
    """Columns of the table in a file, at the cost of its header where the format allows; 0 if it cannot be told."""
    form = find_format(path)
    if form is None or not path.exists():
        return 0
    if form.is_text and path.is_file():
        with byte_stream(path) as stream:
            head: bytes = stream.read(1 << 24).split(b"\n", 1)[0]
        separator = (given.separator if given else None) or max(",;\t", key=lambda one: head.count(one.encode()))
        return 1 + head.count(separator.encode())
    return len(io.open(path).schema.names) if form.open is not None else 0


def is_utf8(path: Path) -> bool:
    """Whether all of a file, decompressed, is UTF-8."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with byte_stream(path) as stream:
            while piece := stream.read(1 << 20):
                decoder.decode(piece)
            decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _decimal_commas(table: Table, separator: str) -> bool:
    """Whether a column of text holds numbers with a decimal comma, besides some whole numbers and words.

    Groups of three digits alone may be thousands: they are where commas separate the columns, or some has two commas.
    """
    import pyarrow.compute as pc

    for name in table.names:
        column = table.arrow(name)
        if family(column.type) != "text":
            continue
        some = column.drop_null().slice(0, _SAMPLE)
        commas = pc.match_substring_regex(some, _DECIMAL_COMMA)
        others = pc.match_substring_regex(some, _WHOLE_OR_NO_DIGIT)
        thousands = pc.match_substring_regex(some, grouped(",", "."))
        both = pc.any(pc.match_substring_regex(some, r",\d{3},|,\d{3}\.")).as_py()
        if pc.all(pc.or_(thousands, others)).as_py() and (separator == "," or both):
            continue
        if 2 * (pc.sum(commas).as_py() or 0) > len(some) and pc.all(pc.or_(commas, others)).as_py():
            return True
    return False
