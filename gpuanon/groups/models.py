"""Groupings by their names in recipes: frozen parameters that call the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.groups.blocks import blocks
from gpuanon.groups.first_axis import first_axis
from gpuanon.groups.fuzzy import fuzzy
from gpuanon.groups.kmember import kmember
from gpuanon.groups.lockstep import require_k_rows
from gpuanon.groups.mdav import mdav
from gpuanon.groups.refine import refine
from gpuanon.groups.spanning_tree import spanning_tree
from gpuanon.groups.univariate import optimal_univariate, univariate
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
            groups = group(X, parts, self.k, metric=metric)
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


class SpanningTree(_OfK):
    """Minimum spanning trees whose long edges are removed (Laszlo, Mukherjee 2005)."""

    use: Literal["spanning-tree"] = "spanning-tree"
    refine: bool = False

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._form(X, metric, spanning_tree)


class Fuzzy(_OfK):
    """Fuzzy c-means; every row joins a cluster with the probability of its membership (Torra, Miyamoto 2004)."""

    use: Literal["fuzzy"] = "fuzzy"
    refine: bool = False
    fuzziness: float = Field(default=1.2, gt=1, description="the nearer to 1, the crisper")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        def group(X: Array, parts: Partition, k: int, metric: Metric) -> Partition:
            return fuzzy(X, parts, k, draws, metric, fuzziness=self.fuzziness)

        return self._form(X, metric, group)


class FirstAxis(Groups):
    """Neighbours along the first principal axis."""

    use: Literal["first-axis"] = "first-axis"
    k: int = Field(ge=2)

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return first_axis(X, self.k, metric)


class _OneColumn(Groups):
    """Groups of one column; `per_column` tells the engine to form and mask the columns one after another.

    Such a release is not k-anonymous over several columns: each column by itself has groups of at least k rows.
    """

    per_column: ClassVar[bool] = True
    k: int = Field(ge=2)

    def _column(self, X: Array) -> Array:
        if X.shape[1] != 1:
            raise ParameterError(f"groups: one column at a time is allowed, got {X.shape[1]}")
        return X[:, 0]


class Univariate(_OneColumn):
    """Every k neighbours of the sorted column (individual ranking)."""

    use: Literal["univariate"] = "univariate"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return univariate(self._column(X), self.k)


class OptimalUnivariate(_OneColumn):
    """The groups of one column with the least sum of squared errors (Hansen, Mukherjee 2003)."""

    use: Literal["optimal-univariate"] = "optimal-univariate"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return optimal_univariate(self._column(X), self.k)
