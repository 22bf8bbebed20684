"""Projected microaggregation: neighbours along the first principal axis."""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.lockstep import weighted
from gpuanon.masking.groups.univariate import univariate
from gpuanon.numerics.distance import EUCLIDEAN, Metric


def first_axis(X: Array, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Sort the rows along the first principal axis of `X` (n, d); every k neighbours are a group, the last has more.

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
    axis = axis * xp.sign(axis[xp.argmax(xp.abs(axis))])  # an axis has no sign of its own: the largest part is positive
    return univariate(centred @ axis, k)
