"""Groupings by their names in recipes: frozen parameters that call the functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Groups, Placement
from gpuanon.masking.groups.blocks import blocks
from gpuanon.masking.groups.first_axis import first_axis
from gpuanon.masking.groups.fuzzy import fuzzy
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.lockstep import require_k_rows
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine import refine
from gpuanon.masking.groups.spanning_tree import spanning_tree
from gpuanon.masking.groups.univariate import optimal_univariate, univariate
from gpuanon.masking.groups.whole import whole
from gpuanon.numerics.distance import EUCLIDEAN, Metric

LEAST_BLOCK = 8
"""Groups that a block holds at least: where k is large the block grows with it."""


class Whole(Groups):
    """All rows in one group."""

    placement: ClassVar[Placement] = "random"

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


class _InBlocks(Groups):
    """Groups of at least k near rows, formed inside blocks."""

    k: int = Field(ge=2)
    block: int = Field(default=1024, ge=0, description="most rows in a block; 0: the whole table at once")

    def _form(self, X: Array, metric: Metric, group: Callable[..., Partition]) -> Partition:
        parts = whole(X)
        require_k_rows(parts, self.k)
        if self.block:
            with stage("blocks"):
                parts = blocks(X, parts, max(self.block, LEAST_BLOCK * self.k), metric, multiple=self.k)
        with stage("groups"):
            return group(X, parts, self.k, metric=metric)


class _Refined(Groups):
    """Groups of at least k rows that exchange rows afterwards, across the borders of blocks too."""

    k: int = Field(ge=2)
    refine: bool = True

    def _refined(self, X: Array, metric: Metric, groups: Partition) -> Partition:
        if not self.refine:
            return groups
        with stage("refinement"):
            return refine(X, groups, self.k, metric)


class KMember(_InBlocks, _Refined):
    """Greedy k-member clustering under Euclidean or Gower distortion (Byun et al. 2007)."""

    use: Literal["k-member"] = "k-member"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, kmember))


class Mdav(_InBlocks, _Refined):
    """Maximum Distance to Average Vector, the standard microaggregation heuristic (Domingo-Ferrer, Torra 2005)."""

    use: Literal["mdav"] = "mdav"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, mdav))


class SpanningTree(_InBlocks, _Refined):
    """Minimum spanning trees whose long edges are removed (Laszlo, Mukherjee 2005)."""

    host_only: ClassVar[bool] = True

    use: Literal["spanning-tree"] = "spanning-tree"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, spanning_tree))


class Fuzzy(_InBlocks):
    """Fuzzy c-means; every row joins a cluster with the probability of its membership (Torra, Miyamoto 2004).

    Not refined: exchanges that lower the distortion would undo the draws.
    """

    host_only: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["fuzzy"] = "fuzzy"
    fuzziness: float = Field(default=1.2, gt=1, description="the nearer to 1, the crisper")

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        def group(X: Array, parts: Partition, k: int, metric: Metric) -> Partition:
            return fuzzy(X, parts, k, draws, metric, fuzziness=self.fuzziness)

        return self._form(X, metric, group)


class FirstAxis(_Refined):
    """Every k neighbours along the first principal axis of all rows (Lasko 2007, ch. 2)."""

    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    use: Literal["first-axis"] = "first-axis"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        with stage("groups"):
            groups = first_axis(X, self.k, metric)
        return self._refined(X, metric, groups)


class _OneColumn(Groups):
    """Groups of one column: those of several columns are formed, and masked, one after another.

    Such a release is not k-anonymous over several columns: in each by itself, k records or more share every value.
    """

    per_column: ClassVar[bool] = True
    metrics: ClassVar[tuple[Literal["euclidean", "gower"], ...]] = ("euclidean",)

    k: int = Field(ge=2)


class Univariate(_OneColumn):
    """Every k neighbours of each sorted column by itself (individual ranking): k share a value, not a combination."""

    use: Literal["univariate"] = "univariate"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return univariate(X, self.k)


class OptimalUnivariate(_OneColumn):
    """The same with the groups of least squared error there are in each column (Hansen, Mukherjee 2003).

    A run in parts finds the best groups of each cell.
    """

    use: Literal["optimal-univariate"] = "optimal-univariate"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return optimal_univariate(X, self.k)
