"""k-member groups: greedy clusters of k rows under Euclidean or Gower distortion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Array, Host, on_device
from gpuanon.arrays.compiled import use_compiled
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.groups.batched import BATCH_ELEMENTS, group_batches, group_compiled, require_k_rows, warm_groups
from gpuanon.masking.groups.greedy.greedy_device import kmember_cuda
from gpuanon.masking.groups.greedy.spaces import free_rows, gower
from gpuanon.masking.groups.in_blocks import RefinedInBlocks
from gpuanon.masking.groups.whole_numbers import grid_of
from gpuanon.numerics.metric import EUCLIDEAN, Metric


class EuclideanRaises:
    """Adding x to a cluster C raises its sum of squares by ``|C| / (|C| + 1) · |x − mean(C)|²``.

    Z : (b, length, d) rows of the padded parts;  labels : (b, length) their clusters, −1 for none
    """

    def __init__(self, Z: Host, labels: Host) -> None:
        self.Z = Z.astype(np.int64)
        clusters = int(labels.max()) + 1
        part, row = np.nonzero(labels >= 0)
        flat = part * clusters + labels[part, row]
        shape = (len(Z), clusters)
        self.counts = np.bincount(flat, minlength=len(Z) * clusters).reshape(shape)
        sums = [np.bincount(flat, column, len(Z) * clusters) for column in self.Z[part, row].T]
        self.totals = np.stack(sums, axis=1).reshape(*shape, Z.shape[2]).astype(np.int64)

    def of(self, chosen: Host) -> Host:
        """(b, clusters) increase by the row `chosen` (b,) of each part; a huge one where there is no cluster."""
        x = self.Z[np.arange(len(self.Z)), chosen]
        apart = self.counts[:, :, None] * x[:, None, :] - self.totals
        return _quotient(np.einsum("bcd,bcd->bc", apart, apart), self.counts)

    def add(self, part: Host, row: Host, cluster: Host) -> None:
        """Add the row to the cluster, in each of these parts."""
        self.counts[part, cluster] += 1
        self.totals[part, cluster] += self.Z[part, row]


class PairwiseRaises:
    """The same for any distance D: ``(|C| Σ_i D(x, i) − Σ_{i<j} D(i, j)) / (|C| (|C| + 1))``."""

    def __init__(self, Z: Host, labels: Host, k: int, mismatch: Host) -> None:
        self.Z = np.ascontiguousarray(Z.transpose(2, 0, 1), dtype=np.float64)
        self.mismatch = mismatch
        self.labels = labels.copy()
        self.clusters = int(labels.max()) + 1
        part, row = np.nonzero(labels >= 0)
        flat = part * self.clusters + labels[part, row]
        shape = (len(Z), self.clusters)
        self.counts = np.bincount(flat, minlength=len(Z) * self.clusters).reshape(shape)
        # Every cluster has k members so far: rows sorted by cluster form lines of k.
        by_cluster = np.argsort(flat, kind="stable").reshape(-1, k)
        members = self.Z[:, part[by_cluster], row[by_cluster]]
        pairs = np.zeros(len(by_cluster), dtype=np.int64)
        for first in range(k - 1):
            distance = gower(members[:, :, first + 1 :], members[:, :, first, None], mismatch)
            pairs += distance.sum(axis=1).astype(np.int64)
        self.pairs = np.zeros(len(Z) * self.clusters, dtype=np.int64)
        self.pairs[flat[by_cluster[:, 0]]] = pairs
        self.pairs = self.pairs.reshape(shape)

    def of(self, chosen: Host) -> Host:
        """(b, clusters) increase by the row `chosen` (b,) of each part; a huge one where there is no cluster."""
        x = self.Z[:, np.arange(self.Z.shape[1]), chosen]
        distance = gower(self.Z, x[:, :, None], self.mismatch)
        part, row = np.nonzero(self.labels >= 0)
        flat = part * self.clusters + self.labels[part, row]
        reach = np.bincount(flat, distance[part, row], self.counts.size).reshape(self.counts.shape)
        self.reach = reach.astype(np.int64)
        return _quotient(self.counts * self.reach - self.pairs, self.counts)

    def add(self, part: Host, row: Host, cluster: Host) -> None:
        """Add the row to the cluster, in each of these parts."""
        self.pairs[part, cluster] += self.reach[part, cluster]
        self.counts[part, cluster] += 1
        self.labels[part, row] = cluster


def _quotient(numerator: Host, counts: Host) -> Host:
    """``numerator / (counts (counts + 1))`` rounded down, as in the kernel; the largest integer where `counts` is 0."""
    quotient = np.full(counts.shape, np.iinfo(np.int64).max)
    np.floor_divide(numerator, counts * (counts + 1), out=quotient, where=counts > 0)
    return quotient


def kmember(
    X: Array, within: Partition, k: int, metric: Metric = EUCLIDEAN, *, batch_elements: int = BATCH_ELEMENTS
) -> Partition:
    """Refine `within` by greedy k-member clustering [1]_, each part by itself.

    A part of n rows gets ``n // k`` clusters.  The free row furthest from the previous seed is the seed of the next
    cluster; for the first cluster the distance is measured from the part's lowest row.  Then k − 1 times the free row
    that raises the cluster's distortion least joins it.  The fewer than k rows that remain join, in ascending order,
    the cluster whose distortion they raise least.  The distortion of a cluster C is ``Σ_{i<j} D(i, j) / |C|``, which
    is its sum of squared errors when D is the squared Euclidean distance.  Ties go to the lowest row, then to the
    oldest cluster.

    Rows are rounded to whole numbers first, 2^23 of them along the widest column for 10 columns and k = 5.  Sums of
    distances are compared without further rounding, on the host and on a device; the increase of a distortion by a
    leftover row is rounded down to a whole number.

    Parameters
    ----------
    X : (n, d) array
    within : the parts to refine
    k : rows in a cluster; the leftover rows of a part make some of its clusters larger
    metric : distance between rows
    batch_elements : padded elements (parts × length) of a batch; changes the speed, not the result

    Notes
    -----
    Guarantee : no group smaller than k (a part with fewer than k rows is an error).
    Cost      : O(n · S · d) for parts of S rows; memory O(n + batch_elements · d), never S × S.

    References
    ----------
    .. [1] J.-W. Byun, A. Kamra, E. Bertino, N. Li (2007), Efficient k-anonymization using clustering techniques,
       DASFAA.
    """
    require_k_rows(within, k)
    grid = grid_of(X, metric, _room(metric, k))
    if on_device(X):
        return kmember_cuda(X, within, k, grid)
    rows, mismatch = grid.rows(X), grid.mismatch()
    if use_compiled(len(X) * int(within.sizes.max())):
        return group_compiled(rows, within, k, _compiled_parts(mismatch))

    def group(batch: Batch) -> Host:
        Z = rows[batch.rows]
        labels = _clusters(Z, batch.valid, k, mismatch)
        _place_leftovers(Z, batch.valid, labels, k, mismatch)
        return labels

    return group_batches(within, group, within.sizes // k, batch_elements)


def _compiled_parts(mismatch: Host | None) -> Callable[..., None]:
    """The compiled function for this metric."""
    if mismatch is None:
        from gpuanon.masking.groups.kmember.compiled_kmember import kmember_parts

        return kmember_parts
    from gpuanon.masking.groups.greedy.compiled_gower import kmember_gower_parts

    return partial(kmember_gower_parts, mismatch)


def warm_compiled() -> None:
    """Compile the functions for both metrics, or load their machine code; to be called where numba is installed."""
    warm_groups(_compiled_parts)


def _room(metric: Metric, k: int) -> float:
    """Bits that a distance may have.

    On the host the sum of k distances is below 2^53.  For leftovers, which join clusters of at most 2k − 1 rows, 4k²
    times a distance is below 2^63, and Gower's below 2^53.
    """
    log_k = float(np.log2(k))
    return min(53 - log_k, (61 if metric.kind == "euclidean" else 51) - 2 * log_k)


def _clusters(Z: Host, valid: Host, k: int, mismatch: Host | None) -> Host:
    """(b, length) cluster of each row of the padded parts `Z`, whole numbers; −1 for the leftovers."""
    free = free_rows(Z, valid, mismatch)
    clusters = valid.sum(axis=1) // k
    labels = np.full(valid.shape, -1, dtype=np.int64)
    seed = free.at(np.zeros(len(Z), dtype=np.int64))
    for number in range(int(clusters.max())):
        new = free.furthest_from_seed(seed) if number else free.furthest(seed)
        seed = free.at(new)
        members = [free.begin(new)]
        for _ in range(k - 1):
            members.append(free.join(free.cheapest()))
        going = np.flatnonzero(number < clusters)  # parts that have all their clusters are ignored
        labels[going[:, None], np.stack(members, axis=1)[going]] = number
        free.shrink(k)
    return labels


def _place_leftovers(Z: Host, valid: Host, labels: Host, k: int, mismatch: Host | None) -> None:
    """Add every row without a cluster, in ascending order, to the cluster whose distortion it raises least."""
    waiting = (labels < 0) & valid
    late = np.flatnonzero(waiting.any(axis=1))
    if not len(late):
        return
    Z, waiting, mine = Z[late], waiting[late], labels[late]
    batch = np.arange(len(late))
    raises = EuclideanRaises(Z, mine) if mismatch is None else PairwiseRaises(Z, mine, k, mismatch)
    for _ in range(int(waiting.sum(axis=1).max())):
        chosen = waiting.argmax(axis=1)
        here = np.flatnonzero(waiting[batch, chosen])
        cluster = raises.of(chosen).argmin(axis=1)[here]
        mine[here, chosen[here]] = cluster
        raises.add(here, chosen[here], cluster)
        waiting[here, chosen[here]] = False
    labels[late] = mine


class KMember(RefinedInBlocks):
    """Greedy k-member clustering under Euclidean or Gower distortion (Byun et al. 2007)."""

    use: Literal["k-member"] = "k-member"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, kmember))
