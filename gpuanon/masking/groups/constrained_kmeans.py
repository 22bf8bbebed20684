"""k-means with a least cluster size: each assignment is optimal.  A reference for small tables.

References
----------
.. [1] P. S. Bradley, K. P. Bennett, A. Demiriz (2000), Constrained k-means clustering, Microsoft Research
   MSR-TR-2000-65.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.groups.batched import require_k_rows
from gpuanon.masking.groups.in_blocks import InBlocks
from gpuanon.numerics.metric import EUCLIDEAN, Metric

MOST_ROWS = 4096
"""Rows of a part, at most: an assignment costs their cube in the worst case."""

_ROUNDS = 30
_SHARES = (1.0, 0.9, 0.8, 0.7, 0.6)
"""Of the largest possible number of clusters, which are tried."""


def optimal_assignment(D: Array, k: int) -> Array:
    """(n,) the cluster of each row, at least k rows each, with the least sum of the costs `D` (n, clusters).

    The minimum-cost flow of [1], as an assignment: each cluster has k places that must be filled, and the other rows go
    where they cost least.
    """
    from scipy.optimize import linear_sum_assignment

    n, clusters = D.shape
    free = n - clusters * k
    if free < 0:
        raise ParameterError(f"k: {clusters} clusters of at least {k} rows were asked for, got {n} rows")
    places = np.hstack([np.repeat(D, k, axis=1), np.repeat(D.min(axis=1)[:, None], free, axis=1)])
    _, place = linear_sum_assignment(places)
    return np.where(place < clusters * k, place // k, D.argmin(axis=1))


def constrained_kmeans(X: Array, k: int, draws: Draws, clusters: int | None = None) -> tuple[Array, float]:
    """(n,) clusters of at least k rows each, and their sum of squared errors: optimal assignments and means in turn.

    The first centres are random rows, as many as `clusters`; None: as many as fit, ``n // k``.  The error never rises;
    it ends when no row moves, or after 30 rounds.
    """
    count = clusters or len(X) // k
    centres = X[np.argsort(draws.keys(), kind="stable")[:count]]
    labels = np.full(len(X), -1)
    for _ in range(_ROUNDS):
        D = ((X[:, None] - centres[None]) ** 2).sum(axis=2)
        found = optimal_assignment(D, k)
        if np.array_equal(found, labels):
            break
        labels = found
        sizes = np.bincount(labels, minlength=count)
        centres = np.stack([np.bincount(labels, column, count) for column in X.T], axis=1) / sizes[:, None]
    return labels, float(((X - centres[labels]) ** 2).sum())


class ConstrainedKMeans(InBlocks):
    """k-means whose assignments are optimal with at least k rows in a cluster (Bradley et al. 2000): for small tables.

    Runs on the CPU: the assignment is SciPy's.
    """

    host_only: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["constrained-k-means"] = "constrained-k-means"
    block: int = Field(default=512, ge=0, le=MOST_ROWS, description="most rows in a block; 0: the whole table at once")
    optimise: bool = Field(default=False, description="try fewer clusters than fit, and keep the least error")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        def group(X: Array, within: Partition, k: int, metric: Metric) -> Partition:
            return self._grouped(X, within, draws)

        return self._form(X, metric, group)

    def _grouped(self, X: Array, within: Partition, draws: Draws) -> Partition:
        """Clusters of every part."""
        require_k_rows(within, self.k)
        if int(within.sizes.max()) > MOST_ROWS:
            raise ParameterError(
                f"block: parts of at most {MOST_ROWS} rows are allowed, got {int(within.sizes.max())}",
                hint="block = 512",
            )
        labels = np.empty(len(X), dtype=np.int64)

        def work(part: int) -> None:
            rows = within.order[within.starts[part] : within.starts[part + 1]]
            most = len(rows) // self.k
            counts = sorted({max(1, int(most * share)) for share in (_SHARES if self.optimise else (1.0,))})
            found = [constrained_kmeans(X[rows], self.k, draws.take(rows), count) for count in counts]
            labels[rows] = within.starts[part] + min(found, key=lambda one: one[1])[0]

        each(work, range(within.parts))
        return Partition.from_labels(labels)
