"""Bases of the models of groupings: groups formed inside blocks, and groups refined afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.masking.constraints import Constraint, Sensitive, unite_failing
from gpuanon.masking.contract import Groups
from gpuanon.masking.groups.batched import require_k_rows
from gpuanon.masking.groups.plain_groups import whole
from gpuanon.masking.groups.refine.refine import EFFORT, FAST_BLOCK, Effort, refine
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.metric import Metric


class Constrained(Groups):
    """Groups that are united with their neighbours until each meets a constraint on its sensitive values."""

    diversity: int | None = Field(
        default=None, ge=2, description="different values of each sensitive column in a group, at least"
    )
    closeness: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="distance of a group's sensitive values from the whole table's, at most (earth mover's distance)",
    )

    @property
    def constraint(self) -> Constraint | None:
        return Constraint.given(self.diversity, self.closeness)

    def constrain(self, groups: Partition, X: Array, sensitive: Sensitive) -> Partition:
        assert self.constraint is not None
        with stage("constraint"):
            return unite_failing(groups, X, sensitive, self.constraint)


_FEWEST_GROUPS = 8
"""Groups per block, at least: a large k makes the blocks larger."""


class InBlocks(Constrained):
    """Groups of at least k near rows, formed inside blocks."""

    k: int = Field(ge=2)
    block: int = Field(default=1024, ge=0, description="most rows in a block; 0: the whole table at once")

    def _form(self, X: Array, metric: Metric, group: Callable[..., Partition]) -> Partition:
        """Cut the rows into blocks and apply `group` to them."""
        parts = whole(X)
        require_k_rows(parts, self.k)
        if self.block:
            with stage("blocks"):
                parts = blocks(X, parts, max(self.block, _FEWEST_GROUPS * self.k), metric, multiple=self.k)
        with stage("groups"):
            return group(X, parts, self.k, metric=metric)


class Refined(Constrained):
    """Groups of at least k rows that exchange rows afterwards, across block borders too."""

    k: int = Field(ge=2)
    refine: bool = True
    effort: Effort = Field(default="normal", description=EFFORT)

    @model_validator(mode="after")
    def _effort_is_used(self) -> Self:
        """Refuse an effort for groups that are not refined."""
        if not self.refine and self.effort != "normal":
            raise ValueError(f"effort: applies to groups that are refined, got {self.effort!r} with refine = false")
        return self

    def _refined(self, X: Array, metric: Metric, groups: Partition) -> Partition:
        """Refine the groups, unless `refine` is off."""
        if not self.refine:
            return groups
        with stage("refinement"):
            return refine(X, groups, self.k, metric, effort=self.effort)


def with_usual_block(data: Any) -> Any:
    """The parameters `data` with the block of the fast effort, if no other is given."""
    fast = isinstance(data, dict) and data.get("effort") == "fast"
    return {**data, "block": FAST_BLOCK} if fast and data.get("block") is None else data


class RefinedInBlocks(InBlocks, Refined):
    """Groups formed inside blocks and refined afterwards, with larger blocks where they are refined for less long."""

    block: int = Field(
        default=1024,
        ge=0,
        description="most rows in a block, 2048 with effort = fast; 0: the whole table at once",
    )

    @model_validator(mode="before")
    @classmethod
    def _usual_block(cls, data: Any) -> Any:
        return with_usual_block(data)
