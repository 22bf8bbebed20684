"""Centroid: every record receives the centre of its group (microaggregation)."""

from __future__ import annotations

from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_means, segment_minima, sort_within
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.contract import Gives, Operation
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed


def centroid(X: Array, groups: Partition) -> Array:
    """(n, d) mean row of each record's group.

    On indicator columns the mean is the share of each category, so that decoding by the largest share
    gives the mode; ties go to the lowest category code.

    Guarantee : records of one group are equal to the bit.
    """
    return groups.spread(segment_means(X, groups))


def median(X: Array, groups: Partition) -> Array:
    """(n, d) median of each column over each record's group (mean of the two middle values)."""
    xp = namespace(X)
    low = groups.starts[:-1] + (groups.sizes - 1) // 2
    high = groups.starts[:-1] + groups.sizes // 2
    centres = xp.empty((groups.parts, X.shape[1]), dtype=X.dtype)
    for j in range(X.shape[1]):
        ordered = X[:, j][sort_within(X[:, j], groups)]
        centres[:, j] = 0.5 * (ordered[low] + ordered[high])
    return groups.spread(centres)


def midpoint(X: Array, groups: Partition) -> Array:
    """(n, d) middle of the range of each column over each record's group."""
    low, high = segment_minima(X, groups), segment_maxima(X, groups)
    return groups.spread(0.5 * low + 0.5 * high)


CENTRES = {"median": median, "midpoint": midpoint}


class Centroid(Operation):
    """The centre of the group: mean (or median, or middle of the range) of numbers, mode of categories."""

    claim: ClassVar[type[Claim] | None] = EqualRecords
    by_column: ClassVar[bool] = True
    gives: ClassVar[Gives] = "centres"

    use: Literal["centroid"] = "centroid"
    centre: Literal["mean", "median", "midpoint"] = "mean"

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        centres = centroid(T, groups)
        if self.centre != "mean":
            centre = CENTRES[self.centre]
            for j, categorical in enumerate(records.categorical or (False,) * T.shape[1]):
                if not categorical:
                    centres[:, j : j + 1] = centre(T[:, j : j + 1], groups)
        return Changed(centres)
