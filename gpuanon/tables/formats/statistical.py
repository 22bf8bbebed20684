"""Files of Stata, SPSS and SAS (pyreadstat) and spreadsheets (fastexcel): the extra ``[formats]``.

Value labels become categories, in the order of their codes.  They come back in a release that is written as ``.dta`` or
``.sav``: categories are codes with value labels again, numbered from 1 in the same order, over the released levels.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from gpuanon.errors import InputError
from gpuanon.tables.formats.formats import Format

if TYPE_CHECKING:
    import pyarrow as pa

_READERS: Mapping[str, str] = {
    "dta": "read_dta", "sav": "read_sav", "por": "read_por", "sas7bdat": "read_sas7bdat", "xpt": "read_xport",
}  # fmt: skip
STATISTICAL = tuple(_READERS)


def _library(name: str) -> Any:
    """A library of the extra; a message that says how to install it where it is not."""
    try:
        return import_module(name)
    except ImportError:
        raise InputError(
            f"this format needs {name}, which is not installed", hint="pip install 'gpuanon[formats]'"
        ) from None


def read_table(path: Path, form: Format) -> tuple[pa.Table, tuple[str, ...]]:
    """All rows of a file of another program, and notes on it."""
    if form == "excel":
        return _read_excel(path)
    return _read_statistical(path, form)


def _read_statistical(path: Path, form: Format) -> tuple[pa.Table, tuple[str, ...]]:
    """A file of Stata, SPSS or SAS; columns whose values all have labels are categories."""
    import pyarrow as pa

    library = _library("pyreadstat")
    read = getattr(library, _READERS[form])
    try:
        columns, about = read(str(path), output_format="dict")
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


def _read_excel(path: Path) -> tuple[pa.Table, tuple[str, ...]]:
    """The first sheet of a workbook, its first row the header."""
    import pyarrow as pa

    library = _library("fastexcel")
    try:
        book = library.read_excel(str(path))
        sheet = book.load_sheet(0)
        table = pa.Table.from_batches([pa.record_batch(sheet.to_arrow())])
    except library.FastExcelError:
        raise InputError("cannot be read: truncated, corrupt or of another kind") from None
    more = len(book.sheet_names) - 1
    notes = (f"{path.name}: the first of {more + 1} sheets was read",) if more else ()
    return table, notes


def write_table(rows: pa.Table, form: Format, file: IO[bytes]) -> None:
    """Write a table as Stata (``dta``) or SPSS (``sav``); categories are codes with value labels.

    The libraries write to a path: the file is made in a private folder and copied.
    """
    library, polars = _library("pyreadstat"), _library("polars")
    plain, labels = _as_codes(rows)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"release.{form}"
        write = library.write_dta if form == "dta" else library.write_sav
        write(polars.from_arrow(plain), str(path), variable_value_labels=labels)
        with path.open("rb") as made:
            while piece := made.read(1 << 22):
                file.write(piece)


def _as_codes(rows: pa.Table) -> tuple[pa.Table, dict[str, dict[int, str]]]:
    """Categories as whole numbers from 1, and the label of each; booleans as 0 and 1."""
    import pyarrow as pa
    import pyarrow.compute as pc

    columns, labels = {}, {}
    for name, column in zip(rows.column_names, rows.columns, strict=True):
        if pa.types.is_dictionary(column.type) and pa.types.is_string(column.type.value_type):
            levels = column.unify_dictionaries().chunk(0).dictionary if column.num_chunks else pa.array([], pa.string())
            at = pc.index_in(column.cast(pa.string()), value_set=levels)
            columns[name] = pc.add(at.cast(pa.float64()), 1.0)
            labels[name] = {number + 1: level for number, level in enumerate(levels.to_pylist())}
        elif pa.types.is_boolean(column.type):
            columns[name] = column.cast(pa.float64())
        elif pa.types.is_integer(column.type):
            columns[name] = column.cast(pa.float64(), safe=False)
        else:
            columns[name] = column
    return pa.table(columns), labels
