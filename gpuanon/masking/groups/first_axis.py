"""Projected microaggregation: groups of consecutive rows along the first principal axis."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gpuanon.arrays.backend import Array, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.masking.groups.batched import require_k_rows
from gpuanon.masking.groups.in_blocks import Refined
from gpuanon.masking.groups.univariate import univariate
from gpuanon.masking.groups.whole_numbers import grid_of
from gpuanon.numerics.metric import EUCLIDEAN, Metric

_DISTANCE_BITS = 44
"""About 2^20 whole numbers along the widest column, which leaves 30 bits for the axis."""


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

    Rows and axis are rounded to whole numbers, so that covariances and projections are exact sums: equal rows have
    equal projections, ties go to the lowest row, and the groups are the same on every device, whatever its BLAS.
    """
    require_k_rows(Partition.whole(len(X)), k)
    grid = grid_of(X, metric, _DISTANCE_BITS)
    rows = grid.rows(X)
    axis = _axis(rows, grid.bits)
    return univariate(sum(rows[:, j] * share for j, share in enumerate(axis)), k)


def _axis(rows: Array, bits: int) -> list[float]:
    """(d,) the first principal axis of whole numbers of so many bits, rounded to whole numbers."""
    n, d = rows.shape
    # The last bits are dropped where a sum of n products would exceed 2^53.
    dropped = max(0, -(-(2 * (bits - 1) + n.bit_length() - 53) // 2))
    coarse = (rows >> dropped).astype(np.float64)
    total = coarse.sum(axis=0)
    products = coarse.T @ coarse - total[:, None] * total[None, :] / n
    # A d × d matrix, solved on the host: where two axes are equally long, devices would find different ones.
    axis = np.linalg.eigh(to_host(products))[1][:, -1]
    # The sign of an axis is arbitrary: its largest entry is made positive.
    axis = axis * np.sign(axis[np.argmax(np.abs(axis))])
    shares: list[float] = np.rint(axis * 2.0 ** (52 - bits - d.bit_length())).tolist()
    return shares


class FirstAxis(Refined):
    """Every k neighbours along the first principal axis of all rows (Lasko 2007, ch. 2)."""

    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["first-axis"] = "first-axis"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("groups"):
            groups = first_axis(X, self.k, metric)
        return self._refined(X, metric, groups)
