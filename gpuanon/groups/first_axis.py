"""Projected microaggregation: neighbours along the first principal axis."""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.groups.univariate import optimal_univariate, univariate
from gpuanon.numerics.distance import EUCLIDEAN, Metric


def first_axis(X: Array, k: int, metric: Metric = EUCLIDEAN, *, optimal: bool = False) -> Partition:
    """Sort the rows along the first principal axis of `X` (n, d); every k neighbours are a group, the last has more.

    Parameters
    ----------
    X : (n, d) array
    k : least rows in a group
    metric : its weights scale the columns
    optimal : take the groups with the least error along the axis instead, k to 2k − 1 rows each

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows.
    Cost      : O(n (d² + log n)).
    """
    xp = namespace(X)
    centred = X - X.mean(axis=0)
    if metric.weights is not None:
        centred = centred * xp.sqrt(xp.asarray(metric.weights))
    axis = xp.linalg.eigh(centred.T @ centred)[1][:, -1]
    axis = axis * xp.sign(axis[xp.argmax(xp.abs(axis))])  # an axis has no sign of its own: the largest part is positive
    places = centred @ axis
    return optimal_univariate(places, k) if optimal else univariate(places, k)
