"""Groups of 2k rows and more, split."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.groups.mdav import mdav
from gpuanon.numerics.distance import EUCLIDEAN, Metric


def split_large(X: Array, groups: Partition, k: int, metric: Metric = EUCLIDEAN) -> Partition:
    """Split every group of 2k rows and more into groups of k to 2k − 1 by MDAV; that never raises the distortion."""
    large = groups.sizes >= 2 * k
    if not large.any():
        return groups
    rows = groups.order[np.repeat(large, groups.sizes)]
    parts = Partition(np.arange(len(rows)), np.concatenate([[0], np.cumsum(groups.sizes[large])]))
    labels = groups.labels()
    labels[rows] = groups.parts + mdav(X[rows], parts, k, metric).labels()
    return Partition.from_labels(labels)
