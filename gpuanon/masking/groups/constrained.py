"""Base of the models of groups that can be held to ℓ-diversity and t-closeness."""

from __future__ import annotations

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.masking.constraints import Constraint, Sensitive, unite_failing
from gpuanon.masking.contract import Groups


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
