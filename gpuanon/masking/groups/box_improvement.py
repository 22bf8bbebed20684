"""A search from asymptotically optimal boxes towards better ones: annealed swaps and new cuts [1, section V].

A sweep has two steps, in all neighbourhoods at once:

swap          : pairs of near boxes swap a record on a face of one with a record on a face of the other: the best swap
                of the pair, if it lowers their cost, and at a positive temperature also if it raises it a little
                (Metropolis' rule [2]; the unit of temperature is the pair's cost per record)
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
from gpuanon.masking.groups.annealing import NOISE, random_words
from gpuanon.masking.groups.neighbours import exact_bits, neighbours
from gpuanon.numerics.box_cuts import BITS, box_costs, box_cuts
from gpuanon.numerics.median_blocks import blocks

_UNITED = (4, 6, 3, 8, 2, 5, 16)
"""Boxes that are united in the sweeps, by turns."""
_HEAT = 0.5
_STEPS = 30
"""Rounds of swaps in a sweep, each between other pairs."""
_NEIGHBOURS = 8
_CELL = 256
"""Boxes among which neighbours are looked for."""
_FEWEST_SWEEPS, _MOST_SWEEPS = 8, 20
_LARGEST = 4
"""Boxes of more than so many times k records swap none."""
_ELEMENTS = 1 << 18
"""Of the costs of swaps that are weighed at once."""
_FAR = 1 << 40


def usual_sweeps(boxes: int) -> int:
    """Number of sweeps: more for small tables, few for tiny ones."""
    slow = int(np.clip(_FEWEST_SWEEPS * np.sqrt(20_000 / max(boxes, 1)), _FEWEST_SWEEPS, _MOST_SWEEPS))
    return min(slow, 4 + boxes // 3)


def improve(
    x: Array, a: Array, groups: Partition, k: int, sweeps: int | None = None, floors: Array | None = None
) -> Partition:
    """Boxes of no larger cost, after `sweeps` sweeps (None: `usual_sweeps`).

    x, a   : (n, d) int32 coordinates and sensitivities, see `gpuanon.numerics.box_cuts`
    floors : see `box_cuts`

    Guarantee : groups keep at least k rows, and the cost never rises.
    Cost      : O(n d² + n d³ / k) per sweep.
    """
    random = np.random.default_rng(2013)
    count = sweeps or usual_sweeps(groups.parts)
    now = groups
    for sweep in range(count):
        heats = [_HEAT * max(0.0, 1 - (sweep * _STEPS + step) / max(1, (count - 1) * _STEPS)) for step in range(_STEPS)]
        now = swapped(x, a, now, k, heats, random)
        now = recut(x, a, now, k, _UNITED[sweep % len(_UNITED)], random, floors)
    before, after = (float(box_costs(x, a, boxes).sum()) for boxes in (groups, now))
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
    x: Array, a: Array, groups: Partition, k: int, size: int, random: np.random.Generator, floors: Array | None = None
) -> Partition:
    """Unite `size` neighbouring boxes and cut them anew, where that costs less."""
    xp = namespace(x)
    near = neighbourhoods(x, groups, size, random)
    place = near.labels()[groups.labels()]
    new = box_cuts(x, a, Partition.from_labels(place), k, floors)
    before = segment_sums(box_costs(x, a, groups), near)
    after = segment_sums(box_costs(x, a, new), Partition.from_labels(place[new.order[new.starts[:-1]]]))
    better = (after < before)[place]
    return Partition.from_labels(xp.where(better, groups.parts + new.labels(), groups.labels()))


def swapped(
    x: Array, a: Array, groups: Partition, k: int, heats: list[float], random: np.random.Generator
) -> Partition:
    """Swap records between pairs of near boxes, in one round for each of the temperatures `heats`.

    In a round a random half of the boxes propose to one of their neighbours, if it is in the other half; of several
    proposals a box accepts the last.
    """
    xp = namespace(x)
    near = neighbourhoods(x, groups, _CELL, random)
    near = _small(near, groups.sizes <= _LARGEST * k)
    g = near.n
    if g < 2:
        return groups
    sizes = groups.sizes[near.order]
    slots = xp.arange(int(sizes.max()), dtype=np.int64)[None, :]
    members = groups.order[groups.starts[near.order][:, None] + xp.minimum(slots, sizes[:, None] - 1)]
    cells = Partition(xp.arange(g, dtype=np.int64), near.starts)
    mates = neighbours(_centres(x, groups)[near.order], cells, min(_NEIGHBOURS, g - 1))
    words = random_words(xp.arange(g, dtype=np.int64), int(random.integers(1 << 15)))
    noise = xp.asarray(NOISE)
    d = x.shape[1]
    batch = max(1, _ELEMENTS // max(4 * d**3, d * members.shape[1]))
    for step, heat in enumerate(heats):
        first, second = _pairs(mates[step % len(mates)], (words >> np.uint64(step % 64)) & np.uint64(1) == 1)
        draws = noise[(words[first] * np.uint64(2 * step + 1)) >> np.uint64(48)]

        def visit(pairs: slice, first: Array = first, second: Array = second, heats: Array = heat * draws) -> None:
            _swap(x, a, members, sizes, first[pairs], second[pairs], heats[pairs])

        each(visit, ranges(len(first), batch))
    labels = groups.labels()
    filled = slots < sizes[:, None]
    labels[members[filled]] = xp.broadcast_to(near.order[:, None], members.shape)[filled]
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


def _pairs(mate: Array, coin: Array) -> tuple[Array, Array]:
    """Disjoint pairs: boxes with a `coin` and the `mate` (g,) that has none; of several the last one proposes."""
    xp = namespace(mate)
    proposers = xp.flatnonzero(coin & ~coin[mate])
    order = xp.argsort(mate[proposers], kind="stable")
    proposers = proposers[order]
    mates = mate[proposers]
    last = xp.ones(len(mates), dtype=bool)
    last[:-1] = mates[1:] != mates[:-1]
    return proposers[last], mates[last]


@dataclass(frozen=True, repr=False)
class _Faces:
    """The records on the faces of some boxes, and the boxes without each of them.

    slots     : (p, 2d) places of the records in their boxes: the lowest, then the highest along each column
    z, a      : (p, 2d, d) int64 their coordinates and sensitivities
    low, high : (p, 2d, d) int64 ends of the box without that record
    total     : (p, d) int64 sums of the sensitivities
    cost      : (p,) int64
    """

    slots: Array
    z: Array
    a: Array
    low: Array
    high: Array
    total: Array
    cost: Array

    @classmethod
    def of(cls, x: Array, a: Array, members: Array, sizes: Array) -> _Faces:
        """Of the boxes with these `members` (p, w), of which ``sizes`` (p,) count."""
        xp = namespace(x)
        z, weights = x[members].astype(np.int64), a[members].astype(np.int64)
        outside = (xp.arange(members.shape[1], dtype=np.int64)[None, :] >= sizes[:, None])[:, :, None]
        total = xp.where(outside, 0, weights).sum(axis=1)
        lowest, low, second_low = _two_least(xp.where(outside, _FAR, z))
        highest, high, second_high = _two_least(xp.where(outside, _FAR, -z))
        high, second_high = -high, -second_high
        slots = xp.concatenate([lowest, highest], axis=1)
        without_low = xp.where(lowest[:, None, :] == slots[:, :, None], second_low[:, None], low[:, None])
        without_high = xp.where(highest[:, None, :] == slots[:, :, None], second_high[:, None], high[:, None])
        cost = (total * (high - low)).sum(axis=1)
        z, weights = (xp.take_along_axis(values, slots[:, :, None], axis=1) for values in (z, weights))
        return cls(slots, z, weights, without_low, without_high, total, cost)

    def costs(self, other: _Faces) -> Array:
        """(p, 2d, 2d) int64 cost of each box after its record on a face is replaced by one of the other box."""
        xp = namespace(self.z)
        z = other.z[:, None]
        width = xp.maximum(self.high[:, :, None], z)
        width -= xp.minimum(self.low[:, :, None], z)
        width *= (self.total[:, None] - self.a)[:, :, None] + other.a[:, None]
        return width.sum(axis=-1)


def _two_least(z: Array) -> tuple[Array, Array, Array]:
    """(p, d) place of the least of z (p, length, d) along the length, the least, and the second least."""
    xp = namespace(z)
    place = z.argmin(axis=1)
    least = z.min(axis=1)
    at = xp.arange(z.shape[1], dtype=np.int64)[None, :, None]
    return place, least, xp.where(at == place[:, None, :], _FAR, z).min(axis=1)


def _swap(x: Array, a: Array, members: Array, sizes: Array, first: Array, second: Array, heats: Array) -> None:
    """Carry out the best swap of each pair of boxes in `members`, unless it costs too much; ties: the first faces.

    heats : (p,) what it may cost, in units of the pair's cost per record
    """
    xp = namespace(x)
    one, two = (_Faces.of(x, a, members[boxes], sizes[boxes]) for boxes in (first, second))
    costs = one.costs(two) + two.costs(one).transpose(0, 2, 1)
    width = costs.shape[2]
    costs = costs.reshape(len(first), -1)
    best = costs.argmin(axis=1)
    before = one.cost + two.cost
    change = costs.min(axis=1) - before
    good = xp.flatnonzero((change < 0) | (change < heats * (before / (sizes[first] + sizes[second]))))
    out, back = one.slots[good, best[good] // width], two.slots[good, best[good] % width]
    mine, theirs = (first[good], out), (second[good], back)
    members[mine], members[theirs] = members[theirs], members[mine]
