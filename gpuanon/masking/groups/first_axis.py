"""Projected microaggregation: groups of consecutive rows along the first principal axis."""

from __future__ import annotations

from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.masking.groups.in_blocks import Refined
from gpuanon.masking.groups.univariate import univariate
from gpuanon.numerics.distance import EUCLIDEAN, Metric, weighted


def first_axis(X: Array, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Sort the rows along the first principal axis of `X` (n, d) and group every k consecutive rows; the last has more.

    Parameters
    ----------
    X : (n, d) array
    k : least rows in a group
    metric : Euclidean; its weights scale the columns

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows (fewer than k rows are an error).
    Cost      : O(n (d² + log n)).
    """
    xp = namespace(X)
    X = weighted(X, metric)
    centred = X - X.mean(axis=0)
    axis = xp.linalg.eigh(centred.T @ centred)[1][:, -1]
    # The sign of an axis is arbitrary: its largest entry is made positive.
    axis = axis * xp.sign(axis[xp.argmax(xp.abs(axis))])
    return univariate(centred @ axis, k)


class FirstAxis(Refined):
    """Every k neighbours along the first principal axis of all rows (Lasko 2007, ch. 2)."""

    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["first-axis"] = "first-axis"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("groups"):
            groups = first_axis(X, self.k, metric)
        return self._refined(X, metric, groups)
