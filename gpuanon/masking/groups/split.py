"""Split groups of 2k rows or more."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.mdav import mdav
from gpuanon.numerics.metric import EUCLIDEAN, Metric


def split_large(X: Array, groups: Partition, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Split every group of 2k rows or more into groups of k to 2k − 1 by MDAV; that never raises the distortion."""
    xp = namespace(X)
    large = groups.sizes >= 2 * k
    if not bool(large.any()):
        return groups
    rows = groups.order[large[groups.part_of_sorted()]]
    ends = xp.cumsum(groups.sizes[large])
    parts = Partition(xp.arange(len(rows), dtype=np.int64), xp.concatenate([xp.zeros(1, dtype=np.int64), ends]))
    labels = groups.labels()
    labels[rows] = groups.parts + mdav(X[rows], parts, k, metric).labels()
    return Partition.from_labels(labels)
