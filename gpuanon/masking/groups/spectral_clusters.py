"""Spectral clusters: groups of rows that are near on the data manifold, of about a given size.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, fig. 5-1, lines 1–5.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.ranges import same_size_batches
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Groups
from gpuanon.masking.groups.median_cuts import cut_in_two
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.kmeans import best_kmeans
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.metric import EUCLIDEAN, Metric, weighted
from gpuanon.numerics.spectral import spectral_coordinates, width
from gpuanon.numerics.svd import principal_axes

SMALLEST, LARGEST = 0.75, 1.5
"""Sizes of a group, in targets: much smaller groups disclose; a group of two is released nearly unchanged."""

_AFFINITIES = 1 << 22
_STARTS = 4


def spectral_clusters(X: Array, within: Partition, target: int, draws: Draws, sigma: float | None = None) -> Partition:
    """Refine `within` by spectral clustering into about size / `target` clusters per part.

    Every group has between 0.75 and 1.5 times `target` rows (a part of fewer than 1.5 times `target` rows is one
    group).  The cluster sizes of k-means are corrected afterwards: a cluster that is too small joins the one with the
    nearest centre, the smallest first, and one that is too large is cut into equal pieces along its first principal
    component.

    sigma : scale of the affinity (eq. 5.1 of [1]); by default, for each part, the median distance of two rows

    Cost : O(n · S · (d + n_clusters)) for parts of S rows; memory O(S²) per thread up to S = 8192, O(S) beyond.
    """
    xp = namespace(X)
    labels = xp.zeros(within.n, dtype=np.int64)
    sizes = to_host(within.sizes)
    first = np.concatenate([[0], np.cumsum(_wanted(sizes, target))])

    def work(parts: Host) -> None:
        m = int(sizes[parts[0]])
        q = int(_wanted(sizes[parts[:1]], target)[0])
        rows = within.order[within.starts[xp.asarray(parts)][:, None] + xp.arange(m)]
        local = _clusters(X[rows], rows, q, target, draws, sigma) if q > 1 else rows * 0
        labels[rows] = local + xp.asarray(first[parts])[:, None]

    with one_blas_thread():
        each(work, same_size_batches(sizes, lambda size: max(1, _AFFINITIES // size**2)))
    return _cut_large(X, Partition.from_labels(labels), target)


def _wanted(sizes: Host, target: int) -> Host:
    """Number of clusters for parts of these sizes."""
    return np.maximum(1, np.rint(sizes / target).astype(np.int64))


def _clusters(Z: Array, rows: Array, q: int, target: int, draws: Draws, sigma: float | None) -> Array:
    """(b, m) cluster of each row of b parts (b, m, d), none of them too small."""
    b, m, _ = Z.shape

    def numbers(name: str, count: int) -> Array:
        return draws.child(name).take(rows.reshape(-1)).uniform(count).reshape(b, m, count)

    Y = spectral_coordinates(Z.astype(np.float64), q, sigma, numbers("start", width(q)) - 0.5)
    labels = best_kmeans(Y, (numbers(f"centres {at}", q) for at in range(_STARTS)))
    return _join_small(Y, labels, q, SMALLEST * target)


def _join_small(Y: Array, labels: Array, q: int, smallest: float) -> Array:
    """Merge the smallest cluster of a part with the nearest one while it has fewer than `smallest` rows."""
    xp = namespace(Y)
    part = xp.arange(len(Y))
    member = (labels[:, :, None] == xp.arange(q)).astype(Y.dtype)
    counts = member.sum(axis=1)
    sums = member.transpose(0, 2, 1) @ Y
    for _ in range(q - 1):
        there = counts > 0
        small = xp.where(there, counts, np.inf).argmin(axis=1)
        joining = (counts[part, small] < smallest) & (there.sum(axis=1) > 1)
        if not bool(joining.any()):
            break
        centres = sums / xp.where(there, counts, 1.0)[:, :, None]
        apart = ((centres - centres[part, small][:, None]) ** 2).sum(axis=2)
        apart = xp.where(there, apart, np.inf)
        apart[part, small] = np.inf
        near = xp.where(joining, apart.argmin(axis=1), small)
        labels = xp.where(joining[:, None] & (labels == small[:, None]), near[:, None], labels)
        moved, sum_moved = counts[part, small] * joining, sums[part, small] * joining[:, None]
        counts[part, small] -= moved
        sums[part, small] -= sum_moved
        counts[part, near] += moved
        sums[part, near] += sum_moved
    return labels


def _cut_large(X: Array, groups: Partition, target: int) -> Partition:
    """Cut groups of more than 1.5 targets into equal pieces along their first principal components."""
    xp = namespace(X)
    sizes = to_host(groups.sizes)
    pieces = np.where(sizes > LARGEST * target, _wanted(sizes, target), 1)
    while (pieces > 1).any():
        axes = principal_axes(X, groups)
        along = Affine(axes.V[:, :, :1], before=axes.means)(X, groups)
        low = pieces // 2
        groups = cut_in_two(along, groups, xp.asarray(to_host(groups.sizes) * low // pieces), pieces > 1, True)
        both = np.stack([low, pieces - low], axis=1).reshape(-1)
        pieces = both[both > 0]
    return groups


class Spectral(Groups):
    """Spectral clusters of 0.75 to 1.5 times the target (Lasko 2007, ch. 5), in blocks where rows are many.

    `target = "auto"` is resolved with a reference sample before the groups are formed.
    """

    use: Literal["spectral"] = "spectral"
    target: int = Field(default=200, ge=2, description="rows of a group")
    block: int = Field(default=2048, ge=0, description="most rows in a block; 0: the whole table at once, as published")
    sigma: float | None = Field(default=None, gt=0, description="scale of the affinity; default: the median distance")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        if metric.kind != "euclidean":
            raise ParameterError(f"metric: spectral groups support Euclidean distances only, got {metric.kind!r}")
        X = weighted(X, metric)
        parts = Partition.whole(len(X), X)
        if self.block and len(X) > self.block:
            with stage("blocks"):
                parts = blocks(X, parts, max(self.block, 4 * self.target))
        with stage("spectral clusters"):
            return spectral_clusters(X, parts, self.target, draws.child("spectral"), self.sigma)
