"""`blocks` and the median cuts on a GPU: every level of cuts is a sort and a stable partition of all rows.

Only counts, and whether a part remains to be cut, are copied to the host.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.batches import padded_length
from gpuanon.arrays.partition import Partition, ranks_within, segment_maxima, segment_minima, sort_within
from gpuanon.numerics.equal_rows import equal_rows, packed
from gpuanon.numerics.metric import Metric


def blocks_cuda(X: Array, within: Partition, size: int, metric: Metric, multiple: int, sample: int) -> Partition:
    """Cut the parts of `within` into blocks of at most `size` rows; see `gpuanon.numerics.cuts.median_blocks`.

    sample : most rows of a part by which its widest column is estimated
    """
    xp = namespace(X)
    level = within
    units = -(-within.sizes // multiple)
    leaves = -(-units // (size // multiple))
    most = int(leaves.max()) if within.parts else 0
    while most > 1:
        left_leaves = leaves // 2
        left_units = units * left_leaves // leaves
        cuts = left_units * multiple  # 0: the part is not cut
        halves, split = _cut(X, level, cuts, _widest(X, level, metric, sample))
        units = xp.stack([left_units, units - left_units], axis=1)[split]
        leaves = xp.stack([left_leaves, leaves - left_leaves], axis=1)[split]
        level = halves
        most = -(-most // 2)
    return Partition(level.order.copy(), level.starts) if level is within else level


def widest_cuts_cuda(X: Array, within: Partition, k: int) -> Partition:
    """Cut parts of more than 2k rows in two along their widest column; see `gpuanon.masking.groups.median_cuts`."""
    xp = namespace(X)
    level = within
    still_open = level.sizes > 2 * k
    while bool(still_open.any()):
        ranges = segment_maxima(X, level) - segment_minima(X, level)
        cuts = xp.where(still_open & (ranges.max(axis=1) > 0), level.sizes // 2, 0)
        halves, split = _cut(X, level, cuts, ranges.argmax(axis=1))
        still_open = xp.stack([cuts > 0, cuts > 0], axis=1)[split] & (halves.sizes > 2 * k)
        level = halves
    return level


def all_cuts_cuda(X: Array, within: Partition, k: int) -> Partition:
    """Cut parts of more than 2k rows along every column at once; see `gpuanon.masking.groups.median_cuts`."""
    xp = namespace(X)
    level = within
    still_open = level.sizes > 2 * k
    while bool(still_open.any()):
        labels, above = level.labels(), xp.empty(X.shape, dtype=bool)
        lower, upper = level.starts[:-1] + (level.sizes - 1) // 2, level.starts[:-1] + level.sizes // 2
        for j in range(X.shape[1]):
            ordered = X[sort_within(X[:, j], level), j]
            medians = 0.5 * (ordered[lower] + ordered[upper])
            above[:, j] = (X[:, j] > medians[labels]) & still_open[labels]
        finer = Partition.from_labels(equal_rows(packed(above), labels))
        # A part with one pattern cannot be cut further; its size is unchanged.
        parents = labels[finer.order[finer.starts[:-1]]]
        still_open = (finer.sizes > 2 * k) & (finer.sizes < level.sizes[parents])
        level = finer
    return level


def _cut(X: Array, level: Partition, cuts: Array, columns: Array) -> tuple[Partition, Array]:
    """Separate the ``cuts[p]`` lowest rows of each part p by column ``columns[p]``; both sides keep their order.

    Returns
    -------
    The new parts (a part with cut 0 stays whole), and (parts, 2) whether a part has a lower and an upper side
    """
    xp = namespace(X)
    part = level.part_of_sorted()
    place = xp.arange(level.n, dtype=np.int64)
    start, cut = level.starts[part], cuts[part]
    lower = ranks_within(X[level.order, columns[part]], Partition(place, level.starts)) < cut
    before = xp.cumsum(lower) - lower  # rows of lower sides before each place, over all parts
    before -= before[start]
    order = xp.empty_like(level.order)
    order[start + xp.where(lower, before, cut + (place - start) - before)] = level.order
    split = xp.stack([cuts > 0, xp.ones(level.parts, dtype=bool)], axis=1)
    both = xp.stack([level.starts[:-1], level.starts[:-1] + cuts], axis=1)
    return Partition(order, xp.concatenate([both[split], level.starts[-1:]])), split


def _widest(X: Array, level: Partition, metric: Metric, sample: int) -> Array:
    """(parts,) the column of largest variance in each part, estimated from evenly spaced rows."""
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


def widest(variance: Array) -> Array:
    """(b,) the column of largest `variance` (b, d); the first of those that differ by rounding only."""
    return (variance >= (1 - 1e-9) * variance.max(axis=1, keepdims=True)).argmax(axis=1)
