"""Which rows may mix: the groupings, and the models that name them in recipes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.groups.models import (
    Blocks,
    FirstAxis,
    Fuzzy,
    KMember,
    Mdav,
    OptimalUnivariate,
    SpanningTree,
    Univariate,
    Whole,
)
from gpuanon.masking.groups.spectral import Spectral

AnyGroups: TypeAlias = Annotated[
    Whole
    | Blocks
    | KMember
    | Mdav
    | MedianCuts
    | Spectral
    | SpanningTree
    | Fuzzy
    | FirstAxis
    | Univariate
    | OptimalUnivariate,
    Field(discriminator="use"),
]
"""Any grouping of a recipe, told apart by ``use``."""

__all__ = [
    "AnyGroups",
    "Whole",
    "Blocks",
    "KMember",
    "Mdav",
    "MedianCuts",
    "Spectral",
    "SpanningTree",
    "Fuzzy",
    "FirstAxis",
    "Univariate",
    "OptimalUnivariate",
]
