"""Blocks of near rows as groups."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Groups
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import EUCLIDEAN, Metric


class Blocks(Groups):
    """Balanced median cuts: blocks of near rows, at most `size` of them."""

    use: Literal["blocks"] = "blocks"
    size: int = Field(ge=2)

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("blocks"):
            return blocks(X, Partition.whole(len(X), like=X), self.size, metric)
