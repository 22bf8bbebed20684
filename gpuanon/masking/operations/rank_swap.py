"""Swapping of similar values: by a window of ranks, or between random subsets at equal ranks.

Both keep the values of each column exactly, and move no value far in rank.  Both are known to be weak when many columns
are swapped by a small window: each value tells where its record lies.

References
----------
.. [1] R. A. Moore (1996), Controlled data-swapping techniques for masking public use microdata sets, US Census Bureau.
.. [2] M. Carlson, M. Salabasis (2002), A data-swapping technique using ranks, Res. Off. Stat. 5(2).
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.pairing import near_pairs
from gpuanon.masking.operations.random_ranks import random_tie_order
from gpuanon.masking.outcomes import NewColumn, Recoded


def rank_swap(codes: Array, groups: Partition, draws: Draws, window: float) -> Array:
    """(n, columns) codes; in each column pairs of records have exchanged their values (Moore 1996).

    The ranks of a pair, inside their group and with ties in random order, differ by at most `window` percent of the
    group's size (and by 1 at least).  Partners are drawn uniformly among the free records of the window.

    Guarantee : each column of each group keeps exactly its values.  A record stays single, and keeps its value, only
        if all others of its window are paired.
    Cost      : about ten sorts of n numbers for each column.
    """
    xp = namespace(codes)
    out = xp.empty_like(codes)
    place, part = xp.arange(groups.n, dtype=np.int64), groups.part_of_sorted()
    reach = xp.maximum(xp.floor(groups.sizes * (window / 100)).astype(np.int64), 1)[part]
    low = xp.maximum(place - reach, groups.starts[part])
    high = xp.minimum(place + reach, groups.starts[part + 1] - 1)
    for j in range(codes.shape[1]):
        own = draws.child(str(j))
        order = random_tie_order(codes[:, j], groups, own)
        out[order, j] = codes[order[near_pairs(low, high, own.take(order))], j]
    return out


def column_swap(codes: Array, groups: Partition, draws: Draws, subsets: int) -> Array:
    """(n, columns) codes; each sorted column of each random subset is exchanged for another subset's (Carlson 2002).

    The rows of a group are divided at random into `subsets` of equal size (to one row).  In each column the record of
    rank r in a subset receives the value of rank r in another subset: subsets are shifted in a circle, by a random
    step for each column.  The last ranks, which not all subsets have, are shifted together with those before them.

    Guarantee : each column of each group keeps exactly its values.
    Cost      : two sorts of n numbers for each column.
    """
    xp = namespace(codes)
    out = xp.empty_like(codes)
    part = groups.part_of_sorted()
    size = groups.sizes[part]
    count = xp.minimum(subsets, size)
    mixed = random_tie_order(xp.zeros(groups.n, dtype=np.int64), groups, draws.child("subset"))
    place = xp.arange(groups.n, dtype=np.int64) - groups.starts[part]
    subset = xp.empty(groups.n, dtype=np.int64)
    subset[mixed] = groups.starts[part] + place % count  # a number of its own in all groups
    # Rank r of the subsets of a group lies in the circle from r * count on; the last circle also takes what remains.
    circles = xp.maximum(size // count, 1)
    circle = xp.minimum(place // count, circles - 1)
    begin = groups.starts[part] + circle * count
    length = xp.where(circle == circles - 1, size - circle * count, count)
    lowest = draws.take(groups.order[groups.starts[:-1]])
    inside = Partition.from_labels(subset)
    at = inside.part_of_sorted()
    rank = xp.arange(groups.n, dtype=np.int64) - inside.starts[at]
    for j in range(codes.shape[1]):
        step = 1 + (lowest.child(f"step.{j}").uniform(1)[:, 0][part] * (count - 1)).astype(np.int64)
        order = random_tie_order(codes[:, j], inside, draws.child(str(j)))
        # From (subset, rank) to (rank, subset), group after group.
        owner = subset[order]
        start = groups.starts[groups.labels()[order]]
        ranked = xp.empty(groups.n, dtype=np.int64)
        ranked[start + rank * xp.minimum(subsets, groups.sizes[groups.labels()[order]]) + (owner - start)] = order
        donor = begin + (xp.arange(groups.n) - begin + step) % length
        out[ranked, j] = codes[ranked[donor], j]
    return out


class RankSwap(Operation):
    """Pairs of records of similar rank exchange their values, column by column."""

    sees: ClassVar[Sight] = "classes"

    use: Literal["rank-swap"] = "rank-swap"
    window: float = Field(default=5.0, gt=0, le=100, description="largest difference of ranks, in percent of the rows")

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        codes = rank_swap(T, groups, records.draws.child("rank-swap"), self.window)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(codes.shape[1])])


class ColumnSwap(Operation):
    """Sorted columns are exchanged between random subsets of the records."""

    sees: ClassVar[Sight] = "classes"

    use: Literal["column-swap"] = "column-swap"
    subsets: int = Field(default=10, ge=2, description="random subsets between which sorted columns are exchanged")

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        codes = column_swap(T, groups, records.draws.child("column-swap"), self.subsets)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(codes.shape[1])])
