"""The columns as they are: encoded, or as codes of their values."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Basis, Sight


class Identity(Basis):
    """The encoded columns themselves."""

    plain: ClassVar[bool] = True
    categories: ClassVar[Literal["balanced", "indicator"]] = "balanced"

    use: Literal["identity"] = "identity"

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        return X, lambda T: T


class Codes(Basis):
    """Codes of the columns: rows are compared for equality, not by distance."""

    sees: ClassVar[Sight] = "classes"
    plain: ClassVar[bool] = True

    use: Literal["codes"] = "codes"

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        raise ParameterError("basis: codes have no coordinates", hint="operations that see points need another basis")
