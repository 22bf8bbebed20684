"""Equivalence classes: rows that are equal on every column."""

from __future__ import annotations

from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Groups, Placement, Sight
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.metric import EUCLIDEAN, Metric


def classes(codes: Array) -> Partition:
    """Rows of `codes` (n, columns) that are equal share a group; a null is a value of its own.

    Cost : one counting pass for few possible combinations, else one sort of n numbers.
    """
    return Partition.from_labels(equal_rows(codes))


class Classes(Groups):
    """Rows that are equal on every column; a null equals a null."""

    sees: ClassVar[Sight] = "classes"
    placement: ClassVar[Placement] = "class"

    use: Literal["classes"] = "classes"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return classes(X)
