"""Blocks on a GPU: every level of the median cuts is one sort and a stable partition of all rows.

The twin of `blocks`.  How many rows go to which side depends on the sizes of the parts alone, so nothing is copied to
the host but counts.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, ranks_within
from gpuanon.groups.lockstep import padded_length, widest
from gpuanon.numerics.distance import Metric


def blocks_cuda(X: Array, within: Partition, size: int, metric: Metric, multiple: int, sample: int) -> Partition:
    """Cut the parts of `within` into blocks of at most `size` rows; see `gpuanon.groups.blocks`.

    sample : rows of a part that choose its axis, at most
    """
    xp = namespace(X)
    level = within
    units = -(-within.sizes // multiple)
    leaves = -(-units // (size // multiple))
    most = int(leaves.max()) if within.parts else 0
    while most > 1:
        left_leaves = leaves // 2
        left_units = units * left_leaves // leaves
        cuts = left_units * multiple  # 0 for a part that is not cut
        order = _cut(X, level, cuts, metric, sample)
        both = xp.stack([level.starts[:-1], level.starts[:-1] + cuts], axis=1)
        split = xp.stack([cuts > 0, xp.ones(level.parts, dtype=bool)], axis=1)
        starts = xp.concatenate([both[split], level.starts[-1:]])
        units = xp.stack([left_units, units - left_units], axis=1)[split]
        leaves = xp.stack([left_leaves, leaves - left_leaves], axis=1)[split]
        level = Partition(order, starts)
        most = -(-most // 2)
    return Partition(level.order.copy(), level.starts) if level is within else level


def _cut(X: Array, level: Partition, cuts: Array, metric: Metric, sample: int) -> Array:
    """The new order: of each part p its ``cuts[p]`` lowest rows come first, and either side keeps its order."""
    xp = namespace(X)
    part = level.part_of_sorted()
    place = xp.arange(level.n, dtype=np.int64)
    start, cut = level.starts[part], cuts[part]
    values = X[level.order, _widest(X, level, metric, sample)[part]]
    lower = ranks_within(values, Partition(place, level.starts)) < cut
    before = xp.cumsum(lower) - lower  # rows of the lower side before each place, in all parts
    before -= before[start]
    order = xp.empty_like(level.order)
    order[start + xp.where(lower, before, cut + (place - start) - before)] = level.order
    return order


def _widest(X: Array, level: Partition, metric: Metric, sample: int) -> Array:
    """(parts,) the column of largest variance in each part, judged by rows spread evenly over it."""
    xp, sizes = namespace(X), level.sizes
    counts = xp.minimum(sample, padded_length(sizes))[:, None]
    offsets = xp.arange(int(counts.max()), dtype=np.int64)[None, :]
    used = offsets < counts
    rows = level.order[level.starts[:-1, None] + xp.where(used, offsets, 0) * sizes[:, None] // counts]
    variance = xp.full((level.parts, X.shape[1]), -1.0)
    for j in range(X.shape[1]):
        if metric.categorical is not None and metric.categorical[j]:
            continue
        values = X[rows, j].astype(np.float64, copy=False)
        mean = xp.where(used, values, 0).sum(axis=1, keepdims=True) / counts
        variance[:, j] = (xp.where(used, values - mean, 0) ** 2).sum(axis=1) / counts[:, 0]
        if metric.kind == "euclidean" and metric.weights is not None:
            variance[:, j] *= metric.weights[j]
    return widest(variance)
