"""Increase of the distortion of each cluster when a leftover row joins it, for all parts of a batch.

Rows are whole numbers, and so are the numerators below, in 64-bit integers.  The increase is the quotient rounded
down, the same on the host and in the kernel (``kernels/kmember.cu``).
"""

from __future__ import annotations

import numpy as np

from gpuanon.masking.groups.batched import Host
from gpuanon.masking.groups.greedy.spaces import gower


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
    """``numerator / (counts (counts + 1))`` rounded down, the largest integer where `counts` is 0."""
    quotient = np.full(counts.shape, np.iinfo(np.int64).max)
    np.floor_divide(numerator, counts * (counts + 1), out=quotient, where=counts > 0)
    return quotient
