"""Along which axes: the bases, and the union of their models for recipes."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.masking.views.codes import Codes
from gpuanon.masking.views.ica import Ica
from gpuanon.masking.views.identity import Identity
from gpuanon.masking.views.kernel import KernelBasis
from gpuanon.masking.views.normal_scores import NormalScores
from gpuanon.masking.views.svd import Svd
from gpuanon.masking.views.tca import Tca

AnyBasis: TypeAlias = Annotated[
    Identity | Svd | Ica | Tca | NormalScores | KernelBasis | Codes, Field(discriminator="use")
]
"""Any basis of a recipe; ``use`` names it."""

__all__ = ["AnyBasis", "Identity", "Svd", "Ica", "Tca", "NormalScores", "KernelBasis", "Codes"]
