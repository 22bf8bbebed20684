"""All rows in one group."""

from __future__ import annotations

from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Groups, Placement, Sight
from gpuanon.numerics.metric import EUCLIDEAN, Metric


def whole(X: Array) -> Partition:
    """One group that holds every row of `X`."""
    return Partition.whole(len(X), like=X)


class Whole(Groups):
    """All rows in one group."""

    sees: ClassVar[Sight] = "rows"
    placement: ClassVar[Placement] = "random"

    use: Literal["whole"] = "whole"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return whole(X)
