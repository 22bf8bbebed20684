"""MDAV groups: Maximum Distance to Average Vector, the field's standard microaggregation heuristic."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.compiled import use_compiled
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.masking.groups.batched import BATCH_ELEMENTS, group_batches, group_compiled, require_k_rows, warm_groups
from gpuanon.masking.groups.greedy.greedy_device import mdav_cuda
from gpuanon.masking.groups.greedy.spaces import free_rows
from gpuanon.masking.groups.whole_numbers import grid_of
from gpuanon.numerics.metric import EUCLIDEAN, Metric


def mdav(
    X: Array, within: Partition, k: int, metric: Metric = EUCLIDEAN, *, batch_elements: int = BATCH_ELEMENTS
) -> Partition:
    """Refine `within` by Maximum Distance to Average Vector [1]_, each part by itself.

    While at least 3k rows of a part are free: r is the free row furthest from their mean, s the one furthest from r;
    r and its k − 1 nearest rows form a group, then s and its k − 1 nearest free rows.  When 2k to 3k − 1 rows are
    free, the one furthest from their mean and its k − 1 nearest form a group.  The remaining rows are the last group.
    Ties go to the lowest row.  Under Gower's metric the mean of a categorical column is its mode.

    Rows are rounded to whole numbers first, 2^24 of them along the widest column for 10 columns and parts of 1024 rows.
    Distances, also those from a mean, are compared without further rounding, on the host and on a device.

    Parameters
    ----------
    X : (n, d) array
    within : the parts to refine
    k : least rows in a group
    metric : distance between rows
    batch_elements : padded elements (parts × length) of a batch; changes the speed, not the result

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows (a part with fewer than k rows is an error).
    Cost      : O(n · S · (d / k + 1)) for parts of S rows; memory O(n + batch_elements · d).

    References
    ----------
    .. [1] J. Domingo-Ferrer, V. Torra (2005), Ordinal, continuous and heterogeneous k-anonymity through
       microaggregation, Data Min. Knowl. Disc. 11(2), MDAV-generic.
    """
    require_k_rows(within, k)
    grid = grid_of(X, metric, _room(metric, int(within.sizes.max())))
    if on_device(X):
        return mdav_cuda(X, within, k, grid)
    rows, mismatch = grid.rows(X), grid.mismatch()
    if use_compiled(len(X) * int(within.sizes.max())):
        return group_compiled(rows, within, k, _compiled_parts(mismatch))

    def group(batch: Batch) -> Host:
        return _groups(rows[batch.rows], batch.valid, k, mismatch)

    return group_batches(within, group, within.sizes // k, batch_elements)


def _compiled_parts(mismatch: Host | None) -> Callable[..., None]:
    """The compiled function for this metric."""
    if mismatch is None:
        from gpuanon.masking.groups.greedy.compiled_greedy import mdav_parts

        return mdav_parts
    from gpuanon.masking.groups.greedy.compiled_gower import mdav_gower_parts

    return partial(mdav_gower_parts, mismatch)


def warm_compiled() -> None:
    """Compile the functions for both metrics, or load their machine code; to be called where numba is installed."""
    warm_groups(_compiled_parts)


def _room(metric: Metric, largest: int) -> float:
    """Bits that a distance may have, in parts of at most `largest` rows.

    On the host distances are below 2^53; `largest` times a distance is below 2^62, and Gower's below 2^53.
    """
    return min(53.0, 62 - np.log2(largest)) if metric.kind == "euclidean" else 53 - float(np.log2(largest))


def _groups(Z: Host, valid: Host, k: int, mismatch: Host | None) -> Host:
    """(b, length) group of each row of the padded parts `Z`, whole numbers."""
    free = free_rows(Z, valid, mismatch)
    left = valid.sum(axis=1)
    # Rows that are never taken form the last group of their part; a part of n rows has n // k groups.
    labels = np.repeat(left[:, None] // k - 1, valid.shape[1], axis=1)
    number = 0
    while (left >= 2 * k).any():
        r = free.furthest_from_mean()
        at_r = free.at(r)
        _mark(labels, free.take_nearest(r, k), number, left >= 2 * k)
        s = free.furthest(at_r)
        _mark(labels, free.take_nearest(s, k), number + 1, left >= 3 * k)
        left = left - k * (1 + (left >= 3 * k))
        number += 2
        free.shrink(2 * k)
    return labels


def _mark(labels: Host, members: Host, number: int, active: Host) -> None:
    """Write the group's number at its `members` (b, k), in the parts that are not yet complete."""
    here = np.flatnonzero(active)
    labels[here[:, None], members[here]] = number


def split_large(X: Array, groups: Partition, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Split every group of 2k rows or more into groups of k to 2k − 1 by MDAV; that never raises the distortion."""
    xp = namespace(X)
    large = groups.sizes >= 2 * k
    if not bool(large.any()):
        return groups
    rows = groups.order[large[groups.part_of_sorted()]]
    ends = xp.cumsum(groups.sizes[large])
    parts = Partition(xp.arange(len(rows), dtype=np.int64), xp.concatenate([xp.zeros(1, dtype=np.int64), ends]))
    labels = groups.labels()
    labels[rows] = groups.parts + mdav(X[rows], parts, k, metric).labels()
    return Partition.from_labels(labels)
