"""Operations: what is done to the records of a group, along the axes of a basis."""

from __future__ import annotations

from typing import Annotated, TypeAlias

from pydantic import Field

from gpuanon.operations.centroid import Centroid
from gpuanon.operations.dither import Dither
from gpuanon.operations.noise import Noise
from gpuanon.operations.permute import Permute
from gpuanon.operations.resample import Resample
from gpuanon.operations.swap import Swap
from gpuanon.operations.tree_swap import TreeSwap

AnyOperation: TypeAlias = Annotated[
    Centroid | Resample | Permute | Dither | Swap | TreeSwap | Noise, Field(discriminator="use")
]
"""Any operation of a recipe, told apart by ``use``."""

__all__ = ["AnyOperation", "Centroid", "Dither", "Noise", "Permute", "Resample", "Swap", "TreeSwap"]
