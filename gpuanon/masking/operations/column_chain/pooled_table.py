"""A table whose rare values are pooled before a model is fitted, and new rows of it as released columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.given import ClassInfo
from gpuanon.masking.operations.column_chain.conditional import Coded, tree_conditional
from gpuanon.masking.outcomes import NewColumn

RARE = 5
"""Records that have a value, at least, for it to be released as it is."""
Rare = Annotated[int, Field(ge=1, description="values that fewer records have are not released; 1: all are")]


@dataclass(frozen=True, eq=False, repr=False)
class PooledColumn:
    """A column whose rare values are pooled with their neighbours.

    codes     : (n,) pool of each record, from 0 in the order of the values; −1 for a null
    low, high : (pools,) where the values of a pool begin and end: a code, or a place between two codes
    """

    codes: Host
    low: Host
    high: Host

    def places(self, pools: Host, u: Host) -> Host:
        """(m,) float64 places of values of these pools: codes, or between two codes; −1 for a null."""
        if not len(self.low):
            return np.full(len(pools), -1.0)
        place = self.low[pools] + u * (self.high[pools] - self.low[pools])
        return np.asarray(np.where(pools < 0, -1.0, place))


def pool_ordered(codes: Host, rare: int, between: bool) -> PooledColumn:
    """Pools of at least `rare` records, where there are as many, of codes (n,) that have an order.

    A value of at least `rare` records is a pool of its own.  Consecutive values of fewer are divided into pools of at
    least that many records; where they have fewer together, they join the larger pool beside them.  A pool of several
    values stands for all places from its first value to its last.  The first and the last pool, if they are of this
    kind, stand for their middle alone (bottom and top codes).

    between : whether there are values between two codes; if not, rare values join the larger common value beside them,
              and a pool of several rare values stands for its commonest value
    """
    known = codes >= 0
    counts = np.bincount(codes[known]) if known.any() else np.zeros(0, dtype=np.int64)
    present = np.flatnonzero(counts)
    held = counts[present]
    label = _labels(held, rare)
    pools = int(label.max(initial=-1)) + 1
    place = np.full(len(counts) + 1, -1)  # the last place is that of a null
    place[present] = label
    first = np.searchsorted(label, np.arange(pools))
    last = np.searchsorted(label, np.arange(pools), side="right") - 1
    low, high = present[first].astype(np.float64), present[last].astype(np.float64)
    common = held >= rare
    # The commonest value of a pool, the lowest of several: all of a pool with a common value stands for that.
    order = np.lexsort((np.arange(len(held)), -held, label))
    top = order[first]
    settled = common[top] | np.full(pools, not between)
    low[settled] = high[settled] = present[top[settled]]
    total = np.bincount(label, weights=held, minlength=pools)
    below = np.cumsum(held)
    for edge in {0, pools - 1} if pools else set():
        if not settled[edge]:
            half = below[first[edge]] - held[first[edge]] + total[edge] / 2
            middle = int(np.clip(np.searchsorted(below, half), first[edge], last[edge] - 1))
            low[edge] = high[edge] = (present[middle] + present[middle + 1]) / 2
    return PooledColumn(place[codes], low, high)


def _labels(held: Host, rare: int) -> Host:
    """(values,) the pool of each value, from 0; `held` are their counts."""
    common = held >= rare
    if not len(held) or rare <= 1:
        return np.arange(len(held))
    stretch = np.cumsum(np.r_[True, common[1:] | common[:-1]]) - 1  # common values alone, rare neighbours together
    total = np.bincount(stretch, weights=held).astype(np.int64)
    begins = np.searchsorted(stretch, np.arange(len(total)))
    before = np.cumsum(held) - held - (np.cumsum(total) - total)[stretch]  # records of the stretch before each value
    parts = np.where(common[begins], 1, total // rare)
    width = total / np.maximum(parts, 1)
    inner = np.minimum((before / width[stretch]).astype(np.int64), np.maximum(parts, 1)[stretch] - 1)
    label = np.unique(np.column_stack([stretch, inner]), axis=0, return_inverse=True)[1].reshape(-1)
    return _join_small(label, held, rare)


def _join_small(label: Host, held: Host, rare: int) -> Host:
    """Pools of fewer than `rare` records joined to the larger of their neighbours, until there is none."""
    while True:
        total = np.bincount(label, weights=held)
        small = total < rare
        if not small.any() or len(total) == 1:
            return label
        # Of adjacent small pools only the first joins, so that each round is without conflict.
        turn = small & ~np.r_[False, small[:-1]]
        left, right = np.r_[-1.0, total[:-1]], np.r_[total[1:], -1.0]
        joins_left = turn & (left >= right)
        joins_right = turn & ~joins_left
        border = np.ones(len(total), dtype=bool)  # whether a pool begins a new one
        border[joins_left] = False
        border[1:][joins_right[:-1]] = False
        border[0] = True
        label = (np.cumsum(border) - 1)[label]


def rare_levels(codes: Host, rare: int) -> Host:
    """(n,) whether the level of each record, which has no order, is that of fewer than `rare` records."""
    counts = np.bincount(codes[codes >= 0], minlength=1)
    return np.asarray((codes >= 0) & (counts[codes] < rare))


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
