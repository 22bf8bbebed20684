"""Equal values, equal codes: columns as whole numbers, for equivalence classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each
from gpuanon.errors import InputError
from gpuanon.tables.arrow import arrow_array, arrow_scalar, numpy_array
from gpuanon.tables.hierarchy import Hierarchy, value_texts
from gpuanon.tables.row_bits import bits_of, column_words
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import NULL, distinct, family, floats, lookup, plain, value_type

if TYPE_CHECKING:
    import pyarrow as pa

    from gpuanon.tables.schema import ColumnSpec, Schema
    from gpuanon.tables.table import Table

_EXACT = 2.0**53


def level_codes(tables: Sequence[Table], columns: Sequence[str]) -> list[Host]:
    """(n, columns) int64 codes of each table, common to all of them.

    The code of a value is its rank among the distinct values of its column in all tables together; a null (or NaN)
    has the code `NULL`.
    """
    import pyarrow as pa

    codes = [np.empty((table.n_rows, len(columns)), dtype=np.int64) for table in tables]

    def fill(number: int) -> None:
        arrays = _aligned([table.arrow(columns[number]) for table in tables], columns[number])
        if pa.types.is_float64(arrays[0].type):
            for out, found in zip(codes, _float_codes(arrays), strict=True):
                out[:, number] = found
            return
        levels = distinct(arrays)
        for out, array in zip(codes, arrays, strict=True):
            out[:, number] = lookup(array, levels)

    each(fill, range(len(columns)))
    return codes


def _float_codes(columns: Sequence[pa.ChunkedArray]) -> list[Host]:
    """Codes of columns of float64, by one sort: nearly every value is a distinct one, for which hashes are slower."""
    import pyarrow.compute as pc

    filled = [pc.fill_null(column, arrow_scalar(np.nan, column.type)) for column in columns]
    values = [numpy_array(column) for column in filled]
    together = np.concatenate(values) + 0.0  # −0.0 is 0.0
    order = np.argsort(together, kind="stable")
    placed = together[order]
    ranks = np.empty(len(together), dtype=np.int64)
    ranks[order] = np.cumsum(np.concatenate([[0], placed[1:] != placed[:-1]])) if len(placed) else 0
    ranks[np.isnan(together)] = NULL
    return np.split(ranks, np.cumsum([len(side) for side in values])[:-1])


@dataclass(frozen=True, eq=False, repr=False)
class ColumnCodes:
    """A column as whole numbers.

    codes     : (n,) int64 rank of each value among `values`; `NULL` for a null
    values    : the distinct values in their order
    ancestors : (values, depth + 1) int64 code of each value's ancestor at each depth of its hierarchy
    names     : text of the nodes at each depth from 1
    hierarchy : of the column, or None
    """

    codes: Host
    values: pa.Array
    ancestors: Host
    names: tuple[pa.Array, ...] = ()
    hierarchy: Hierarchy | None = None

    def labels(self, depth: int | None) -> pa.Array:
        """Text of the nodes at this depth, at depth 0 of the values themselves; None: of all depths, one by one."""
        import pyarrow as pa

        if depth is None:
            return pa.concat_arrays([self.labels(at).cast(pa.string()) for at in range(len(self.names) + 1)])
        return self.names[depth - 1] if depth else arrow_array(value_texts(self.values), pa.string())

    def numbers(self) -> Host | None:
        """(values,) float64 of numbers and times; None for other values, and for those that float64 does not hold."""
        if family(self.values.type) not in ("number", "time"):
            return None
        numbers = floats(chunked(self.values))
        return numbers if float(np.abs(numbers).max(initial=0.0)) < _EXACT else None

    def shares(self) -> Host:
        """(values, depth + 1) share of the hierarchy's leaves below each value's ancestor at each depth.

        Without a hierarchy each value is a leaf.
        """
        if self.hierarchy is None:
            return np.full((len(self.values), 1), 1 / max(len(self.values), 1))
        return self.hierarchy.shares(self.values)


def chunked(values: pa.Array) -> pa.ChunkedArray:
    """An array as a column of one chunk."""
    import pyarrow as pa

    return pa.chunked_array([values])


def in_order(values: pa.Array, levels: Sequence[Any] | None) -> pa.Array:
    """The distinct `values`, in the order of the schema's `levels` if it has any."""
    import pyarrow as pa

    if levels is None or pa.types.is_null(values.type):
        return values
    order = lookup(pa.chunked_array([arrow_array(levels).cast(values.type)]), values)
    return values.take(arrow_array(order[order >= 0]))


def column_codes(
    table: Table, schema: Schema, name: str, hierarchy: Hierarchy | None = None, values: pa.Array | None = None
) -> ColumnCodes:
    """The codes of one column; ordered levels have the order of the schema.

    values : those of the whole table, where codes are to be the same in all cells; None: those that occur here
    """
    data = table.arrow(name)
    if values is None:
        values = in_order(distinct([data]), schema[name].levels)
    if hierarchy is None:
        ancestors, names = np.arange(len(values), dtype=np.int64)[:, None], ()
    else:
        ancestors, names = hierarchy.ancestors(values)
        names = names[1:]
    return ColumnCodes(lookup(data, values), values, ancestors, names, hierarchy)


def _aligned(columns: Sequence[pa.ChunkedArray], name: str) -> list[pa.ChunkedArray]:
    """The columns in one type: their own when they agree, a common one for numbers or text."""
    import pyarrow as pa

    types = {value_type(column.type) for column in columns}
    if len(types) == 1:
        return list(columns)
    families = {family(type_) for type_ in types} - {"nothing"}
    common = {"number": pa.float64(), "text": pa.large_string(), "time": pa.timestamp("ns")}
    if len(families) != 1 or not families <= set(common):
        raise InputError(f"column {name!r}: the tables hold different types, {' and '.join(sorted(map(str, types)))}")
    wanted = common[families.pop()]
    return [plain(column).cast(wanted) for column in columns]


_FEW = 12  # distinct whole numbers that look like codes


def code_notes(table: Table, schema: Schema, specs: Mapping[str, ColumnSpec]) -> list[str]:
    """Notes on quasi-identifiers that are masked as numbers and may be codes of categories: few distinct whole numbers.

    specs : what the recipe says; a column whose kind it gives is left out
    """
    import pyarrow as pa

    from gpuanon.tables.values import distinct

    notes = []
    for name in schema.quasi:
        if specs[name].kind is None and schema[name].kind == "numeric" and pa.types.is_integer(table.arrow(name).type):
            count = len(distinct([table.arrow(name)]))
            if count <= min(_FEW, table.n_rows // 2):
                notes.append(
                    f"column {name!r}: whole numbers with {count} distinct values are masked as numbers; "
                    'if they are codes of categories, say kind = "categorical"'
                )
    return notes


def value_codes(table: Table, columns: Sequence[str]) -> Host:
    """(n, columns) whole numbers from 0, equal for equal values of a column of whatever type; a null is a value."""
    words = column_words(table, columns, stored=True)

    def one(name: str) -> Host:
        bits = np.ascontiguousarray(bits_of([words[name]], table.n_rows)[:, 0])
        return np.asarray(numpy_array(arrow_array(bits).dictionary_encode().indices), dtype=np.int64)

    return np.stack(each(one, columns), axis=1) if columns else np.zeros((table.n_rows, 0), dtype=np.int64)
