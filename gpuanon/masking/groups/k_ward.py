"""k-Ward groups: Ward's hierarchical clustering until every group has k rows."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.groups.batched import group_batches, require_k_rows
from gpuanon.masking.groups.in_blocks import InBlocks, Refined
from gpuanon.numerics.metric import EUCLIDEAN, Metric

_BATCH_ELEMENTS = 1 << 11


def k_ward(
    X: Host, within: Partition, k: int, metric: Metric = EUCLIDEAN, *, batch_elements: int = _BATCH_ELEMENTS
) -> Partition:
    """Refine `within` by k-Ward [1]_, each part by itself.

    In a part of 2k rows or more: the row furthest from the mean and its k − 1 nearest form a group, then the free row
    furthest from it and its k − 1 nearest free rows.  The other rows are groups of one.  The two groups whose union
    raises the sum of squared errors least are united, never two of k rows or more, until all have k.  Groups of 2k rows
    or more are divided again in the same way.  Ties go to the lower rows.

    Guarantee : every group holds k to 2k − 1 rows (a part with fewer than k rows is an error).
    Cost      : O(n · S²) for parts of S rows, and less for the parts that are divided again: for small blocks.

    References
    ----------
    .. [1] J. Domingo-Ferrer, J. M. Mateo-Sanz (2002), Practical data-oriented microaggregation for statistical
       disclosure control, IEEE Trans. Knowl. Data Eng. 14(1).
    """
    require_k_rows(within, k)
    groups = within
    while groups.parts and int(groups.sizes.max()) >= 2 * k:

        def group(batch: Batch) -> Host:
            return _groups(X[batch.rows].astype(np.float64), batch.valid, k)

        groups = group_batches(groups, group, groups.sizes, batch_elements)
    return groups


def _groups(Z: Host, valid: Host, k: int) -> Host:
    """(b, length) group of each row of the padded parts `Z`: the lowest row of its group; parts below 2k stay whole."""
    b, length = valid.shape
    here, place = np.arange(b), np.arange(length)
    large = valid.sum(axis=1) >= 2 * k
    labels = np.where(large[:, None], place, 0)
    Z = Z - (Z * valid[:, :, None]).sum(axis=1, keepdims=True) / valid.sum(axis=1)[:, None, None]
    labels = _two_extreme_groups(Z, valid, labels, k, large)
    flat = (here[:, None] * length + labels)[valid]
    counts = np.bincount(flat, minlength=b * length).reshape(b, length).astype(np.float64)
    sums = np.stack([np.bincount(flat, column, b * length) for column in Z[valid].T], axis=1).reshape(b, length, -1)
    cost = np.stack([_raises(sums, counts, at, k) for at in np.tile(place[:, None], (1, b))], axis=1)
    while True:
        small = (counts > 0) & (counts < k)
        active = np.flatnonzero(large & small.any(axis=1))
        if not len(active):
            return labels
        first, second = np.divmod(cost[active].reshape(len(active), -1).argmin(axis=1), length)
        low, high = np.minimum(first, second), np.maximum(first, second)
        labels[active] = np.where(labels[active] == high[:, None], low[:, None], labels[active])
        for total in (counts, sums):
            total[active, low] += total[active, high]
            total[active, high] = 0
        cost[active, high] = np.inf
        cost[active[:, None], place, high[:, None]] = np.inf
        united = np.zeros(b, dtype=np.int64)
        united[active] = low
        new = _raises(sums, counts, united, k)[active]
        cost[active, low] = new
        cost[active[:, None], place, low[:, None]] = new


def _raises(sums: Host, counts: Host, at: Host, k: int) -> Host:
    """(b, length) how much the union of group `at` (b,) with each raises the error; infinite where not allowed."""
    here = np.arange(len(sums))
    size = counts[here, at][:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        apart = sums / counts[:, :, None] - (sums[here, at] / size)[:, None]
        raised = counts * size / (counts + size) * (apart * apart).sum(axis=2)
    barred = (counts == 0) | (size == 0) | ((counts >= k) & (size >= k))
    barred[here, at] = True
    return np.where(barred, np.inf, raised)


def _two_extreme_groups(Z: Host, valid: Host, labels: Host, k: int, large: Host) -> Host:
    """The labels, in the parts that are `large` with two groups of k rows at the ends."""
    here = np.arange(len(Z))
    free, labels = valid.copy(), labels.copy()
    seed = np.where(free, (Z * Z).sum(axis=2), -np.inf).argmax(axis=1)
    for _ in range(2):
        apart = ((Z - Z[here, seed][:, None]) ** 2).sum(axis=2)
        members = np.argsort(np.where(free, apart, np.inf), axis=1, kind="stable")[:, :k]
        rows = here[large]
        labels[rows[:, None], members[large]] = members[large].min(axis=1)[:, None]
        free[rows[:, None], members[large]] = False
        seed = np.where(free, apart, -np.inf).argmax(axis=1)
    return labels


class KWard(InBlocks, Refined):
    """Ward's clustering until every group has k rows (Domingo-Ferrer, Mateo-Sanz 2002); in small blocks."""

    host_only: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["k-ward"] = "k-ward"
    block: int = Field(default=128, ge=0, description="most rows in a block; 0: the whole table at once")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, k_ward))
