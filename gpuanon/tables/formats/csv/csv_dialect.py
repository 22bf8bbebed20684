"""How a CSV has to be read, found out from the file: encoding, decimal point, signs for missing values."""

from __future__ import annotations

import codecs
from pathlib import Path

from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.formats import find_format, io
from gpuanon.tables.formats.csv.csv_files import CsvOptions, byte_stream
from gpuanon.tables.formats.csv.csv_types import NULL_WORDS, NUMBER
from gpuanon.tables.table import Table
from gpuanon.tables.values import family

_DECIMAL_COMMA = r"^\s*[+-]?\d+,\d+\s*$"
_WHOLE_OR_NO_DIGIT = r"^(\s*[+-]?\d+\s*|\D*)$"
_SAMPLE = 1000
_SIGNS = ("-", "--", "–", "—", ".", "..", "?", "*")
"""Signs for a missing value by convention."""


def read_any(path: Path, given: CsvOptions | None = None) -> tuple[Table, CsvOptions | None]:
    """The table in a file; of a CSV also how it had to be read: encoding, decimal point, signs for missing values.

    Text that is not UTF-8 is read as UTF-16 if it says so, else as Windows-1252, in which every byte but five is a
    letter; columns of numbers with a decimal comma, and with signs for missing values, are read as numbers.  What is
    given is taken as it is.
    """
    form = find_format(path)
    if form is None or not form.is_text:
        return io.read(path), None
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
    if "decimal" not in known and _decimal_commas(table):
        csv = csv.model_copy(update={"decimal": ","})
        table = io.read(path, csv=csv)
    signs = [] if "nulls" in known else _signs(table, csv.decimal)
    if signs:
        csv = csv.model_copy(update={"nulls": (*(word for word in NULL_WORDS if word), *signs)})
        table = io.read(path, csv=csv)
    return table, csv


def count_columns(path: Path, given: CsvOptions | None = None) -> int:
    """Columns of the table in a file, at the cost of its header where the format allows; 0 if it cannot be told."""
    form = find_format(path)
    if form is None or not path.exists():
        return 0
    if form.is_text and path.is_file():
        with byte_stream(path) as stream:
            head = stream.read(1 << 24).split(b"\n", 1)[0]
        separator = (given.separator if given else None) or max(",;\t", key=lambda one: head.count(one.encode()))
        return 1 + head.count(separator.encode())
    return len(io.open(path).schema) if form.open is not None else 0


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


def _decimal_commas(table: Table) -> bool:
    """Whether a column of text holds numbers with a decimal comma, besides some whole numbers and words."""
    import pyarrow.compute as pc

    for name in table.names:
        column = table.arrow(name)
        if family(column.type) != "text":
            continue
        some = column.drop_null().slice(0, _SAMPLE)
        commas = pc.match_substring_regex(some, _DECIMAL_COMMA)
        others = pc.match_substring_regex(some, _WHOLE_OR_NO_DIGIT)
        if 2 * (pc.sum(commas).as_py() or 0) > len(some) and pc.all(pc.or_(commas, others)).as_py():
            return True
    return False


def _signs(table: Table, decimal: str) -> list[str]:
    """Signs for a missing value: all that is no number in a column of numbers, and no value of other columns."""
    import pyarrow.compute as pc

    found, elsewhere = set[str](), set[str]()
    for name in table.names:
        column = table.arrow(name)
        if family(column.type) != "text":
            continue
        counts = pc.value_counts(column.drop_null())
        values, sizes = counts.field("values"), counts.field("counts")
        numbers = pc.match_substring_regex(values, NUMBER[decimal])
        odd = values.filter(pc.invert(numbers))
        signs = set(odd.filter(pc.is_in(odd, value_set=arrow_array(_SIGNS, odd.type))).to_pylist())
        known = pc.is_in(odd, value_set=arrow_array((*_SIGNS, *NULL_WORDS), odd.type))
        mostly = 2 * (pc.sum(sizes.filter(numbers)).as_py() or 0) > (pc.sum(sizes).as_py() or 0)
        if mostly and pc.all(known).as_py():
            found |= signs
        else:
            elsewhere |= signs
    return sorted(found - elsewhere)
