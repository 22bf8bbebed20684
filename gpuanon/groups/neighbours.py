"""Which groups are near each other, and disjoint pairs of them.  Linear in the number of groups."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.partition import Partition
from gpuanon.groups.blocks import blocks
from gpuanon.groups.lockstep import Host
from gpuanon.numerics.distance import Metric

_CELL = 256
"""Groups in a cell: all pairs of them are measured."""
_COARSE = 1 << 13
_TREES = 3
_AXES = 4


class Cells:
    """Cells of near groups that lie differently at every turn: median cuts across axes turned at random.

    (A k-d tree would find all neighbours, but slowly beyond a few columns; cells miss some, at every turn others.)
    The upper cuts cost as much as the lower ones; they are made for the first turns only and then used again.
    """

    def __init__(self) -> None:
        self.coarse: list[Partition] = []

    def at(self, turn: int, centres: Host) -> Partition:
        """The cells of the groups with these `centres` (g, e)."""
        g, e = centres.shape
        turned = (centres @ _rotation(e, turn)).astype(np.float32)
        if g <= _COARSE:
            return blocks(turned, Partition.whole(g), _CELL)
        if len(self.coarse) < _TREES:
            self.coarse.append(blocks(turned, Partition.whole(g), _COARSE))
        return blocks(turned, self.coarse[turn % _TREES], _CELL)


def place_codes(X: Host, metric: Metric) -> Host:
    """(n, e) rows as places whose Euclidean distances go with Gower's: categories become random directions."""
    columns = X.shape[1]
    weights = np.asarray(metric.weights or (1.0,) * columns)
    places = []
    for column in range(columns):
        values = X[:, column, None]
        if metric.categorical is not None and metric.categorical[column]:
            levels, codes = np.unique(X[:, column], return_inverse=True)
            random = np.random.default_rng(column).standard_normal((len(levels), _AXES))
            values = random[codes] / np.sqrt(2 * _AXES)  # two categories are about 1 apart
        places.append(values * weights[column])
    return np.concatenate(places, axis=1).astype(np.float32)


def _rotation(d: int, turn: int) -> Host:
    """(d, d) a rotation that `turn` alone decides."""
    return np.linalg.qr(np.random.default_rng(turn).standard_normal((d, d)))[0]


def nearest_inside(Z: Host, valid: Host, count: int) -> Host:
    """(b, length, count) places of the rows nearest to each row of the padded cells `Z` (b, length, d).

    A row stands in its own line, last, only where its cell has too few others.
    """
    length = Z.shape[1]
    squares = np.einsum("bld,bld->bl", Z, Z)[:, :, None]
    ones = np.ones_like(squares)
    far = np.finfo(np.float32).max
    left = np.concatenate([-2 * Z, squares, ones], axis=2)
    right = np.concatenate([Z, ones, np.where(valid[:, :, None], squares, np.inf)], axis=2)
    distance = np.matmul(left, np.ascontiguousarray(right.transpose(0, 2, 1)))
    place = np.arange(length, dtype=np.int32)
    distance[:, place, place] = far
    # A positive float orders like its bits: with the place in the lowest ones, a plain sort is an argsort.
    mask = np.int32((1 << max(1, int(length - 1).bit_length())) - 1)
    keys = (distance.view(np.int32) & ~mask) | place
    keys.sort(axis=2)
    near = keys[:, :, :count]
    near = np.where(near < (np.float32(far).view(np.int32) & ~mask), near & mask, place[:, None])
    if length < count:
        near = np.concatenate([near, np.repeat(place[None, :, None], count - length, axis=2)], axis=2)
    return near


def disjoint_pairs(mate: Host, coin: Host, holder: Host) -> tuple[Host, Host]:
    """Pairs (a, b), no group in two of them: groups with a `coin` ask their `mate` (g,), which takes one of them.

    holder : (g,) scratch
    """
    asking = np.flatnonzero(coin & ~coin[mate])
    asked = mate[asking]
    holder[asked] = asking  # of several that ask, the last stays
    chosen = holder[asked] == asking
    return asking[chosen], asked[chosen]
