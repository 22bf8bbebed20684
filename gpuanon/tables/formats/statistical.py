"""Files of Stata, SPSS and SAS, by pyreadstat.

Value labels become categories, in the order of their codes.  They come back in a release that is written as ``.dta`` or
``.sav``: categories are codes with value labels again, numbered from 1 in the same order, over the released levels.
These formats know one kind of number, float64, and no missing text but the empty one.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.errors import FormatError, InputError
from gpuanon.tables.formats import Format

if TYPE_CHECKING:
    import pyarrow as pa


def _read(path: Path, dialect: Any, reader: str) -> tuple[pa.Table, tuple[str, ...]]:
    """All rows; columns whose values all have labels are categories."""
    import pyarrow as pa
    import pyreadstat

    try:
        columns, about = getattr(pyreadstat, reader)(str(path), output_format="dict")
    except UnicodeDecodeError:
        raise
    except Exception as error:  # the library's own errors quote what they could not read
        if isinstance(error, (OSError, MemoryError)):
            raise
        raise InputError("cannot be read: truncated, corrupt or of another kind") from None
    arrays, notes = {}, []
    for name, values in columns.items():
        labels = about.variable_value_labels.get(name, {})
        if labels and any(value is not None for value in values):
            arrays[name], whole = _labelled(values, labels)
            if not whole:
                notes.append(f"column {name!r}: not every value has a label; read as it is, without labels")
        else:
            arrays[name] = _typed(values)
    return pa.table(arrays), tuple(notes)


def _labels(path: Path, reader: str) -> dict[str, str]:
    """The labels of the columns."""
    import pyreadstat

    _, about = getattr(pyreadstat, reader)(str(path), metadataonly=True)
    return {name: str(label) for name, label in about.column_names_to_labels.items() if label}


def _typed(values: list[Any]) -> pa.Array:
    """Values as Arrow: these formats know no missing text but the empty one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    array = pa.array(values, from_pandas=True)
    return pc.if_else(pc.equal(array, ""), None, array) if pa.types.is_string(array.type) else array


def _labelled(values: list[Any], labels: Mapping[Any, str]) -> tuple[pa.Array, bool]:
    """Values as categories, in the order of their codes; as they are if one has no label or two share one."""
    import pyarrow as pa
    import pyarrow.compute as pc

    codes = sorted(labels)
    known = pa.array(codes)
    array = _typed(values)
    try:
        at = pc.index_in(array, value_set=known.cast(array.type))
    except pa.ArrowException:
        return array, False
    names = [str(labels[code]) for code in codes]
    if at.null_count > array.null_count or len(set(names)) < len(names):
        return array, False
    return pa.DictionaryArray.from_arrays(at, pa.array(names, pa.string())), True


def _write(file: IO[bytes], rows: pa.Table, writer: str) -> None:
    """Write a table; the library writes to a path, so the file is made in a private folder and copied."""
    import polars
    import pyreadstat

    plain, labels = _as_codes(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "release"
        try:
            getattr(pyreadstat, writer)(polars.from_arrow(plain), str(path), variable_value_labels=labels)
        except (OSError, MemoryError):
            raise
        except Exception:  # the library's own errors may quote values
            names = [name for name in plain.column_names if not _fits(name, path, writer)]
            if names:
                raise FormatError(
                    f"cannot be stored in this format: the name of column {', '.join(map(repr, names))}",
                    hint="names begin with a letter, have letters, digits and _ only, are short, and are no word of the"
                    " format's own program",
                ) from None
            raise FormatError("cannot be stored in this format: a text is too long") from None
        with path.open("rb") as made:
            while piece := made.read(1 << 22):
                file.write(piece)


def _fits(name: str, path: Path, writer: str) -> bool:
    """Whether the library takes a name for a column."""
    import polars
    import pyreadstat

    try:
        getattr(pyreadstat, writer)(polars.DataFrame({name: [0.0]}), str(path))
    except (OSError, MemoryError):
        raise
    except Exception:
        return False
    return True


def _as_codes(rows: pa.Table) -> tuple[pa.Table, dict[str, dict[int, str]]]:
    """Categories as whole numbers from 1, and the label of each; all numbers and truth values as floats."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns, labels = {}, {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            levels = column.unify_dictionaries().chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())
            at = pc.index_in(column.cast(pa.string()), value_set=levels)
            columns[name] = pc.add(at.cast(pa.float64()), 1.0)
            labels[name] = {number + 1: level for number, level in enumerate(levels.to_pylist())}
            continue
        column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
        try:
            columns[name] = _stored(column)
        except pa.ArrowInvalid:
            raise FormatError(
                f"column {name!r}: cannot be stored in this format: a whole number beyond 2^53, or a time finer than a "
                "millisecond"
            ) from None
    return pa.table(columns), labels


def _stored(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """The column in a type that these formats have; raises where a value would change."""
    import pyarrow as pa

    type_ = column.type
    numeric = pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_)
    if numeric or pa.types.is_boolean(type_):
        return column.cast(pa.float64())
    return column.cast(pa.timestamp("ms")) if pa.types.is_timestamp(type_) else column


SAS = Format(
    "sas7bdat",
    (".sas7bdat",),
    partial(_read, reader="read_sas7bdat"),
    labels=partial(_labels, reader="read_sas7bdat"),
    needs=("pyreadstat",),
)
SAS_TRANSPORT = replace(
    SAS,
    name="xpt",
    suffixes=(".xpt",),
    read=partial(_read, reader="read_xport"),
    labels=partial(_labels, reader="read_xport"),
)
SPSS_PORTABLE = replace(
    SAS,
    name="por",
    suffixes=(".por",),
    read=partial(_read, reader="read_por"),
    labels=partial(_labels, reader="read_por"),
)
STATA = Format(
    "dta",
    (".dta",),
    partial(_read, reader="read_dta"),
    write=partial(_write, writer="write_dta"),
    labels=partial(_labels, reader="read_dta"),
    becomes={
        **dict.fromkeys(("whole number", "decimal", "truth value", "levels of numbers"), "float"),
        "ordered levels": "levels", "nulls only": "text",
    },
    refuses={
        "timestamp with zone": "there are no time zones; convert the column to one without",
        "duration": "there are no durations; convert the column to a number",
        **dict.fromkeys(("binary", "other"), "there is no such type"),
        **dict.fromkeys(("list", "structure", "map"), "a cell holds one value"),
    },
    needs=("pyreadstat", "polars"),
)  # fmt: skip
SPSS = replace(
    STATA,
    name="sav",
    suffixes=(".sav", ".zsav"),
    read=partial(_read, reader="read_sav"),
    write=partial(_write, writer="write_sav"),
    labels=partial(_labels, reader="read_sav"),
)
