"""Principal components: coordinates T = U D, the axes of largest variance, uncorrelated in the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases.linear import LinearBasis
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.svd import TOLERANCE, principal_axes


def svd_coordinates(X: Array, parts: Partition, tolerance: float = TOLERANCE) -> tuple[Array, Callable[[Array], Array]]:
    """Coordinates ``T = (X − mean) V`` (n, c) of each part's rows along its own axes, and the inverse.

    Columns of T are uncorrelated within a part and ordered by variance.  Axes whose singular value is below `tolerance`
    of the part's largest are dropped: their coordinates are zero and the inverse puts the part's mean there.
    Wide data (more columns than rows) have at most as many axes as rows.
    """
    axes = principal_axes(X, parts, tolerance)
    forward = Affine(axes.V, before=axes.means)
    backward = Affine(axes.V.transpose(0, 2, 1), after=axes.means)
    return forward(X, parts), lambda T: backward(T, parts)


class Svd(LinearBasis):
    """Singular value decomposition of the centred rows (Lasko 2007, ch. 4)."""

    use: Literal["svd"] = "svd"

    def coordinates(self, X: Array, parts: Partition) -> tuple[Array, Callable[[Array], Array]]:
        return svd_coordinates(X, parts, self.tolerance)
