"""What original and release need so that they can be compared."""

from __future__ import annotations

from gpuanon.arrays.backend import Array
from gpuanon.errors import ParameterError


def require_comparable(original: Array, release: Array) -> None:
    """Both tables need the same columns and at least one row."""
    if original.ndim != 2 or release.ndim != 2 or original.shape[1] != release.shape[1]:
        raise ParameterError("columns: original and release need the same ones")
    if len(original) == 0 or len(release) == 0:
        raise ParameterError("rows: original and release need at least one each")
