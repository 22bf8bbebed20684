"""What every mask is: groups × basis × operation, freely combined or by the name of a published method."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from gpuanon.masking.contract import Part, Promise
from gpuanon.masking.groups import AnyGroups
from gpuanon.masking.operations import AnyOperation
from gpuanon.masking.views import AnyBasis, Identity

ColumnChoice: TypeAlias = Literal["quasi", "all"] | tuple[str, ...]
K = Annotated[int, Field(ge=2, description="records of a group, at least")]


class Combination(Part):
    """groups × basis × operation, freely combined."""

    groups: AnyGroups
    basis: AnyBasis = Identity()
    operation: AnyOperation
    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" or a list of names')
    metric: Literal["euclidean", "gower"] = Field(default="euclidean", description="how the groups measure distance")
    response_weight: float = Field(
        default=0.0, ge=0, description="weight of the sensitive columns in the grouping; they are not changed"
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        """Refuse a metric that the groups do not know, and what cannot be done with groups of single columns."""
        groups = self.groups
        if self.metric not in groups.metrics:
            raise ValueError(f"metric: {groups.use} groups know {', '.join(groups.metrics)} only, got {self.metric}")
        if groups.per_column and (self.basis.use, self.operation.use) != ("identity", "centroid"):
            raise ValueError(
                f"{groups.use} groups are those of each column by itself: basis identity and operation centroid are"
                f" allowed, got {self.basis.use} and {self.operation.use}"
            )
        if groups.per_column and self.response_weight:
            raise ValueError(
                f"response_weight: does not apply to {groups.use} groups, in which one column at a time takes part"
            )
        return self

    @property
    def promise(self) -> Promise:
        """What is verified on the release."""
        return "values" if self.groups.per_column else self.operation.promise

    @property
    def k(self) -> int | None:
        """The smallest group that the groups promise, or None."""
        return getattr(self.groups, "k", None)

    def combination(self) -> Combination:
        """Itself: a named method has the same function."""
        return self


class Method(Part):
    """A published method."""

    source: ClassVar[str]

    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" or a list of names')

    def combination(self) -> Combination:
        """The method's groups, basis and operation."""
        raise NotImplementedError
