"""Groupings: which rows may mix.  Each file has the function and its model, named in recipes by ``use``."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.masking.groups.blocks import Blocks
from gpuanon.masking.groups.boxes import Boxes
from gpuanon.masking.groups.classes import Classes
from gpuanon.masking.groups.constrained_kmeans import ConstrainedKMeans
from gpuanon.masking.groups.first_axis import FirstAxis
from gpuanon.masking.groups.fuzzy import Fuzzy
from gpuanon.masking.groups.k_ward import KWard
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.mdav import Mdav
from gpuanon.masking.groups.median_cuts import MedianCuts
from gpuanon.masking.groups.spanning_tree import SpanningTree
from gpuanon.masking.groups.spectral import Spectral
from gpuanon.masking.groups.univariate import OptimalUnivariate, Univariate
from gpuanon.masking.groups.v_mdav import VMdav
from gpuanon.masking.groups.whole import Whole

AnyGroups: TypeAlias = Annotated[
    Whole
    | Blocks
    | KMember
    | Mdav
    | VMdav
    | KWard
    | ConstrainedKMeans
    | MedianCuts
    | Boxes
    | Spectral
    | SpanningTree
    | Fuzzy
    | FirstAxis
    | Univariate
    | OptimalUnivariate
    | Classes,
    Field(discriminator="use"),
]
"""Any grouping of a recipe; ``use`` names it."""

__all__ = [
    "AnyGroups",
    "Whole",
    "Blocks",
    "Boxes",
    "Classes",
    "KMember",
    "Mdav",
    "VMdav",
    "KWard",
    "ConstrainedKMeans",
    "MedianCuts",
    "Spectral",
    "SpanningTree",
    "Fuzzy",
    "FirstAxis",
    "Univariate",
    "OptimalUnivariate",
]
