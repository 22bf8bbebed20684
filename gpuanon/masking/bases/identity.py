"""The columns as they are."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.masking.contract import Basis


class Identity(Basis):
    """The encoded columns themselves."""

    plain: ClassVar[bool] = True
    categories: ClassVar[Literal["balanced", "indicator"]] = "balanced"

    use: Literal["identity"] = "identity"

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        return X, lambda T: T
