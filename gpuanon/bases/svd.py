"""Principal components: coordinates T = U D, the axes of largest variance, uncorrelated in the data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.bases.marginals import restore_marginals
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.svd import TOLERANCE, principal_axes
from gpuanon.parts import Basis


def svd_coordinates(X: Array, parts: Partition, tolerance: float = TOLERANCE) -> tuple[Array, Callable[[Array], Array]]:
    """Coordinates ``T = (X − mean) V`` (n, c) of each part's rows along its own axes, and the way back.

    Columns of T are uncorrelated within a part and ordered by variance.  Axes whose singular value is below `tolerance`
    of the part's largest are dropped: their coordinates are zero and the way back puts the part's mean there.
    Wide data (more columns than rows) have at most as many axes as rows.
    """
    axes = principal_axes(X, parts, tolerance)
    forward = Affine(axes.V, before=axes.means)
    backward = Affine(axes.V.transpose(0, 2, 1), after=axes.means)
    return forward(X, parts), lambda T: backward(T, parts)


class Svd(Basis):
    """Singular value decomposition of the centred rows (Lasko 2007, ch. 4)."""

    use: Literal["svd"] = "svd"
    per_group: bool = Field(default=False, description="axes of each group, instead of one set for the table")
    tolerance: float = Field(
        default=TOLERANCE, gt=1e-8, lt=1, description="axes below this share of the largest are dropped"
    )
    marginals: bool = Field(default=False, description="lead back to exactly the values of each column, by their ranks")

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        parts = groups if self.per_group else Partition.whole(len(X), X)
        T, back = svd_coordinates(X, parts, self.tolerance)
        if not self.marginals:
            return T, back
        return T, lambda swapped: restore_marginals(back(swapped), X, parts)
