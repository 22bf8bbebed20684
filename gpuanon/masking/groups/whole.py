"""All rows in one group."""

from __future__ import annotations

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition


def whole(X: Array) -> Partition:
    """One group that holds every row of `X`."""
    return Partition.whole(len(X), like=X)
