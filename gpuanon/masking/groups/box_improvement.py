"""A search from asymptotically optimal boxes towards better ones, which accepts only what is better [1, section V].

A sweep has two steps, in all neighbourhoods at once:

unite and cut : some neighbouring boxes are united and cut anew; the new boxes replace the old ones if they cost less
swap          : two neighbouring boxes swap a record on a face of one with a record on a face of the other

Neighbourhoods are blocks of boxes, cut along other columns in every sweep by random column weights.  The random numbers
are fixed and not secret, and the number of sweeps bounds the time, so that equal tables get equal boxes.  Costs are
whole numbers below 2^53: the search is the same on host and device.

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima, segment_sums
from gpuanon.arrays.ranges import ranges
from gpuanon.numerics.box_cuts import box_costs, box_cuts
from gpuanon.numerics.median_blocks import blocks

_UNITED = (4, 6, 3, 8, 2, 5, 16)
"""Boxes that are united in the sweeps, by turns."""
_SWAPS = 3
"""Rounds of swaps between the same pairs of boxes."""
_ELEMENTS = 1 << 20
"""Of the costs of swaps that are weighed at once."""
_FAR = 1 << 40


def improve(x: Array, a: Array, groups: Partition, k: int, sweeps: int, floors: Array | None = None) -> Partition:
    """Boxes of no larger cost, after `sweeps` sweeps.

    x, a   : (n, d) int32 coordinates and sensitivities, see `gpuanon.numerics.box_cuts`
    floors : see `box_cuts`

    Guarantee : groups keep at least k rows, and the cost never rises.
    Cost      : O(n d² + n d³ / k) per sweep.
    """
    random = np.random.default_rng(2013)
    for sweep in range(sweeps):
        groups = swapped(x, a, groups, random)
        groups = recut(x, a, groups, k, _UNITED[sweep % len(_UNITED)], random, floors)
    return groups


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


def swapped(x: Array, a: Array, groups: Partition, random: np.random.Generator) -> Partition:
    """Swap records between pairs of neighbouring boxes, where that costs less."""
    near = neighbourhoods(x, groups, 2, random)
    two = namespace(x).flatnonzero(near.sizes == 2)
    first, second = near.order[near.starts[two]], near.order[near.starts[two] + 1]
    labels = groups.labels()
    d = x.shape[1]
    step = max(1, _ELEMENTS // max(4 * d**3, d * int(groups.sizes.max())))
    for _ in range(_SWAPS):
        for pairs in ranges(len(two), step):
            _swap(x, a, groups, first[pairs], second[pairs], labels)
        groups = Partition.from_labels(labels)
    return groups


@dataclass(frozen=True, repr=False)
class _Faces:
    """The records on the faces of some boxes, and the boxes without each of them.

    rows      : (p, 2d) records: the lowest, then the highest along each column
    low, high : (p, 2d, d) int64 ends of the box without that record
    total     : (p, d) int64 sums of the sensitivities
    cost      : (p,) int64
    """

    rows: Array
    low: Array
    high: Array
    total: Array
    cost: Array

    @classmethod
    def of(cls, x: Array, a: Array, groups: Partition, parts: Array) -> _Faces:
        xp = namespace(x)
        sizes = groups.sizes[parts][:, None]
        offsets = xp.arange(int(sizes.max()), dtype=np.int64)[None, :]
        valid = offsets < sizes
        rows = groups.order[groups.starts[parts][:, None] + xp.where(valid, offsets, 0)]
        z, outside = x[rows].astype(np.int64), ~valid[:, :, None]
        total = xp.where(outside, 0, a[rows]).sum(axis=1, dtype=np.int64)
        lowest, low, second_low = _two_least(xp.where(outside, _FAR, z))
        highest, high, second_high = _two_least(xp.where(outside, _FAR, -z))
        high, second_high = -high, -second_high
        faces = xp.concatenate([lowest, highest], axis=1)
        without_low = xp.where(lowest[:, None, :] == faces[:, :, None], second_low[:, None], low[:, None])
        without_high = xp.where(highest[:, None, :] == faces[:, :, None], second_high[:, None], high[:, None])
        cost = (total * (high - low)).sum(axis=1)
        return cls(xp.take_along_axis(rows, faces, axis=1), without_low, without_high, total, cost)

    def costs(self, x: Array, a: Array, others: Array) -> Array:
        """(p, 2d, m) int64 cost of each box after its record on a face is replaced by one of `others` (p, m)."""
        xp = namespace(x)
        z, gained = x[others].astype(np.int64)[:, None], a[others].astype(np.int64)[:, None]
        width = xp.maximum(self.high[:, :, None], z) - xp.minimum(self.low[:, :, None], z)
        total = (self.total[:, None] - a[self.rows])[:, :, None] + gained
        return (total * width).sum(axis=-1)


def _two_least(z: Array) -> tuple[Array, Array, Array]:
    """(p, d) place of the least of z (p, length, d) along the length, the least, and the second least."""
    xp = namespace(z)
    place = z.argmin(axis=1)
    least = z.min(axis=1)
    at = xp.arange(z.shape[1], dtype=np.int64)[None, :, None]
    return place, least, xp.where(at == place[:, None, :], _FAR, z).min(axis=1)


def _swap(x: Array, a: Array, groups: Partition, first: Array, second: Array, labels: Array) -> None:
    """Carry out the best swap of each pair of boxes in `labels`, if it costs less; ties go to the first faces."""
    xp = namespace(x)
    one, two = (_Faces.of(x, a, groups, parts) for parts in (first, second))
    costs = one.costs(x, a, two.rows) + two.costs(x, a, one.rows).transpose(0, 2, 1)
    width = costs.shape[2]
    costs = costs.reshape(len(first), -1)
    best = costs.argmin(axis=1)
    good = xp.flatnonzero(costs.min(axis=1) < one.cost + two.cost)
    out, back = one.rows[good, best[good] // width], two.rows[good, best[good] % width]
    labels[out], labels[back] = second[good], first[good]
