"""Along which axes: the bases, and the union of their models for recipes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.bases.ica import Ica
from gpuanon.bases.identity import Identity
from gpuanon.bases.kernel import KernelBasis
from gpuanon.bases.normal_scores import NormalScores
from gpuanon.bases.svd import Svd

AnyBasis: TypeAlias = Annotated[Identity | Svd | Ica | NormalScores | KernelBasis, Field(discriminator="use")]
"""Any basis of a recipe, told apart by ``use``."""

__all__ = ["AnyBasis", "Identity", "Svd", "Ica", "NormalScores", "KernelBasis"]
