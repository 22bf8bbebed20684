"""A table without its rare values, and new rows of it as columns to be released."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.given import ClassInfo
from gpuanon.masking.operations.column_chain.rare_values import PooledColumn, pool_ordered, rare_levels
from gpuanon.masking.operations.column_chain.trees import Coded, tree_conditional
from gpuanon.masking.outcomes import NewColumn

_LEAF = 20
"""Records of a leaf from which a level takes the place of a rare one, at least."""
_FITTED = 50_000
"""Records to which the tree of such a column is fitted, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class PooledTable:
    """The columns with their rare values pooled."""

    columns: tuple[PooledColumn, ...]
    ordered: tuple[bool, ...]

    @classmethod
    def of(cls, codes: Host, classes: ClassInfo, rare: int, draws: Draws) -> PooledTable:
        """Pool codes (n, c): values of fewer than `rare` records do not occur in the result.

        Ordered columns: see `pool_ordered`.  A record with a rare level of another column receives a level that is
        drawn from similar records, in a leaf of a tree of all other columns.
        """
        c = codes.shape[1]
        numbers = [bool(classes.values) and classes.values[j].numbers() is not None for j in range(c)]
        pooled = each(lambda j: _column(codes[:, j], classes.ordered[j], rare, numbers[j]), range(c))
        for j in range(c):
            hidden = np.zeros(0, dtype=bool) if classes.ordered[j] else rare_levels(codes[:, j], rare)
            if hidden.any():
                if hidden.all():
                    raise ParameterError(
                        f"rare: no value of column {classes.names[j]!r} is that of {rare} records",
                        hint="leave the column out, group its values, or give rare = 1",
                    )
                own = draws.child(f"rare.{j}")
                filled = _without(hidden, j, [one.codes for one in pooled], classes.ordered, own)
                pooled[j] = PooledColumn(filled, pooled[j].low, pooled[j].high)
        return cls(tuple(pooled), classes.ordered)

    @property
    def codes(self) -> Host:
        """(n, c) pools of the records."""
        return np.column_stack([column.codes for column in self.columns])

    def released(self, pools: Host, draws: Draws, kept: Host | None = None, own: Host | None = None) -> list[NewColumn]:
        """The columns of new rows `pools` (m, c); rows that are `kept` (m,) have the codes `own` (m, c) instead."""
        u = draws.uniform(len(self.columns))
        found = []
        for j, column in enumerate(self.columns):
            place = column.places(pools[:, j], u[:, j])
            if kept is not None and own is not None:
                place = np.where(kept, own[:, j], place)
            codes = np.floor(place).astype(np.int64)
            between = place - codes
            found.append(NewColumn(j, codes, between=between if between.any() else None))
        return found


def _column(codes: Host, ordered: bool, rare: int, number: bool) -> PooledColumn:
    """One column; levels without an order are as they are."""
    if ordered:
        return pool_ordered(codes, rare, number)
    every = np.arange(int(codes.max(initial=-1)) + 1, dtype=np.float64)
    return PooledColumn(codes, every, every)


def _without(hidden: Host, j: int, columns: Sequence[Host], ordered: Sequence[bool], draws: Draws) -> Host:
    """(n,) codes of column `j`, those of `hidden` records drawn from records that are not, and similar."""
    common = np.flatnonzero(~hidden)
    if len(common) > _FITTED:
        common = np.sort(common[np.argsort(draws.take(common).keys(), kind="stable")[:_FITTED]])
    others = [at for at in range(len(columns)) if at != j]

    def coded(at: int) -> Coded:
        return Coded(columns[at][common], ordered[at], int(columns[at].max(initial=-1)) + 1)

    step = tree_conditional(coded(j), [coded(at) for at in others], j, others, 0, _LEAF)
    rows = np.flatnonzero(hidden)
    leaves = step.find([column[rows] for column in columns])
    out = columns[j].copy()
    out[rows] = step.draw(leaves, draws.take(rows).uniform(1)[:, 0], False)
    return out
