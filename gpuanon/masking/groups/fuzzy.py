"""Fuzzy microaggregation: rows have memberships in several clusters and draw the one that they join."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.groups.batched import group_batches, require_k_rows
from gpuanon.masking.groups.in_blocks import InBlocks
from gpuanon.masking.groups.mdav import split_large
from gpuanon.numerics.metric import EUCLIDEAN, Metric, weighted

_BATCH_ELEMENTS = 1 << 12
_ROUNDS = 10
_MOST_MEMBERSHIPS = 1 << 26
"""Most memberships (rows × clusters) of one part: half a gigabyte, and a few such arrays are needed."""


def fuzzy(
    X: Array,
    within: Partition,
    k: int,
    draws: Draws,
    metric: Metric = EUCLIDEAN,
    *,
    fuzziness: float = 1.2,
    batch_elements: int = _BATCH_ELEMENTS,
) -> Partition:
    """Refine `within` by fuzzy c-means [1]_; every row joins a cluster with the probability of its membership [2]_.

    A part of n rows has ``n // k`` clusters.  The membership of a row at distance d_j from the centre of cluster j is
    proportional to ``d_j ** (-2 / (fuzziness - 1))``.  A cluster drawn by fewer than k rows is dissolved, the smallest
    first (of equal ones the last), and its rows join the remaining cluster of their largest membership.  Groups of 2k
    rows or more are split by MDAV.

    Parameters
    ----------
    X : (n, d) array
    within : the parts to refine
    k : least rows in a group
    draws : random numbers of the rows
    metric : Euclidean; its weights scale the columns
    fuzziness : above 1; the nearer to 1, the crisper.  (With the usual value of 2 and hundreds of clusters all centres
        coincide.)
    batch_elements : padded elements (parts × length) of a batch; changes the speed, not the result

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows (a part with fewer than k rows is an error).
    Cost      : O(n · S / k · d) for parts of S rows; memory O(n + max(batch_elements, S) · S / k): parts whose
    memberships would not fit are refused.

    References
    ----------
    .. [1] J. C. Bezdek (1981), Pattern recognition with fuzzy objective function algorithms, Plenum.
    .. [2] V. Torra, S. Miyamoto (2004), Evaluating fuzzy clustering algorithms for microdata protection, PSD 2004,
       LNCS 3050.
    """
    require_k_rows(within, k)
    largest = int(within.sizes.max())
    if largest * (largest // k) > _MOST_MEMBERSHIPS:
        raise ParameterError(
            f"block: fuzzy groups of {largest} rows at once need {largest * (largest // k)} memberships, at most"
            f" {_MOST_MEMBERSHIPS} are allowed",
            hint="block = 1024",
        )
    X = weighted(X, metric)
    uniform = draws.uniform(1)[:, 0]

    def group(batch: Batch) -> Host:
        membership = _memberships(X[batch.rows], batch.valid, k, fuzziness)
        drawn = (np.cumsum(membership, axis=2) < uniform[batch.rows][:, :, None]).sum(axis=2)
        return _dissolve_small(np.minimum(drawn, membership.shape[2] - 1), membership, batch.valid, k)

    return split_large(X, group_batches(within, group, within.sizes // k, batch_elements), k)


def _memberships(Z: Host, valid: Host, k: int, fuzziness: float) -> Host:
    """(b, length, c) membership of each row of the padded parts in each of its part's clusters."""
    Z = Z - Z[:, :1]
    squares = np.einsum("bld,bld->bl", Z, Z)[:, :, None]
    sizes = valid.sum(axis=1)
    clusters = sizes // k
    number = np.arange(int(clusters.max()))
    missing = number >= clusters[:, None]
    # Initial centres: rows evenly spaced along the part's widest column.
    widest = np.take_along_axis(Z, Z.var(axis=1).argmax(axis=1)[:, None, None], axis=2)[:, :, 0]
    along = np.argsort(np.where(valid, widest, np.inf), axis=1, kind="stable")
    spread = np.minimum((2 * number + 1) * sizes[:, None] // (2 * clusters[:, None]), sizes[:, None] - 1)
    centres = np.take_along_axis(Z, np.take_along_axis(along, spread, axis=1)[:, :, None], axis=1)
    membership = np.empty((*valid.shape, len(number)), dtype=Z.dtype)
    for _ in range(_ROUNDS):
        distance = np.matmul(Z, -2 * centres.transpose(0, 2, 1))
        distance += squares
        distance += np.einsum("bcd,bcd->bc", centres, centres)[:, None, :]
        distance += np.where(missing, np.inf, 0)[:, None, :]
        nearest = distance.min(axis=2, keepdims=True)
        floor = np.finfo(Z.dtype).tiny + np.finfo(Z.dtype).eps * squares.max(axis=1, keepdims=True)
        np.maximum(distance, floor, out=distance)
        membership = (np.maximum(nearest, floor) / distance) ** (1 / (fuzziness - 1))
        membership /= membership.sum(axis=2, keepdims=True)
        weight = np.where(valid[:, :, None], membership, 0) ** fuzziness
        total = np.maximum(weight.sum(axis=1), np.finfo(Z.dtype).tiny)
        centres = np.matmul(weight.transpose(0, 2, 1), Z) / total[:, :, None]
    return membership


def _dissolve_small(labels: Host, membership: Host, valid: Host, k: int) -> Host:
    """(b, length) clusters of at least k rows; rows of smaller ones join their best remaining cluster."""
    b, _, clusters = membership.shape
    batch = np.arange(b)
    flat = batch[:, None] * clusters + labels
    counts = np.bincount(flat[valid], minlength=b * clusters).reshape(b, clusters)
    standing = counts > 0
    for _ in range(clusters):
        small = np.where(standing & (counts < k), counts, k)
        smallest = clusters - 1 - small[:, ::-1].argmin(axis=1)
        here = np.flatnonzero(small[batch, smallest] < k)
        if not len(here):
            break
        standing[here, smallest[here]] = False
        part, row = np.nonzero(valid & (labels == np.where(np.isin(batch, here), smallest, -1)[:, None]))
        joined = np.where(standing[part], membership[part, row], -1).argmax(axis=1)
        labels[part, row] = joined
        np.add.at(counts, (part, joined), 1)
    return labels


class Fuzzy(InBlocks):
    """Fuzzy c-means; every row joins a cluster with the probability of its membership (Torra, Miyamoto 2004).

    Not refined: exchanges that lower the distortion would undo the draws.

    On the CPU only: a row draws its cluster by powers of distances, iterated, whose last bits differ between devices.
    The groups would not be the same on both, as those of every other grouping are.
    """

    host_only: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["fuzzy"] = "fuzzy"
    fuzziness: float = Field(default=1.2, gt=1, description="the nearer to 1, the crisper")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        def group(X: Array, parts: Partition, k: int, metric: Metric) -> Partition:
            return fuzzy(X, parts, k, draws, metric, fuzziness=self.fuzziness)

        return self._form(X, metric, group)
