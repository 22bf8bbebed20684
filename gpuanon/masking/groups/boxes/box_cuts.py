"""Boxes of at least k rows whose widths, weighted by sensitivities, are small.

A part is cut in two at a multiple of k rows, recursively.  A large part is cut in the middle of the column with the
largest ``Σ_p a_i(p) · w_i``, the sensitivities of its rows times its width: where it is widest in units of its optimal
half-width, which is proportional to 1 / a_i [1].  A part of at most `FEW` times k rows is cut where the costs of the
two tight boxes (`box_cost`) are smallest together, over all columns and all multiples of k.

Rows are sorted once along every column; a cut divides these orders, and keeps them sorted.  All open parts are cut in
lock step.  Costs are whole numbers: ties fall alike on host and device (the first column, the lowest cut).

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI, section II.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima, segment_sums, sort_within
from gpuanon.masking.groups.boxes.box_cost import FEW, BoxCost


def box_cuts(x: Array, cost: BoxCost, within: Partition, k: int, floors: Array | None = None) -> Partition:
    """Cut the parts of `within` into boxes of at least k rows.

    x      : (n, d) int32, see `whole_coordinates`
    floors : (d,) widths below which no box may fall by a cut, or None; a part that allows no cut stays whole

    Guarantee : every group has at least k rows; without floors fewer than 2k, and all of a part but one exactly k.
    Cost      : d sorts once, then O(n d²) per level of cuts, all parts in lock step.
    """
    xp = namespace(x)
    orders = [sort_within(x[:, j], within) for j in range(x.shape[1])]
    starts = within.starts
    labels, made = xp.zeros(within.n, dtype=np.int64), 0
    is_open = starts[1:] - starts[:-1] >= 2 * k
    while True:
        part = Partition(orders[0], starts).part_of_sorted()
        kept = is_open[part]
        numbers = xp.cumsum(~is_open) - 1 + made
        labels[orders[0][~kept]] = numbers[part[~kept]]
        made += int((~is_open).sum())
        if (made and not bool(is_open.any())) or within.n == 0:
            return Partition.from_labels(labels)
        orders = [order[kept] for order in orders]
        sizes = (starts[1:] - starts[:-1])[is_open]
        starts = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(sizes)])
        axis, cuts = _chosen(x, cost, orders, starts, k, floors)
        orders, starts, uncut = _divided(orders, starts, axis, cuts, within.n)
        is_open = (starts[1:] - starts[:-1] >= 2 * k) & ~uncut


def _chosen(
    x: Array, cost: BoxCost, orders: list[Array], starts: Array, k: int, floors: Array | None
) -> tuple[Array, Array]:
    """(p,) the column along which each part is cut, and the rows of its lower side: 0 where no cut is allowed."""
    xp = namespace(x)
    blocks = (starts[1:] - starts[:-1]) // k
    large = blocks > FEW
    axis, cuts = xp.zeros(len(blocks), dtype=np.int64), blocks // 2 * k
    if bool(large.any()):
        axis = _widest(x, cost, orders, starts)
    if bool((~large).any()):
        small = xp.flatnonzero(~large)
        chosen = (~large)[Partition(orders[0], starts).part_of_sorted()]
        sizes = (starts[1:] - starts[:-1])[small]
        inner = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(sizes)])
        axis[small], cuts[small] = _best(x, cost, [order[chosen] for order in orders], inner, k, floors)
    return axis, cuts


def _widest(x: Array, cost: BoxCost, orders: list[Array], starts: Array) -> Array:
    """(p,) the column along which each part is widest, times the sensitivities of its rows."""
    xp = namespace(x)
    rows = x[orders[0]].T.astype(np.float64)
    level = Partition(xp.arange(len(orders[0]), dtype=np.int64), starts)
    found = []
    for j, (order, a) in enumerate(zip(orders, cost.sensitivities(rows, rows), strict=True)):
        width = (x[order[starts[1:] - 1], j] - x[order[starts[:-1]], j]).astype(np.float64)
        found.append(width * segment_sums(a[:, None], level)[:, 0])
    return xp.stack(found, axis=1).argmax(axis=1)


def _best(
    x: Array, cost: BoxCost, orders: list[Array], starts: Array, k: int, floors: Array | None
) -> tuple[Array, Array]:
    """(p,) the column and the rows of the lower side whose two boxes cost least together."""
    xp = namespace(x)
    counts = (starts[1:] - starts[:-1]) // k
    first = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(counts)])
    number = xp.arange(int(first[-1]), dtype=np.int64)
    part = xp.searchsorted(first[1:], number, side="right").astype(np.int64, copy=False)
    place = number - first[part]
    bounds = xp.concatenate([starts[part] + place * k, starts[-1:]])
    behind = counts[part] - 1 - place
    most = int(counts.max())
    rows, below = (starts[1:] - starts[:-1])[part], (place + 1) * k
    costs = []
    for order in orders:
        pieces = Partition(order, bounds)
        low, high = segment_minima(x, pieces), segment_maxima(x, pieces)
        lower = [_running(low, place, most, 1, xp.minimum), _running(high, place, most, 1, xp.maximum)]
        upper = [_running(low, behind, most, -1, xp.minimum), _running(high, behind, most, -1, xp.maximum)]
        both = below * cost.per_record(*lower)
        both[:-1] += (rows - below)[:-1] * cost.per_record(*upper)[1:]  # the upper side starts at the next block
        if floors is not None:
            narrow = (lower[1] - lower[0] < floors[:, None]).any(axis=0)
            narrow[:-1] |= (upper[1] - upper[0] < floors[:, None]).any(axis=0)[1:]
            both = xp.where(narrow, np.inf, both)
        padded = xp.full((len(counts), most), np.inf)
        padded[part, place] = xp.where(behind > 0, both, np.inf)
        costs.append(padded)
    weighed = xp.concatenate(costs, axis=1)
    best = weighed.argmin(axis=1)
    allowed = xp.isfinite(weighed.min(axis=1))
    return best // most, xp.where(allowed, (best % most + 1) * k, 0)


def _running(values: Array, place: Array, most: int, way: int, extreme: np.ufunc) -> Array:
    """(d, s) float64 running extremes over the blocks of a part up to each one: from its first, or back from its last.

    place : (s,) blocks of the part before each one, in the direction of `way`
    """
    xp = namespace(values)
    values = values.T.astype(np.float64)
    step = 1
    while step < most:
        shifted = xp.roll(values, way * step, axis=1)
        values = xp.where(place >= step, extreme(values, shifted), values)
        step *= 2
    return values


def _divided(orders: list[Array], starts: Array, axis: Array, cuts: Array, n: int) -> tuple[list[Array], Array, Array]:
    """The first ``cuts[p]`` rows of each part, along its column, become a part of their own.

    Returns
    -------
    The orders along every column, the starts of the parts, and (parts,) whether a part was not cut
    """
    xp = namespace(starts)
    part = Partition(orders[0], starts).part_of_sorted()
    place = xp.arange(len(part), dtype=np.int64)
    start, cut = starts[part], cuts[part]
    head, along = place - start < cut, axis[part]
    lower = xp.zeros(n, dtype=bool)
    for j, order in enumerate(orders):
        lower[order[head & (along == j)]] = True
    divided = []
    for order in orders:
        flags = lower[order]
        before = xp.cumsum(flags) - flags
        before -= before[start]
        moved = xp.empty_like(order)
        moved[start + xp.where(flags, before, cut + (place - start) - before)] = order
        divided.append(moved)
    split = xp.stack([cuts > 0, xp.ones(len(cuts), dtype=bool)], axis=1)
    both = xp.stack([starts[:-1], starts[:-1] + cuts], axis=1)
    uncut = xp.stack([cuts == 0, cuts == 0], axis=1)
    return divided, xp.concatenate([both[split], starts[-1:]]), uncut[split]
