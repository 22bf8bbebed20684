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

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima, segment_sums
from gpuanon.masking.groups.boxes.box_cost import BITS, BoxCost
from gpuanon.masking.groups.boxes.box_cuts import box_cuts
from gpuanon.masking.groups.boxes.box_swaps import NearBoxes
from gpuanon.masking.groups.refine.annealing import NOISE, random_words
from gpuanon.masking.groups.refine.neighbours import exact_bits, neighbours
from gpuanon.numerics.cuts.median_blocks import blocks

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


def usual_sweeps(boxes: int) -> int:
    """Number of sweeps: more for small tables, few for tiny ones."""
    slow = int(np.clip(_FEWEST_SWEEPS * np.sqrt(20_000 / max(boxes, 1)), _FEWEST_SWEEPS, _MOST_SWEEPS))
    return min(slow, 4 + boxes // 3)


def improve(
    x: Array, cost: BoxCost, groups: Partition, k: int, sweeps: int | None = None, floors: Array | None = None
) -> Partition:
    """Boxes of no larger cost, after `sweeps` sweeps (None: `usual_sweeps`).

    x      : (n, d) int32 coordinates, see `gpuanon.masking.groups.boxes.box_cost`
    floors : see `box_cuts`

    Guarantee : groups keep at least k rows, and the cost never rises.
    Cost      : O(n d² + n d³ / k) per sweep, times d if statistics depend on pairs of columns.
    """
    random = np.random.default_rng(2013)
    count = sweeps or usual_sweeps(groups.parts)
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
