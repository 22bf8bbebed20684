"""Swapping of values: by a window of ranks, between random subsets at equal ranks, of records at risk, inside groups.

The first two keep the values of each column exactly, and move no value far in rank.  They are known to be weak when
many columns are swapped by a small window: each value tells where its record lies.

Targeted swapping is what census offices do: households that are rare in their area exchange the area with a household
that is equal on chosen columns, so that tables of the whole country over those columns do not change [3].

Exchange inside groups permutes each column, or whole records: core-variable swapping if the records of a group are
equal on core columns, swapping within clusters if they are similar.

Pairs are random, in rounds of proposals: every free row is a sender or a receiver by a coin.  A sender proposes to a
random free row among those that it may be paired with; a receiver accepts one of its proposals at random.  About two
fifths of the rows are paired in a round, so that the work of all rounds is a small multiple of the first one's.

References
----------
.. [1] R. A. Moore (1996), Controlled data-swapping techniques for masking public use microdata sets, US Census Bureau.
.. [2] M. Carlson, M. Salabasis (2002), A data-swapping technique using ranks, Res. Off. Stat. 5(2).
.. [3] L. Zayatz (2007), Disclosure avoidance practices and research at the U.S. Census Bureau: an update, J. Off.
   Stat. 23(2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, shuffle_within
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.random_ranks import random_tie_order
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.schema import Kind

_ROUNDS = 96

Propose = Callable[[Array, Array], Array]
"""Free rows (m,), ascending, and uniform numbers (m,) → for each the position of another free row, −1 for none."""


def pairs(n: int, propose: Propose, draws: Draws) -> Array:
    """(n,) int64 the row that each of `n` rows is paired with, itself where there is none: an involution.

    propose : whom a row may be paired with; see `Propose`.  May be asymmetric: the pair stands if either proposes
    draws   : of the rows, in their order

    Rows remain single only when no row may propose, or after 96 rounds (not met in practice).

    Cost : that of about three calls of `propose` with all rows, and as many sorts.
    """
    xp = namespace(draws.records)
    partner = xp.arange(n, dtype=np.int64)
    free = partner.copy()
    for number in range(_ROUNDS):
        if len(free) < 2:
            break
        words = draws.take(free).child(str(number)).words(3)
        target = propose(free, (words[:, 0] + 0.5) / 2.0**32)
        if not bool((target >= 0).any()):
            break
        sends = words[:, 1] < 1 << 31
        made = xp.flatnonzero(sends & (target >= 0) & ~sends[xp.maximum(target, 0)])
        # Of the proposals to one receiver that with the smallest word is accepted.
        keys = (target[made].astype(np.uint64) << np.uint64(32)) | words[made, 2].astype(np.uint64)
        made = made[xp.argsort(keys, kind="stable")]
        to = target[made]
        first = xp.concatenate([xp.ones(min(1, len(to)), dtype=bool), to[1:] != to[:-1]])
        senders, receivers = made[first], to[first]
        partner[free[senders]] = free[receivers]
        partner[free[receivers]] = free[senders]
        single = xp.ones(len(free), dtype=bool)
        single[senders] = False
        single[receivers] = False
        free = free[single]
    return partner


def near_pairs(low: Array, high: Array, draws: Draws) -> Array:
    """(n,) the partner of each row i among the rows ``low[i]`` to ``high[i]``, itself where none is free.

    low, high : (n,) int64 ascending; a row may be paired with those between, and they with it
    """
    xp = namespace(low)

    def propose(free: Array, u: Array) -> Array:
        begin = xp.searchsorted(free, low[free], side="left")
        count = xp.searchsorted(free, high[free], side="right") - begin - 1  # without itself
        pick = begin + _share(u, count)
        pick = pick + (pick >= xp.arange(len(free)))
        return xp.where(count > 0, pick, -1)

    return pairs(len(low), propose, draws)


def unlike_pairs(groups: Array, kinds: Array, wanted: Array, draws: Draws) -> Array:
    """(n,) the partner of each row: of the same group and another kind, itself where none is free.

    groups, kinds : (n,) int64, sorted by group and, inside a group, by kind; kinds of different groups differ
    wanted        : (n,) whether a row looks for a partner; the others wait to be asked
    """
    xp = namespace(groups)

    def propose(free: Array, u: Array) -> Array:
        group, kind = groups[free], kinds[free]
        begin, own = xp.searchsorted(group, group), xp.searchsorted(kind, kind)
        alike = xp.searchsorted(kind, kind, side="right") - own
        count = xp.searchsorted(group, group, side="right") - begin - alike
        pick = begin + _share(u, count)
        pick = pick + xp.where(pick >= own, alike, 0)
        return xp.where((count > 0) & wanted[free], pick, -1)

    return pairs(len(groups), propose, draws)


def _share(u: Array, count: Array) -> Array:
    """Whole numbers from 0 to below `count`, at the share `u` (0 to below 1) of it."""
    xp = namespace(u)
    return xp.minimum((u * count).astype(np.int64), xp.maximum(count - 1, 0))


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


def targeted_swap(
    codes: Array, groups: Partition, draws: Draws, below: int = 2, rate: float = 0.0
) -> tuple[Array, dict[str, int]]:
    """(n,) for each row the row whose values it receives, and counts: at risk, exchanged, at risk without a partner.

    A record is at risk if fewer than `below` records of its group have its values.  It exchanges all its values with a
    random record of its group that has others.  Random records do so besides, until about `rate` of all have exchanged.

    Guarantee : the values of each group are kept; a record at risk keeps its own only if all records of its group with
        other values have exchanged theirs, or there are none.
    Cost      : a few sorts of n numbers.
    """
    xp = namespace(codes)
    labels = groups.labels()
    kinds = Partition.from_labels(equal_rows(codes, labels))
    size = kinds.sizes[kinds.part_of_sorted()]
    risky = size < below
    own = draws.take(kinds.order)
    # Of a share s of the records that look for a partner, s find one another: 2 s − s² exchange.
    share = float(risky.sum()) / max(1, len(size))
    missing = max(0.0, 1.0 - (1.0 - rate) ** 0.5 - share) / max(1e-12, 1.0 - share)
    chosen = own.child("others").uniform(1)[:, 0] < missing
    partner = unlike_pairs(labels[kinds.order], kinds.part_of_sorted(), risky | chosen, own.child("pairs"))
    moved = partner != xp.arange(len(partner))
    source = xp.empty(len(labels), dtype=np.int64)
    source[kinds.order] = kinds.order[partner]
    facts = {
        "records_at_risk": int(risky.sum()),
        "records_exchanged": int(moved.sum()),
        "at_risk_without_partner": int((risky & ~moved).sum()),
    }
    return source, facts


class TargetedSwap(Operation):
    """Records that are rare in their group exchange their values with others of the group."""

    sees: ClassVar[Sight] = "classes"

    use: Literal["targeted-swap"] = "targeted-swap"
    below: int = Field(default=2, ge=2, description="records with fewer equals, themselves included, are at risk")
    rate: float = Field(default=0.0, ge=0, le=1, description="share of records that exchange, at least, at random")

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return True

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        source, facts = targeted_swap(T, groups, records.draws.child("targeted-swap"), self.below, self.rate)
        return Recoded([NewColumn(j, T[source, j]) for j in range(T.shape[1])], facts=facts)


def exchange(codes: Array, groups: Partition, draws: Draws, together: bool = False) -> Array:
    """(n, columns) codes, each column permuted uniformly at random inside each group, or all by one permutation.

    Every table of one column against what defines the groups is kept exactly; with `together`, every table of any
    columns.

    Cost : one sort of n numbers for each permutation.
    """
    out = namespace(codes).empty_like(codes)
    if together:
        return codes[shuffle_within(draws.keys(), groups)]
    for j in range(codes.shape[1]):
        out[:, j] = codes[shuffle_within(draws.child(str(j)).keys(), groups), j]
    return out


class Exchange(Operation):
    """Values are permuted inside each group: column by column, or whole records."""

    sees: ClassVar[Sight] = "classes"

    use: Literal["exchange"] = "exchange"
    together: bool = Field(default=False, description="all columns by one permutation, instead of each by its own")

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return self.together

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        codes = exchange(T, groups, records.draws.child("exchange"), self.together)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(codes.shape[1])])
