"""Groups that hold enough records of a weight above 0: from others no value can be drawn."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.numerics.distance.distance import nearest


def with_weight(
    groups: Partition, X: Array, weights: Array, k: int, persons: Array | None, strata: Partition | None
) -> Partition:
    """Unite each group of fewer than `k` records of a weight above 0 with the nearest group that has as many.

    persons : (n,) whose rows they are: then k counts persons; or None
    strata  : unions of groups that a united group does not cross; None for one
    Ties    : the group of the lowest number.  A stratum without any such group stays as it is, and the claim fails.
    """
    xp = namespace(X)
    labels, positive = groups.labels(), weights > 0
    if bool(positive.all()):
        return groups
    drawn = labels[positive]
    if persons is not None:  # each person of a group once
        drawn = xp.unique(xp.stack([labels, persons])[:, positive], axis=1)[0]
    enough = to_host(xp.bincount(drawn, minlength=groups.parts)) >= k
    first = to_host(groups.order[groups.starts[:-1]])
    stratum = np.zeros(groups.parts, dtype=np.int64) if strata is None else to_host(strata.labels())[first]
    means = segment_means(X, groups)
    united = np.arange(groups.parts)
    for own in np.unique(stratum[~enough]):
        few, many = (np.flatnonzero((stratum == own) & chosen) for chosen in (~enough, enough))
        if len(many):
            united[few] = many[to_host(nearest(means[xp.asarray(few)], means[xp.asarray(many)])[1])]
    return Partition.from_labels(xp.asarray(united)[labels])
