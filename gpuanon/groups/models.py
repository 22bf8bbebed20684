"""Groupings by their names in recipes: frozen parameters that call the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.groups.blocks import blocks
from gpuanon.groups.kmember import kmember
from gpuanon.groups.lockstep import require_k_rows
from gpuanon.groups.mdav import mdav
from gpuanon.groups.refine import refine
from gpuanon.groups.whole import whole
from gpuanon.numerics.distance import EUCLIDEAN, Metric
from gpuanon.parts import Groups

LEAST_BLOCK = 8
"""Groups that a block holds at least: where k is large the block grows with it."""


class Whole(Groups):
    """All rows in one group."""

    use: Literal["whole"] = "whole"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return whole(X)


class Blocks(Groups):
    """Balanced median cuts: blocks of near rows, at most `size` of them."""

    use: Literal["blocks"] = "blocks"
    size: int = Field(ge=2)

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("blocks"):
            return blocks(X, whole(X), self.size, metric)


class _OfK(Groups):
    """Groups of at least k near rows: blocks, then a grouping inside each, then exchanges across their borders."""

    k: int = Field(ge=2)
    block: int = Field(default=1024, ge=0, description="most rows in a block; 0: the whole table at once")
    refine: bool = True

    def _form(self, X: Array, metric: Metric, group: Callable[..., Partition]) -> Partition:
        parts = whole(X)
        require_k_rows(parts, self.k)
        if self.block:
            with stage("blocks"):
                parts = blocks(X, parts, max(self.block, LEAST_BLOCK * self.k), metric, multiple=self.k)
        with stage("groups"):
            groups = group(X, parts, self.k, metric)
        if self.refine:
            with stage("refinement"):
                groups = refine(X, groups, self.k, metric)
        return groups


class KMember(_OfK):
    """Greedy k-member clustering under Euclidean or Gower distortion (Byun et al. 2007)."""

    use: Literal["k-member"] = "k-member"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._form(X, metric, kmember)


class Mdav(_OfK):
    """Maximum Distance to Average Vector, the standard microaggregation heuristic (Domingo-Ferrer, Torra 2005)."""

    use: Literal["mdav"] = "mdav"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._form(X, metric, mdav)
