"""Exchanges of records between near boxes, all pairs of a round together, and boxes whose records join near ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.boxes.box_cost import BoxCost

_ELEMENTS = 1 << 18
"""Of the ends of boxes that are weighed at once."""


@dataclass(frozen=True, repr=False)
class NearBoxes:
    """Boxes that exchange records.

    x       : (d, n) float64 coordinates, whole numbers
    members : (g, w) rows of each box, of which ``sizes`` (g,) count; a box of no rows was dissolved
    k       : least rows of a box
    """

    x: Array
    cost: BoxCost
    members: Array
    sizes: Array
    k: int

    @classmethod
    def of(cls, x: Array, cost: BoxCost, groups: Partition, chosen: Array, k: int) -> NearBoxes:
        """The `chosen` groups; x : (n, d)."""
        xp = namespace(x)
        sizes = groups.sizes[chosen]
        slots = xp.arange(max(int(sizes.max()), k + (k + 1) // 2), dtype=np.int64)[None, :]
        members = groups.order[groups.starts[chosen][:, None] + xp.minimum(slots, sizes[:, None] - 1)]
        return cls(xp.ascontiguousarray(x.T).astype(np.float64), cost, members, sizes, k)

    @property
    def width(self) -> int:
        """Most rows of a box."""
        return int(self.members.shape[1])

    @property
    def filled(self) -> Array:
        """(g, w) which members count."""
        return namespace(self.x).arange(self.width, dtype=np.int64)[None, :] < self.sizes[:, None]

    def exchange(self, mate: Array, coin: Array, heats: Array) -> None:
        """Carry out the best exchange of each box that has a `coin` (g,) with its `mate` (g,), if that has none.

        heats : (g,) what an exchange may cost, in units of the pair's cost per record
        """
        first, second = _pairs(mate, coin & (self.sizes > 0), ~coin & (self.sizes > 0))
        d, used = len(self.x), int(self.sizes.max()) if len(self.sizes) else 0
        batch = max(1, _ELEMENTS // max(4 * d**3, d * used))

        def visit(pairs: slice) -> None:
            self._exchange(first[pairs], second[pairs], heats[first[pairs]], used)

        each(visit, ranges(len(first), batch))

    def _exchange(self, first: Array, second: Array, heats: Array, used: int) -> None:
        """The best exchange of each pair, unless it costs too much; ties: swaps first, the first faces."""
        xp = namespace(self.x)
        one, two = (Faces.of(self, boxes, used) for boxes in (first, second))
        swaps = one.swapped(two, self.cost) + two.swapped(one, self.cost).transpose(0, 2, 1)
        faces = swaps.shape[2]
        costs = [swaps.reshape(len(first), -1)]
        if used > self.k:
            costs += [one.moved(two, self), two.moved(one, self)]
        weighed = xp.concatenate(costs, axis=1)
        best = weighed.argmin(axis=1)
        before = one.cost + two.cost
        change = weighed.min(axis=1) - before
        good = (change < 0) | (change < heats * (before / (one.sizes + two.sizes)))
        at = xp.flatnonzero(good & (best < faces * faces))
        mine = first[at], one.slots[at, best[at] // faces]
        theirs = second[at], two.slots[at, best[at] % faces]
        self.members[mine], self.members[theirs] = self.members[theirs], self.members[mine]
        for source, target, held, begin in ((first, second, one, 0), (second, first, two, 1)):
            place = best - faces * faces - begin * faces
            at = xp.flatnonzero(good & (place >= 0) & (place < faces))
            self._move(source[at], held.slots[at, place[at]], target[at])

    def _move(self, source: Array, slot: Array, target: Array) -> None:
        """Move the rows in these slots; the last row of a box fills the gap."""
        rows, last = self.members[source, slot], self.sizes[source] - 1
        self.members[source, slot] = self.members[source, last]
        self.members[target, self.sizes[target]] = rows
        self.sizes[source] = last
        self.sizes[target] += 1

    def dissolve(self, mates: Array, coin: Array, heats: Array) -> None:
        """Dissolve boxes with a `coin` (g,) where that lowers the cost, or raises it by less than the heat allows.

        Each of their rows joins the one of the `mates` (m, g) without a coin that it makes least expensive.  A mate
        takes the rows of one box: of several the last.

        heats : (g,) what it may cost, in units of the box's cost per record
        """
        xp = namespace(self.x)
        chosen = xp.flatnonzero(coin & (self.sizes > 0))
        near = mates[:, chosen].T
        free = ~coin[near] & (self.sizes[near] > 0) & (self.sizes[near] < self.width)
        owner = xp.full(len(coin), -1, dtype=np.int64)
        wanted, asking = near[free], xp.broadcast_to(chosen[:, None], near.shape)[free]
        order = xp.argsort(wanted, kind="stable")
        last = xp.ones(len(order), dtype=bool)
        last[:-1] = wanted[order][1:] != wanted[order][:-1]
        owner[wanted[order][last]] = asking[order][last]
        free &= owner[near] == chosen[:, None]
        some = free.any(axis=1)
        chosen, near, free = chosen[some], near[some], free[some]
        batch = max(1, _ELEMENTS // max(1, len(self.x) * self.width * len(mates)))

        def visit(part: slice) -> None:
            self._dissolve(chosen[part], near[part], free[part], heats[chosen[part]])

        each(visit, ranges(len(chosen), batch))

    def ends(self, boxes: Array) -> tuple[Array, Array]:
        """(d, …) lowest and highest coordinates of boxes; of one that was dissolved those of its first row."""
        xp = namespace(self.x)
        z = self.x[:, self.members[boxes]]
        filled = xp.arange(self.width) < xp.maximum(self.sizes[boxes], 1)[..., None]
        return xp.where(filled, z, np.inf).min(axis=-1), xp.where(filled, z, -np.inf).max(axis=-1)

    def _dissolve(self, chosen: Array, near: Array, free: Array, heats: Array) -> None:
        """Of the boxes `chosen` (p,), whose rows may join the boxes `near` (p, m) that are `free`."""
        xp = namespace(self.x)
        sizes, used = self.sizes[near], int(self.sizes[chosen].max())
        low, high = self.ends(near)
        before = self.cost.per_record(low, high) * sizes
        rows = self.members[chosen][:, :used]
        valid = xp.arange(used) < self.sizes[chosen][:, None]
        z = self.x[:, rows][..., None]  # (d, p, used, 1)
        wider = xp.minimum(low[:, :, None], z), xp.maximum(high[:, :, None], z)
        added = self.cost.per_record(*wider) * (sizes + 1)[:, None] - before[:, None]
        choice = xp.where(free[:, None], added, np.inf).argmin(axis=2)
        joins = (choice[:, :, None] == xp.arange(near.shape[1])) & valid[:, :, None]  # (p, used, m)
        low = xp.minimum(low, xp.where(joins, z, np.inf).min(axis=2))
        high = xp.maximum(high, xp.where(joins, z, -np.inf).max(axis=2))
        counts = joins.sum(axis=1)
        after = self.cost.per_record(low, high) * (sizes + counts)
        own = self.cost.per_record(*self.ends(chosen)) * self.sizes[chosen]
        change = (after - before).sum(axis=1) - own
        good = ((change < 0) | (change < heats * (own / self.sizes[chosen]))) & (sizes + counts <= self.width).all(
            axis=1
        )
        joins &= good[:, None, None]
        p, row, at = xp.nonzero(joins)
        slot = (xp.cumsum(joins, axis=1) - 1)[p, row, at] + sizes[p, at]
        self.members[near[p, at], slot] = rows[p, row]
        grown = xp.nonzero(counts * good[:, None])
        self.sizes[near[grown]] += counts[grown]
        self.sizes[chosen[good]] = 0


@dataclass(frozen=True, repr=False)
class Faces:
    """The rows on the faces of some boxes, and the boxes without each of them.

    slots          : (p, 2d) places of the rows in their boxes: the lowest, then the highest along each column
    z              : (d, p, 2d) their coordinates
    low, high      : (d, p, 2d) ends of the box without that row
    ends           : (d, p) lowest and highest coordinates of the box
    sizes          : (p,) rows
    cost           : (p,) whole float64
    """

    slots: Array
    z: Array
    low: Array
    high: Array
    ends: tuple[Array, Array]
    sizes: Array
    cost: Array

    @classmethod
    def of(cls, held: NearBoxes, boxes: Array, used: int) -> Faces:
        """Of some boxes, none of which has more than `used` rows."""
        xp = namespace(held.x)
        members, sizes = held.members[boxes][:, :used], held.sizes[boxes]
        z = held.x[:, members]
        outside = xp.arange(used, dtype=np.int64)[None, :] >= sizes[:, None]
        lowest, low, second_low = _two_least(xp.where(outside, np.inf, z))
        highest, high, second_high = _two_least(xp.where(outside, np.inf, -z))
        high, second_high = -high, -second_high
        slots = xp.concatenate([lowest, highest], axis=0).T
        without_low = xp.where(lowest[:, :, None] == slots, second_low[:, :, None], low[:, :, None])
        without_high = xp.where(highest[:, :, None] == slots, second_high[:, :, None], high[:, :, None])
        z = xp.take_along_axis(z, xp.broadcast_to(slots, (len(z), *slots.shape)), axis=2)
        cost = held.cost.per_record(low, high) * sizes
        return cls(slots, z, without_low, without_high, (low, high), sizes, cost)

    def swapped(self, other: Faces, cost: BoxCost) -> Array:
        """(p, 2d, 2d) cost of each box after its row on a face is replaced by one of the other box."""
        xp = namespace(self.z)
        z = other.z[:, :, None, :]
        low, high = xp.minimum(self.low[..., None], z), xp.maximum(self.high[..., None], z)
        return cost.per_record(low, high) * self.sizes[:, None, None]

    def moved(self, other: Faces, held: NearBoxes) -> Array:
        """(p, 2d) cost of both boxes after a row on a face has moved to the other box; infinite if it may not."""
        xp = namespace(self.z)
        rest = held.cost.per_record(self.low, self.high) * (self.sizes - 1)[:, None]
        low, high = (end[:, :, None] for end in other.ends)
        larger = held.cost.per_record(xp.minimum(low, self.z), xp.maximum(high, self.z)) * (other.sizes + 1)[:, None]
        allowed = (self.sizes > held.k) & (other.sizes < held.width)
        return xp.where(allowed[:, None], rest + larger, np.inf)


def _pairs(mate: Array, proposes: Array, accepts: Array) -> tuple[Array, Array]:
    """Disjoint pairs: boxes that propose and the `mate` (g,) that accepts; of several the last one proposes."""
    xp = namespace(mate)
    proposers = xp.flatnonzero(proposes & accepts[mate])
    order = xp.argsort(mate[proposers], kind="stable")
    proposers = proposers[order]
    mates = mate[proposers]
    last = xp.ones(len(mates), dtype=bool)
    last[:-1] = mates[1:] != mates[:-1]
    return proposers[last], mates[last]


def _two_least(z: Array) -> tuple[Array, Array, Array]:
    """(d, p) place of the least of z (d, p, length) along the length, the least, and the second least."""
    xp = namespace(z)
    place = z.argmin(axis=2)
    least = z.min(axis=2)
    at = xp.arange(z.shape[2], dtype=np.int64)
    return place, least, xp.where(at == place[:, :, None], np.inf, z).min(axis=2)
