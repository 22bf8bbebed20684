"""Groupings of columns for contingency tables: the default one, and one that a recipe chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, namespace
from gpuanon.assessing.utility.cell_counts import binned
from gpuanon.errors import ParameterError
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.values import floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

BINS = Annotated[int, Field(strict=True, ge=1, le=1000)]
OPTIONS: Mapping[str, Any] = {
    "ways": Annotated[int, Field(strict=True, ge=1, le=6)] | Literal["all"],
    "columns": list[str],
    "bins": BINS,
    "cuts": dict[str, list[float] | list[str]],
}
"""What a recipe may choose:

ways    : columns of a table: 1, 2 … or "all", the full joint table
columns : the columns that tables are made of
bins    : of equal counts, for numbers and dates without cuts
cuts    : where the groups of a column of numbers or dates begin; a value equal to a cut is in the group above it
"""


def grouped(
    c: Comparison,
    columns: Sequence[str] | None = None,
    bins: int = 10,
    cuts: Mapping[str, Sequence[float] | Sequence[str]] | None = None,
    *,
    weighted: bool = False,
) -> tuple[Array, Array, tuple[str, ...]]:
    """Codes of the chosen columns of original and release, and their names.

    weighted : bins are of equal sample weight, where both tables have weights
    """
    shared = c.binned_by_weight if weighted else c.binned
    own_weights = c.weights[0] if weighted and c.weights is not None else None
    names = tuple(c.columns) if columns is None else tuple(columns)
    numeric = [name for name in names if name in c.columns and c.schema[name].kind in ("numeric", "date")]
    unknown = [name for name in (*names, *(cuts or ())) if name not in c.columns]
    if unknown:
        raise ParameterError(f"columns: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    wrong = [name for name in cuts or () if name not in numeric]
    if wrong:
        raise ParameterError(f"cuts: {', '.join(map(repr, wrong))}: not a chosen column of numbers or dates")
    at = [c.columns.index(name) for name in names]
    before, after = (side[:, at] for side in (shared if bins == 10 else c.codes))
    own = [names.index(name) for name in numeric]
    if bins != 10 and own:
        values = [side[:, [c.columns.index(name) for name in numeric]] for side in c.values]
        before[:, own], after[:, own] = binned(values[0], values[1], bins, own_weights)
    for name, points in (cuts or {}).items():
        edges = np.sort(_edges(c, name, points))
        for side, values in zip((before, after), c.values, strict=True):
            side[:, names.index(name)] = _codes(values[:, c.columns.index(name)], edges)
    return before, after, names


def _edges(c: Comparison, name: str, points: Sequence[float] | Sequence[str]) -> Host:
    """Cuts as the column's numbers; dates may be written as text."""
    import pyarrow as pa

    type_ = c.original.arrow(name).type
    try:
        if c.schema[name].kind == "date":
            return floats(pa.chunked_array([arrow_array([str(point) for point in points]).cast(type_)]))
        return np.array([float(point) for point in points])
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, ValueError):
        raise ParameterError(f"cuts.{name}: numbers or dates are allowed, as the column has them") from None


def _codes(values: Array, edges: Host) -> Array:
    """The group of each value; missing values are a group of their own."""
    xp = namespace(values)
    found = xp.searchsorted(xp.asarray(edges), values, side="right")
    return xp.where(xp.isnan(values), len(edges) + 1, found)
