"""Groups that no search forms: all rows, blocks of near rows, and classes of equal rows."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Groups, Placement, Sight
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.equal_rows import equal_rows
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


class BlocksOfRows(Groups):
    """Balanced median cuts: blocks of near rows, at most `size` of them."""

    use: Literal["blocks"] = "blocks"
    size: int = Field(ge=2)

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("blocks"):
            return blocks(X, Partition.whole(len(X), like=X), self.size, metric)


def classes(codes: Array) -> Partition:
    """Rows of `codes` (n, columns) that are equal share a group; a null is a value of its own.

    Cost : one counting pass for few possible combinations, else one sort of n numbers.
    """
    return Partition.from_labels(equal_rows(codes))


class EqualRows(Groups):
    """Rows that are equal on every column; a null equals a null."""

    sees: ClassVar[Sight] = "classes"
    placement: ClassVar[Placement] = "class"

    use: Literal["classes"] = "classes"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return classes(X)
