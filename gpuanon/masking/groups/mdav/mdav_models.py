"""The models of MDAV, and of V-MDAV, which forms groups of variable size."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.groups.batched import group_batches, require_k_rows
from gpuanon.masking.groups.in_blocks import InBlocks, Refined, RefinedInBlocks
from gpuanon.masking.groups.mdav import mdav
from gpuanon.numerics.metric import EUCLIDEAN, Metric


class Mdav(RefinedInBlocks):
    """Maximum Distance to Average Vector, the standard microaggregation heuristic (Domingo-Ferrer, Torra 2005)."""

    use: Literal["mdav"] = "mdav"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, mdav))


_BATCH_ELEMENTS = 1 << 12


def v_mdav(
    X: Host,
    within: Partition,
    k: int,
    metric: Metric = EUCLIDEAN,
    *,
    gamma: float = 0.2,
    batch_elements: int = _BATCH_ELEMENTS,
) -> Partition:
    """Refine `within` by V-MDAV [1]_, each part by itself.

    While at least k rows of a part are free: the free row furthest from the part's mean and its k − 1 nearest free rows
    form a group.  The free row nearest to a member joins while its distance to that member is below `gamma` times its
    distance to the nearest other free row, up to 2k − 1 rows.  Rows that remain join the group whose mean is nearest.
    Ties go to the lowest row.

    Guarantee : every group holds at least k rows (a part with fewer is an error).
    Cost      : O(n · S) steps for parts of S rows; memory O(batch_elements · S).

    References
    ----------
    .. [1] A. Solanas, A. Martínez-Ballesté (2006), V-MDAV: a multivariate microaggregation with variable group size,
       COMPSTAT.
    """
    require_k_rows(within, k)

    def group(batch: Batch) -> Host:
        return _groups(X[batch.rows].astype(np.float64), batch.valid, k, gamma)

    return group_batches(within, group, within.sizes // k, batch_elements)


def _groups(Z: Host, valid: Host, k: int, gamma: float) -> Host:
    """(b, length) group of each row of the padded parts `Z`."""
    b, length = valid.shape
    counts = valid.sum(axis=1)
    here = np.arange(b)
    mean = (Z * valid[:, :, None]).sum(axis=1) / counts[:, None]
    Z = Z - mean[:, None]
    far = (Z * Z).sum(axis=2)
    D = np.maximum(far[:, :, None] + far[:, None, :] - 2 * Z @ Z.transpose(0, 2, 1), 0.0)
    D[:, np.arange(length), np.arange(length)] = 0.0
    free, labels = valid.copy(), np.full(valid.shape, -1)
    number = 0
    while (active := free.sum(axis=1) >= k).any():
        seed = np.where(free, far, -np.inf).argmax(axis=1)
        order = np.argsort(np.where(free, D[here, seed], np.inf), axis=1, kind="stable")[:, :k]
        taken = np.zeros_like(free)
        taken[here[:, None], order] = True
        taken &= active[:, None]
        near = D[here[:, None], order].min(axis=1)
        labels[taken] = number
        free &= ~taken
        growing = active & free.any(axis=1)
        for _ in range(k - 1):
            if not growing.any():
                break
            candidate = np.where(free, near, np.inf).argmin(axis=1)
            others = np.where(free, D[here, candidate], np.inf)
            others[here, candidate] = np.inf
            growing &= free.any(axis=1) & (near[here, candidate] < gamma**2 * others.min(axis=1))
            rows = candidate[growing]
            labels[growing, rows] = number
            free[growing, rows] = False
            near[growing] = np.minimum(near[growing], D[growing, rows])
        number += 1
    return _joined(Z, valid, labels)


def _joined(Z: Host, valid: Host, labels: Host) -> Host:
    """The labels, with rows that have none in the group of the nearest mean."""
    part, row = np.nonzero(valid & (labels >= 0))
    groups = int(labels.max()) + 1
    flat = part * groups + labels[part, row]
    sizes = np.bincount(flat, minlength=len(Z) * groups).reshape(len(Z), groups)
    sums = [np.bincount(flat, column, len(Z) * groups) for column in Z[part, row].T]
    means = np.stack(sums, axis=1).reshape(len(Z), groups, -1) / np.maximum(sizes, 1)[:, :, None]
    part, row = np.nonzero(valid & (labels < 0))
    apart = ((Z[part, row][:, None] - means[part]) ** 2).sum(axis=2)
    labels[part, row] = np.where(sizes[part] > 0, apart, np.inf).argmin(axis=1)
    return labels


class VMdav(InBlocks, Refined):
    """MDAV with groups of k to 2k − 1 rows where rows lie in clumps (Solanas, Martínez-Ballesté 2006)."""

    host_only: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["v-mdav"] = "v-mdav"
    gamma: float = Field(default=0.2, gt=0, description="how much nearer to the group than to others a row must lie")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        def group(X: Array, within: Partition, k: int, metric: Metric) -> Partition:
            return v_mdav(X, within, k, metric, gamma=self.gamma)

        return self._refined(X, metric, self._form(X, metric, group))
