"""Classes: whole-number codes of the columns, equal for equal values."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Basis, Sight


class Codes(Basis):
    """Codes of the columns: rows are compared for equality, not by distance."""

    sees: ClassVar[Sight] = "classes"
    plain: ClassVar[bool] = True

    use: Literal["codes"] = "codes"

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        raise ParameterError("basis: codes have no coordinates", hint="operations that see points need another basis")
