"""The model of MDAV groups."""

from __future__ import annotations

from typing import Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.groups.in_blocks import RefinedInBlocks
from gpuanon.masking.groups.mdav import mdav
from gpuanon.numerics.metric import EUCLIDEAN, Metric


class Mdav(RefinedInBlocks):
    """Maximum Distance to Average Vector, the standard microaggregation heuristic (Domingo-Ferrer, Torra 2005)."""

    use: Literal["mdav"] = "mdav"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, mdav))
