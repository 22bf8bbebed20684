"""Condensation: the records of a group are replaced by as many with about the same mean and covariance."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Operation, RowEffect
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed


def condense(T: Array, groups: Partition, draws: Draws) -> Array:
    """(n, c) new coordinates: independent and uniform, with each group's own mean and variance along each axis [1]_.

    Along principal axes of the group these are its mean and covariance, in expectation.

    References
    ----------
    .. [1] C. C. Aggarwal, P. S. Yu (2004), A condensation approach to privacy preserving data mining, EDBT.
    """
    xp = namespace(T)
    labels = groups.labels()
    means = segment_means(T, groups)
    squares = T - means[labels]
    squares *= squares
    deviations = xp.sqrt(segment_means(squares, groups))
    del squares
    out = draws.uniform(T.shape[1])
    out *= 2.0
    out -= 1.0
    out *= 3.0**0.5
    out *= deviations[labels]
    out += means[labels]
    return out


class Condense(Operation):
    """New rows, uniform along the axes of each group; for the basis svd of each group."""

    rows: ClassVar[RowEffect] = "new"

    use: Literal["condense"] = "condense"

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        values = condense(T, groups, records.draws.child("condense"))
        return Changed(values, rows=namespace(T).arange(len(T), dtype=np.int64), added=len(T))
