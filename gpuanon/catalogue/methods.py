"""The catalogue: each published combination of groups × basis × operation, with its name, parameters and source.

A named method is a frozen model that turns its parameters into a `Combination`; the parts know nothing of it.
A recipe may also hold a `Combination` itself.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import Discriminator, Field, Tag

from gpuanon.bases import AnyBasis, Ica, Identity, Svd
from gpuanon.groups import AnyGroups, KMember, Mdav, MedianCuts, Spectral, Whole
from gpuanon.operations import AnyOperation, Centroid, Dither, Noise, Permute, Resample, Swap
from gpuanon.parts import Part

ColumnChoice: TypeAlias = Literal["quasi", "all"] | tuple[str, ...]


class Combination(Part):
    """groups × basis × operation, freely combined."""

    groups: AnyGroups
    basis: AnyBasis = Identity()
    operation: AnyOperation
    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" (quasi and sensitive) or a list of names')
    metric: Literal["euclidean", "gower"] = Field(default="euclidean", description="how the groups measure distance")
    response_weight: float = Field(default=0.0, ge=0, description="weight of the sensitive columns in the grouping; they are not changed")

    @property
    def k(self) -> int | None:
        """The smallest group that the groups promise, or None."""
        return getattr(self.groups, "k", None)

    def combination(self) -> Combination:
        return self


class Method(Part):
    """A published method."""

    source: ClassVar[str]

    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" (quasi and sensitive) or a list of names')

    def combination(self) -> Combination:
        """The method's groups, basis and operation."""
        raise NotImplementedError


class Microaggregation(Method):
    """Groups of at least k similar records; each record receives its group's centre."""

    source: ClassVar[str] = "Domingo-Ferrer and Torra 2005; Byun et al. 2007; Lasko 2007, ch. 2"

    method: Literal["microaggregation"] = "microaggregation"
    k: int = Field(ge=2)
    groups: Literal["mdav", "k-member"] = "mdav"
    refine: bool = True
    block: int = Field(default=1024, ge=0, description="rows of a spatial block; 0: the whole table at once, as published")
    centre: Literal["mean", "median"] = "mean"
    metric: Literal["euclidean", "gower"] = "euclidean"

    def combination(self) -> Combination:
        groups = Mdav if self.groups == "mdav" else KMember
        return Combination(
            groups=groups(k=self.k, block=self.block, refine=self.refine),
            operation=Centroid(centre=self.centre),
            columns=self.columns,
            metric=self.metric,
        )
