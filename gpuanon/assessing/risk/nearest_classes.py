"""The released records nearest to a target, ties and equal records included, whatever the order of the release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.numerics.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows

MOST = 32
"""Classes that tie for the nearest which are looked at; more of them are left out, the last rows first."""


@dataclass(frozen=True, eq=False)
class NearestClasses:
    """Nearest released records, by classes of equal records.

    labels   : (m,) class of each released record
    sizes    : (g,) records of each class
    index    : (q, t) the nearest classes of each target
    tied     : (q, t) whether each is as near as the nearest
    distance : (q,) squared distance of the nearest
    """

    labels: Array
    sizes: Array
    index: Array
    tied: Array
    distance: Array

    @property
    def records(self) -> Array:
        """(q,) released records that are nearest."""
        return namespace(self.labels).where(self.tied, self.sizes[self.index], 0).sum(axis=1)


def nearest_classes(X: Array, Y: Array) -> NearestClasses:
    """The classes of equal rows of `Y` (m, d) nearest to each row of `X` (q, d).

    Cost : one exact search among the different rows of `Y`.
    """
    xp = namespace(X)
    labels = equal_rows(Y)
    _, first, sizes = xp.unique(labels, return_index=True, return_counts=True)
    distance, index = k_nearest(X, Y[first], min(MOST, len(first)))
    return NearestClasses(labels, sizes, index, distance == distance[:, :1], distance[:, 0])


def counted(keys: Array, low: Array, high: Array) -> Array:
    """How many of the ascending `keys` are at least `low` and below `high`, element by element."""
    xp = namespace(keys)
    found = [xp.searchsorted(keys, ends.reshape(-1), side="left").reshape(ends.shape) for ends in (low, high)]
    return (found[1] - found[0]).astype(np.int64)
