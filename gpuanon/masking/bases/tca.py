"""Tree-dependent components: axes along which a tree of links describes what the coordinates have in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases.linear import LinearBasis
from gpuanon.masking.bases.tree_components import tree_axes
from gpuanon.numerics.ica import independent_axes, whitening
from gpuanon.numerics.lockstep import Affine


class Tca(LinearBasis):
    """Components that are independent but for a tree of links (Bach and Jordan 2003; Lasko 2007, 6.3).

    A local search from the independent components, on up to 512 rows of a group.  Meant for `tree-swap`, which keeps
    the links of the tree; an independent swap loses them in this basis as in any other.
    """

    use: Literal["tca"] = "tca"
    iterations: int = Field(default=20, ge=1, description="of FastICA, whose components are the start")
    sweeps: int = Field(default=3, ge=1, le=20, description="over all planes of two axes")

    def coordinates(self, X: Array, parts: Partition) -> tuple[Array, Callable[[Array], Array]]:
        xp = namespace(X)
        axes, W = independent_axes(X, parts, self.iterations, smallest=self.tolerance)
        white = whitening(axes, parts)
        sources = Affine(white @ W.transpose(0, 2, 1), before=axes.means)(X, parts)
        W = tree_axes(sources, parts, axes.s > 0, self.sweeps) @ W
        root = xp.sqrt(parts.sizes.astype(axes.s.dtype))[:, None]
        unmix = Affine(white @ W.transpose(0, 2, 1), before=axes.means)
        mix = Affine(W @ ((axes.s / root)[:, :, None] * axes.V.transpose(0, 2, 1)), after=axes.means)
        return unmix(X, parts), lambda T: mix(T, parts)
