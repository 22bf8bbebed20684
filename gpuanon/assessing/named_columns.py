"""Columns that an option names, compared by themselves.

So another column that compares by equality only (a level of a hierarchy) is no obstacle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host, to_host
from gpuanon.assessing.comparison import Comparison
from gpuanon.errors import InputError, ParameterError
from gpuanon.tables.table import Table


def only(source: Any, names: Sequence[str]) -> Comparison:
    """The comparison of these columns alone."""
    if not isinstance(source, Comparison):
        raise InputError("named columns need all rows at once: not measured on a table larger than memory")
    unknown = [name for name in names if name not in source.original.names or name not in source.points.names]
    if unknown:
        raise ParameterError(f"there is no column {', '.join(map(repr, unknown))} in both tables")
    columns = tuple(source.schema[name].model_copy(update={"role": "sensitive", "transform": "none"}) for name in names)
    schema = source.schema.model_copy(update={"columns": columns})
    before, after = (Table.of(table.select(names).to_native()) for table in (source.original, source.points))
    return replace(source.host, original=before, release=after, schema=schema, summary=None)


def numbers_of(source: Any, names: Sequence[str]) -> tuple[Host, Host]:
    """The named columns as numbers, in their own units; categories of two levels as 0 and 1."""
    chosen = only(source, names)
    for name in names:
        at = chosen.columns.index(name)
        if chosen.categorical[at] and max(codes[:, at].max(initial=0) for codes in chosen.codes) > 1:
            raise InputError(f"column {name!r}: a category of more than two levels has no mean")
    order = [chosen.columns.index(name) for name in names]
    found = []
    for side in chosen.values:
        values = np.array(to_host(side), dtype=np.float64)[:, order]
        flags = np.array(chosen.categorical)[order]
        values[:, flags] = np.where(values[:, flags] < 0, np.nan, values[:, flags])
        found.append(values)
    return found[0], found[1]
