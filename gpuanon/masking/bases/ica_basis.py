"""Independent components: axes along which the coordinates are as independent as FastICA can make them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases.linear import LinearBasis
from gpuanon.numerics.ica import independent_axes, whitening
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.svd import TOLERANCE


def ica_coordinates(
    X: Array, parts: Partition, iterations: int = 20, tolerance: float = TOLERANCE
) -> tuple[Array, Callable[[Array], Array]]:
    """Sources of unit variance (n, c) of each part's rows, and the inverse (Lasko 2007, fig. 5-1, line 8).

    Principal components below `tolerance` of the part's largest are dropped first; their coordinates are zero.
    """
    xp = namespace(X)
    axes, W = independent_axes(X, parts, iterations, smallest=tolerance)
    root = xp.sqrt(parts.sizes.astype(axes.s.dtype))[:, None]
    unmix = Affine(whitening(axes, parts) @ W.transpose(0, 2, 1), before=axes.means)
    mix = Affine(W @ ((axes.s / root)[:, :, None] * axes.V.transpose(0, 2, 1)), after=axes.means)
    # W Wᵀ = 1 on the axes that were kept: mixing undoes unmixing there.
    return unmix(X, parts), lambda T: mix(T, parts)


class Ica(LinearBasis):
    """Symmetric FastICA with the log cosh contrast (Lasko 2007, ch. 5; Hyvärinen et al. 2001)."""

    use: Literal["ica"] = "ica"
    iterations: int = Field(default=20, ge=1, description="at most; an axis that has not settled is no error")

    def coordinates(self, X: Array, parts: Partition) -> tuple[Array, Callable[[Array], Array]]:
        return ica_coordinates(X, parts, self.iterations, self.tolerance)
