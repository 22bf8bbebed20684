"""What attacks with a control want to know of a comparison: columns of original, release and control, alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host
from gpuanon.assessing.compared_tables import require_finite, require_values, types_of
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def attacked_tables(c: Comparison) -> tuple[Table, Table, Table]:
    """Original, release and control: of original and control one record per person, where persons are known."""
    return _one_each(c, c.original), c.points, _one_each(c, c.control_table)


def targets_of(
    tables: tuple[Table, Table, Table], count: int, name: str
) -> tuple[tuple[Table, Table, Table], Host, Host]:
    """The tables with those people only who are attacked, of original and control, and their rows.

    The same as the attack would draw from all of them; so few are encoded.
    """
    original, release, control = tables
    own, others = (sample_rows(table.n_rows, count, name) for table in (original, control))
    return (original.take(own), release, control.take(others)), own, others


def _one_each(c: Comparison, table: Table) -> Table:
    person = c.schema.person
    if person is None or person.name not in table.names:
        return table
    return table.take(np.sort(np.unique(row_bits(table, [person.name])[:, 0], return_index=True)[1]))


def values_of(c: Comparison, names: Sequence[str], tables: Sequence[Table]) -> tuple[list[Host], list[bool]]:
    """(n, names) numbers and dates as they are, common codes else, NaN for null; and which are codes."""
    for table in tables[1:]:
        require_values(table, types_of(c.original), names)
    coded = [c.schema[name].kind not in ("numeric", "date") for name in names]
    codes = level_codes(tables, [name for name, flag in zip(names, coded, strict=True) if flag])
    out = [np.empty((table.n_rows, len(names))) for table in tables]
    for side, found, table in zip(out, codes, tables, strict=True):
        side[:, coded] = np.where(found < 0, np.nan, found)
        for at, name in enumerate(names):
            if not coded[at]:
                side[:, at] = floats(table.arrow(name))
                require_finite(name, side[:, at])
    return out, coded


def chosen_columns(c: Comparison, named: Sequence[str] | None, option: str, least: int = 1) -> tuple[str, ...]:
    """Columns that an option names, else all that are compared."""
    unknown = [name for name in named or () if name not in c.columns]
    if unknown:
        raise ParameterError(f"{option}: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    found = tuple(dict.fromkeys(named)) if named else c.columns
    if len(found) < least:
        raise MissingEvidence(f"needs {least} columns or more that are compared")
    return found


def features_of(features: Sequence[str]) -> dict[str, list[int]]:
    """Features of each column."""
    out: dict[str, list[int]] = {}
    for at, name in enumerate(features):
        out.setdefault(name, []).append(at)
    return out


def placed_beside(c: Comparison, values: Sequence[Host]) -> tuple[Array, Array, Array]:
    """Three arrays where the comparison has its arrays."""
    on_host = c.backend is None or c.backend.name == "numpy"
    first, second, third = values if on_host else [c.backend.upload(side) for side in values]  # type: ignore[union-attr]
    return first, second, third
