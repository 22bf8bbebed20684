"""Boxes of at least k rows that add little width to the ranges of the wanted statistics.

Cost of a box.  A record adds ``f(x)`` to a statistic, its influence, and a box with n records the n-fold width of the
range of f over the box.  Influences are quadratic: with the sensitivities ``a_i = |∂f / ∂x_i|`` at the middle of the
box, which are constants or linear forms ``|g_i|``, the width is ``Σ_i a_i w_i`` as long as no ``g_i`` changes its sign
inside the box.  Where one does, |g_i| is replaced by the least that the box allows: for a product the half-width of the
other factor, which is exact unless both factors change their signs; for a square two tangents of the exact width.  The
sum of the sensitivities of a box's records is equal to first order only: one record far from the others makes a box
wide, and hardly changes that sum.

Cuts.  A part is cut in two at a multiple of k rows, recursively.  A large part is cut in the middle of the column with
the largest ``Σ_p a_i(p) · w_i``, the sensitivities of its rows times its width: where it is widest in units of its
optimal half-width, which is proportional to 1 / a_i [1].  A part of at most `FEW` times k rows is cut where the costs
of the two tight boxes are smallest together, over all columns and all multiples of k.

Rows are sorted once along every column; a cut divides these orders, and keeps them sorted.  All open parts are cut in
lock step.  Costs are computed elementwise, in a fixed order, from sensitivities rounded down to whole numbers: they are
exact, and ties fall alike on host and device (the first column, the lowest cut).

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI, section II.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima, segment_sums, sort_within
from gpuanon.masking.groups.boxes.sensitivities import FLOOR, Form, Gradient

BITS = 24
"""Of a coordinate."""
FEW = 64
"""Boxes of k rows, united, whose cost is exact."""


def whole_coordinates(X: Array) -> Array:
    """(n, d) int32: the columns of `X` on one grid, of 2^24 steps over the widest range: widths stay comparable."""
    xp = namespace(X)
    low = X.min(axis=0)
    return xp.rint((X - low) * _steps(X)).astype(np.int32)


def _steps(X: Array) -> Array:
    """Of the grid, per unit of `X`."""
    xp = namespace(X)
    return ((1 << BITS) - 1) / xp.maximum((X.max(axis=0) - X.min(axis=0)).max(), 1e-300)


@dataclass(frozen=True, repr=False)
class BoxCost:
    """The cost of boxes on the grid.

    middle   : (d,) twice the means of the columns
    constant : (d,) sensitivities that are the same everywhere
    forms    : those that are linear forms of twice the distance from the means
    least    : smallest sensitivity
    """

    middle: tuple[float, ...]
    constant: tuple[float, ...]
    forms: tuple[Form, ...]
    least: float = 1.0

    @classmethod
    def of(cls, X: Array, gradient: Gradient, k: int) -> BoxCost:
        """For the rows of `X` (n, d); no sensitivity is below `FLOOR` times the mean of all."""
        low, high = (to_host(ends).astype(np.float64) for ends in (X.min(axis=0), X.max(axis=0)))
        far = np.maximum(np.abs(low - gradient.mean), np.abs(high - gradient.mean))
        most = np.array(gradient.constant)
        for form in gradient.forms:
            reach = 2 * sum(abs(factor) * far[j] for j, factor in form.factors)  # widths are at most twice `far`
            for i, weight in form.weights:
                most[i] += weight * reach
        bits = min(20, max(4, int(52 - BITS - np.log2(2 * FEW * k) - np.log2(X.shape[1]))))
        scale = ((1 << bits) - 1) / max(float(most.max()), 1e-300)
        steps = float(_steps(X))
        mean = float(gradient.sensitivities(X).mean())
        return cls(
            tuple(np.rint(2 * (gradient.mean - low) * steps).tolist()),
            tuple(np.rint(scale * np.array(gradient.constant)).tolist()),
            tuple(form.times(0.5 * scale / steps) for form in gradient.forms),
            max(1.0, float(np.rint(FLOOR * scale * mean))),
        )

    def sensitivities(self, low: Array, high: Array) -> list[Array]:
        """d arrays of whole float64: those of boxes with the ends low, high (d, …)."""
        xp = namespace(low)
        width = high - low
        twice = [low[j] + high[j] - middle for j, middle in enumerate(self.middle)]
        found = [xp.full(low.shape[1:], constant) for constant in self.constant]
        for form in self.forms:
            size = form.least(xp, twice, width)
            for i, weight in form.weights:
                found[i] += weight * size
        return [xp.maximum(xp.floor(a), self.least) for a in found]

    def per_record(self, low: Array, high: Array) -> Array:
        """(…) whole float64: cost of boxes with the ends low, high (d, …), for each record in them."""
        total = namespace(low).zeros(low.shape[1:])
        for j, a in enumerate(self.sensitivities(low, high)):
            a *= high[j] - low[j]
            total += a
        return total

    def dearest(self, low: Array, high: Array, f: int) -> Array:
        """(f, …) columns that cost boxes with the ends low, high (d, …) most, in their order; ties: the first."""
        xp = namespace(low)
        if f == len(low):
            return xp.broadcast_to(xp.arange(f).reshape(-1, *[1] * (low.ndim - 1)), low.shape)
        costs = xp.stack([a * (high[j] - low[j]) for j, a in enumerate(self.sensitivities(low, high))])
        return xp.sort(xp.argsort(-costs, axis=0, kind="stable")[:f], axis=0)

    def of_groups(self, x: Array, groups: Partition) -> Array:
        """(g,) whole float64 cost of each group's tight box."""
        low, high = (segment(x, groups).T.astype(np.float64) for segment in (segment_minima, segment_maxima))
        return self.per_record(low, high) * groups.sizes


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
