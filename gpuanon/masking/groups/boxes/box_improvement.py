"""A search from asymptotically optimal boxes towards better ones: annealed swaps and new cuts [1, section V].

A sweep has these steps, in all neighbourhoods at once:

exchange      : of pairs of near boxes a record on a face of one is swapped with one on a face of the other, or moves to
                the other if at least k stay: the best exchange of the pair, if it lowers their cost, and at a positive
                temperature also if it raises it a little (Metropolis' rule [2]; the unit of temperature is the pair's
                cost per record)
dissolve      : the records of some boxes join near boxes, by the same rule; so boxes get more than k records
unite and cut : some neighbouring boxes are united and cut anew; the new boxes replace the old ones if they cost less

The temperature falls from sweep to sweep and is zero in the last; if the boxes then cost more than those of the start,
the start is the result.  Neighbourhoods are blocks of boxes, cut along other columns in every sweep by random column
weights.  The random numbers are fixed and not secret, and the number of sweeps bounds the time: a bound in seconds
would make the boxes depend on the speed of the machine, where now equal tables get equal boxes.  Costs are whole
numbers below 2^53: the search is the same on host and device.

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI.
.. [2] N. Metropolis, A. W. Rosenbluth, M. N. Rosenbluth, A. H. Teller, E. Teller (1953), Equation of state
   calculations by fast computing machines, J. Chem. Phys. 21(6).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima, segment_sums
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.boxes.box_cuts import BITS, BoxCost, box_cuts
from gpuanon.masking.groups.refine.annealing import NOISE, random_words
from gpuanon.masking.groups.refine.neighbours import exact_bits, neighbours
from gpuanon.numerics.cuts.median_blocks import blocks

_ELEMENTS = 1 << 18
"""Of the ends of boxes that are weighed at once."""
_WEIGHED = 12**3
"""Columns times squared columns whose faces are looked at: with more than 12 columns not all faces of a box are."""


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
        batch = max(1, _ELEMENTS // max(4 * d * _faced(d) ** 2, d * used))

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
    """The rows on faces of some boxes, and the boxes without each of them.

    Of a box in many columns (each value of a category is one) the faces are those of the f columns that cost it most.

    slots          : (p, 2f) places of the rows in their boxes: the lowest, then the highest along each column
    z              : (d, p, 2f) their coordinates
    low, high      : (d, p, 2f) ends of the box without that row
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
        at = held.cost.dearest(low, high, _faced(len(z)))
        slots = xp.concatenate([xp.take_along_axis(rows, at, axis=0) for rows in (lowest, highest)], axis=0).T
        without_low = xp.where(lowest[:, :, None] == slots, second_low[:, :, None], low[:, :, None])
        without_high = xp.where(highest[:, :, None] == slots, second_high[:, :, None], high[:, :, None])
        z = xp.take_along_axis(z, xp.broadcast_to(slots, (len(z), *slots.shape)), axis=2)
        cost = held.cost.per_record(low, high) * sizes
        return cls(slots, z, without_low, without_high, (low, high), sizes, cost)

    def swapped(self, other: Faces, cost: BoxCost) -> Array:
        """(p, 2f, 2f) cost of each box after its row on a face is replaced by one of the other box."""
        xp = namespace(self.z)
        z = other.z[:, :, None, :]
        low, high = xp.minimum(self.low[..., None], z), xp.maximum(self.high[..., None], z)
        return cost.per_record(low, high) * self.sizes[:, None, None]

    def moved(self, other: Faces, held: NearBoxes) -> Array:
        """(p, 2f) cost of both boxes after a row on a face has moved to the other box; infinite if it may not."""
        xp = namespace(self.z)
        rest = held.cost.per_record(self.low, self.high) * (self.sizes - 1)[:, None]
        low, high = (end[:, :, None] for end in other.ends)
        larger = held.cost.per_record(xp.minimum(low, self.z), xp.maximum(high, self.z)) * (other.sizes + 1)[:, None]
        allowed = (self.sizes > held.k) & (other.sizes < held.width)
        return xp.where(allowed[:, None], rest + larger, np.inf)


def _faced(d: int) -> int:
    """Columns of d whose faces are looked at."""
    return min(d, max(2, int((_WEIGHED // d) ** 0.5)))


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


_UNITED = (4, 6, 3, 8, 2, 5, 16)
"""Boxes that are united in the sweeps, by turns."""
_HEAT = 1.0
_STEPS = 30
"""Rounds of exchanges in a sweep, each between other pairs."""
_DISSOLVE = 5
"""Rounds after which boxes are dissolved."""
_NEIGHBOURS = 8
_CELL = 256
"""Boxes among which neighbours are looked for."""
_FEWEST_SWEEPS, _MOST_SWEEPS = 8, 40
_LARGEST = 4
"""Boxes of more than so many times k records exchange none."""


def usual_sweeps(boxes: int, d: int) -> int:
    """Number of sweeps: more for small tables, few for tiny ones and for those of many columns."""
    most = max(_FEWEST_SWEEPS, min(_MOST_SWEEPS, _MOST_SWEEPS * 12 // d))
    slow = int(np.clip(_FEWEST_SWEEPS * np.sqrt(20_000 / max(boxes, 1)), _FEWEST_SWEEPS, most))
    return min(slow, 4 + boxes // 3)


def improve(
    x: Array, cost: BoxCost, groups: Partition, k: int, sweeps: int | None = None, floors: Array | None = None
) -> Partition:
    """Boxes of no larger cost, after `sweeps` sweeps (None: `usual_sweeps`).

    x      : (n, d) int32 coordinates, see `gpuanon.masking.groups.boxes.box_cuts`
    floors : see `box_cuts`

    Guarantee : groups keep at least k rows, and the cost never rises.
    Cost      : O(n d² + n d³ / k) per sweep up to 12 columns, O(n d²) beyond, times d if statistics depend on pairs.
    """
    random = np.random.default_rng(2013)
    count = sweeps or usual_sweeps(groups.parts, x.shape[1])
    now = groups
    for sweep in range(count):
        heats = [_HEAT * max(0.0, 1 - (sweep * _STEPS + step) / max(1, (count - 1) * _STEPS)) for step in range(_STEPS)]
        now = exchanged(x, cost, now, k, heats, random)
        now = recut(x, cost, now, k, _UNITED[sweep % len(_UNITED)], random, floors)
    before, after = (float(cost.of_groups(x, boxes).sum()) for boxes in (groups, now))
    return now if after < (1 - 1e-12) * before else groups


def neighbourhoods(x: Array, groups: Partition, size: int, random: np.random.Generator) -> Partition:
    """Blocks of at most `size` neighbouring boxes, along columns with random weights."""
    xp = namespace(x)
    centres = segment_minima(x, groups).astype(np.float64) + segment_maxima(x, groups)
    reach = xp.frexp(xp.maximum(centres.max(axis=0) - centres.min(axis=0), 1.0))[1].astype(np.int64)
    weights = xp.asarray(random.integers(4, 17, size=x.shape[1]).astype(np.float64))
    # Whole numbers below 2^46, about equally spread over all columns.
    return blocks(xp.rint(xp.ldexp(centres, 40 - reach)) * weights, Partition.whole(groups.parts, x), size)


def recut(
    x: Array,
    cost: BoxCost,
    groups: Partition,
    k: int,
    size: int,
    random: np.random.Generator,
    floors: Array | None = None,
) -> Partition:
    """Unite `size` neighbouring boxes and cut them anew, where that costs less."""
    xp = namespace(x)
    near = neighbourhoods(x, groups, size, random)
    place = near.labels()[groups.labels()]
    new = box_cuts(x, cost, Partition.from_labels(place), k, floors)
    before = segment_sums(cost.of_groups(x, groups), near)
    after = segment_sums(cost.of_groups(x, new), Partition.from_labels(place[new.order[new.starts[:-1]]]))
    better = (after < before)[place]
    return Partition.from_labels(xp.where(better, groups.parts + new.labels(), groups.labels()))


def exchanged(
    x: Array, cost: BoxCost, groups: Partition, k: int, heats: list[float], random: np.random.Generator
) -> Partition:
    """Exchange records between near boxes, in one round for each of the temperatures `heats`, and dissolve some boxes.

    In a round a random half of the boxes propose to one of their neighbours, if it is in the other half; of several
    proposals a box accepts the last.
    """
    xp = namespace(x)
    near = neighbourhoods(x, groups, _CELL, random)
    near = _small(near, groups.sizes <= _LARGEST * k)
    g = near.n
    if g < 2:
        return groups
    cells = Partition(xp.arange(g, dtype=np.int64), near.starts)
    mates = neighbours(_centres(x, groups)[near.order], cells, min(_NEIGHBOURS, g - 1))
    words = random_words(xp.arange(g, dtype=np.int64), int(random.integers(1 << 15)))
    noise = xp.asarray(NOISE)
    boxes = NearBoxes.of(x, cost, groups, near.order, k)
    for step, heat in enumerate(heats):
        heated = heat * noise[(words * np.uint64(2 * step + 1)) >> np.uint64(48)]
        boxes.exchange(mates[step % len(mates)], (words >> np.uint64(step % 64)) & np.uint64(1) == 1, heated)
        if step % _DISSOLVE == _DISSOLVE - 1:
            boxes.dissolve(mates, (words >> np.uint64(step + 16)) & np.uint64(7) == 0, heated)
    labels = groups.labels()
    filled = boxes.filled
    labels[boxes.members[filled]] = xp.broadcast_to(near.order[:, None], filled.shape)[filled]
    return Partition.from_labels(labels)


def _small(near: Partition, small: Array) -> Partition:
    """The parts without boxes that are not `small`."""
    xp = namespace(near.order)
    kept = small[near.order]
    part = near.part_of_sorted()[kept]
    starts = xp.flatnonzero(xp.concatenate([xp.ones(1, dtype=bool), part[1:] != part[:-1]]))[: len(part)]
    ends = xp.full(min(len(part), 1), len(part), dtype=np.int64)
    return Partition(near.order[kept], xp.concatenate([starts.astype(np.int64), ends]))


def _centres(x: Array, groups: Partition) -> Array:
    """(g, d) int32 centres of the boxes, as fine as exact distances allow."""
    whole = (segment_minima(x, groups).astype(np.int64) + segment_maxima(x, groups)) // 2
    return (whole >> max(0, BITS - exact_bits(x.shape[1]))).astype(np.int32)
