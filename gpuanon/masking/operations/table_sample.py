"""New rows from a contingency table that is fitted to chosen margins."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.random_ranks import random_tie_order
from gpuanon.masking.outcomes import NewColumn, Recoded

_ROUNDS = 200


def fit_margins(
    shape: Sequence[int], margins: Sequence[tuple[tuple[int, ...], Array]], tolerance: float = 1e-6
) -> Array:
    """The table of the given shape with these margins and the largest entropy (Deming and Stephan 1940).

    A table of ones is scaled to one margin after another until none changes by more than `tolerance` of the total: the
    log-linear model whose interactions are those of the margins.

    margins : axes, ascending, and the counts over them

    Cost : rounds × margins × cells of the table.
    """
    xp = namespace(margins[0][1])
    table = xp.ones(tuple(shape), dtype=np.float64)
    total = float(margins[0][1].sum())
    for _ in range(_ROUNDS):
        worst = 0.0
        for axes, counts in margins:
            others = tuple(axis for axis in range(len(shape)) if axis not in axes)
            found = table.sum(axis=others, keepdims=True)
            wanted = counts.reshape(found.shape)
            worst = max(worst, float(xp.abs(found - wanted).sum()))
            table *= xp.where(found > 0, wanted / xp.where(found > 0, found, 1.0), 0.0)
        if worst <= tolerance * total:
            break
    return table


def margin_counts(codes: Array, axes: tuple[int, ...], shape: Sequence[int]) -> Array:
    """Counts of the rows of `codes` (n, c) over these columns, of values from 0 to below `shape`."""
    xp = namespace(codes)
    place = xp.zeros(len(codes), dtype=np.int64)
    cells = 1
    for axis in axes:
        place = place * int(shape[axis]) + codes[:, axis]
        cells *= int(shape[axis])
    return xp.bincount(place, minlength=cells).astype(np.float64).reshape([int(shape[axis]) for axis in axes])


MOST_CELLS = 1 << 22
"""Cells of the whole table, at most: it is held in memory and passed over in every round."""


def binned(codes: Array, classes: ClassInfo, bins: int) -> tuple[Array, list[int]]:
    """(n, c) codes of at most `bins` bins of equal counts for ordered columns of more values, and their numbers.

    Equal values share a bin; a null is a bin of its own, and so is each value of the other columns.
    """
    xp = namespace(codes)
    out, shape = xp.empty_like(codes), []
    for j, ordered in enumerate(classes.ordered):
        values, place, counts = xp.unique(codes[:, j], return_inverse=True, return_counts=True)
        label = xp.arange(len(values), dtype=np.int64)
        if ordered and len(values) > bins + 1:
            known = xp.where(values >= 0, counts, 0)
            label = ((xp.cumsum(known) - 0.5 * known) * bins / max(1, int(known.sum()))).astype(np.int64)
            label = xp.where(values >= 0, label + 1, 0)
            label = xp.unique(label, return_inverse=True)[1].reshape(-1)
        out[:, j] = label[place.reshape(-1)]
        shape.append(int(label.max()) + 1)
    return out, shape


def sample_table(
    codes: Array, classes: ClassInfo, draws: Draws, margins: Sequence[tuple[int, ...]], bins: int
) -> Array:
    """(n, c) codes of as many new rows, drawn from the log-linear table with these margins.

    Inside a bin the value is drawn from those that the bin has, column by column.

    Cost : that of `fit_margins`, and one sort of n numbers for each column.
    """
    xp = namespace(codes)
    cells, shape = binned(codes, classes, bins)
    if math.prod(shape) > MOST_CELLS:
        raise ParameterError(
            f"table: {math.prod(shape)} cells, at most {MOST_CELLS} are allowed",
            hint="fewer columns, fewer bins, or several masks of a few columns each",
        )
    table = fit_margins(shape, [(axes, margin_counts(cells, axes, shape)) for axes in margins])
    ends = xp.cumsum(table.reshape(-1))
    u = draws.uniform(1)[:, 0]
    place = xp.minimum(xp.searchsorted(ends, u * ends[-1], side="right"), len(ends) - 1)
    out = xp.empty_like(codes)
    inside = draws.child("value").uniform(codes.shape[1])
    for j in range(codes.shape[1] - 1, -1, -1):
        own, place = place % shape[j], place // shape[j]
        members = Partition.from_labels(cells[:, j])
        order = random_tie_order(xp.zeros(len(codes), dtype=np.int64), members, draws.child(f"order.{j}"))
        picks = members.starts[own] + (inside[:, j] * members.sizes[own]).astype(np.int64)
        out[:, j] = codes[order[picks], j]
    return out


class TableSample(Operation):
    """New rows from a table with given margins, fitted by iterative proportional fitting; numbers in bins."""

    sees: ClassVar[Sight] = "classes"
    rows: ClassVar[RowEffect] = "new"

    use: Literal["table-sample"] = "table-sample"
    margins: tuple[tuple[str, ...], ...] = Field(
        default=(), description="sets of columns whose tables are kept, up to the draw; none: all pairs"
    )
    bins: int = Field(default=8, ge=2, description="of equal counts, of an ordered column with more values")

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        if groups.parts > 1 or records.classes is None:
            raise ParameterError("table-sample: one group of all rows, seen as classes, is needed")
        codes = sample_table(T, records.classes, records.draws.child("table"), self._axes(records.classes), self.bins)
        rows = namespace(T).arange(len(T), dtype=np.int64)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(T.shape[1])], rows=rows, added=len(T))

    def _axes(self, classes: ClassInfo) -> list[tuple[int, ...]]:
        """The margins as positions of columns; columns in none have their own."""
        names = classes.names
        unknown = sorted({name for margin in self.margins for name in margin} - set(names))
        if unknown:
            raise ParameterError(f"margins: not among the masked columns: {', '.join(map(repr, unknown))}")
        if not self.margins:
            return list(combinations(range(len(names)), 2)) if len(names) > 1 else [(0,)]
        axes = [tuple(sorted({names.index(name) for name in margin})) for margin in self.margins]
        used = {axis for margin in axes for axis in margin}
        return axes + [(j,) for j in range(len(names)) if j not in used]
