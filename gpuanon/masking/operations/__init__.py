"""Operations: what is done to the records of a group, along the axes of a basis."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.masking.operations.centroid import Centroid
from gpuanon.masking.operations.dither import Dither
from gpuanon.masking.operations.noise import Noise
from gpuanon.masking.operations.permute import Permute
from gpuanon.masking.operations.resample import Resample
from gpuanon.masking.operations.swap import Swap
from gpuanon.masking.operations.tree_swap import TreeSwap

AnyOperation: TypeAlias = Annotated[
    Centroid | Resample | Permute | Dither | Swap | TreeSwap | Noise, Field(discriminator="use")
]
"""Any operation of a recipe, told apart by ``use``."""

__all__ = ["AnyOperation", "Centroid", "Dither", "Noise", "Permute", "Resample", "Swap", "TreeSwap"]
