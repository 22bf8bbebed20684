"""The released records nearest to a target, ties and equal records included, whatever the order of the release."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows

MOST = 32
"""Classes that tie for the nearest which are looked at; more of them are left out, the last rows first."""

_FEW = 3  # classes that are looked at first: two tie on a line, between equally far values


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

    Cost : one exact search among the different rows of `Y`, and one more for targets whose nearest all tie.
    """
    xp = namespace(X)
    labels = equal_rows(Y)
    sizes = xp.bincount(labels)
    if len(sizes) == len(Y):  # every row is a class of its own
        labels, rows = xp.arange(len(Y), dtype=np.int64), Y
    else:
        rows = Y[xp.unique(labels, return_index=True)[1]]
    distance, index = k_nearest(X, rows, min(_FEW, len(rows)))
    tied = distance == distance[:, :1]
    nearest = distance[:, 0]
    more = xp.flatnonzero(tied.all(axis=1)) if len(rows) > _FEW else xp.empty(0, dtype=np.int64)
    if len(more):
        wide = min(MOST, len(rows)) - index.shape[1]
        index, tied = (xp.concatenate([part, xp.zeros((len(X), wide), part.dtype)], axis=1) for part in (index, tied))
        distance, index[more] = k_nearest(X[more], rows, index.shape[1])
        tied[more] = distance == distance[:, :1]
    return NearestClasses(labels, sizes, index, tied, nearest)


def counted(keys: Array, low: Array, high: Array) -> Array:
    """How many of the ascending `keys` are at least `low` and below `high`, element by element."""
    xp = namespace(keys)
    found = [xp.searchsorted(keys, ends.reshape(-1), side="left").reshape(ends.shape) for ends in (low, high)]
    return (found[1] - found[0]).astype(np.int64)
