"""Straight axes: the columns as they are, principal components (SVD) and independent components (ICA)."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.sorting import argsort_rows, sort_rows
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Basis, Sight
from gpuanon.numerics.ica import independent_axes, whitening
from gpuanon.numerics.lockstep import Affine, even_batches, gather, scatter
from gpuanon.numerics.svd import TOLERANCE, principal_axes


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


def restore_marginals(Y: Array, X: Array, parts: Partition) -> Array:
    """Give each column of `Y` (n, d), inside each part, the values of `X` in the order of its own.

    The smallest value of `Y` becomes the smallest of `X`, and so on; of equal values of `Y` the lower row receives the
    smaller.  A column that has only two values in its part stands for a category, which is decoded with the other
    indicators of its table column: ranks of one alone would separate them.  It is only shifted, so that as many rows as
    before lie above the middle.

    Real values are released this way, the extreme ones too, though not together with those they came with.
    """
    xp = namespace(Y)
    out = xp.empty_like(Y)

    def work(batch: Batch) -> None:
        values = xp.ascontiguousarray(gather(X, batch).transpose(0, 2, 1))
        image = xp.ascontiguousarray(gather(Y, batch).transpose(0, 2, 1))
        restored = _restored(values, image, batch.valid[:, None])
        scatter(restored.transpose(0, 2, 1), batch, out)

    each(work, even_batches(parts))
    return out


def _restored(values: Array, image: Array, valid: Array) -> Array:
    """(b, c, length) values in the order of their image."""
    xp = namespace(values)
    ordered = sort_rows(xp.where(valid, values, np.inf))
    order = argsort_rows(xp.where(valid, image, np.inf))
    ranked = _inverse(order, ordered)
    kinds = 1 + ((ordered[:, :, 1:] != ordered[:, :, :-1]) & valid[:, :, 1:]).sum(axis=2, keepdims=True)
    shifted = image + _shift(ordered, xp.take_along_axis(image, order, axis=2), valid)
    return xp.where(kinds == 2, shifted, ranked)


def _shift(ordered: Array, image: Array, valid: Array) -> Array:
    """(b, c, 1) what leaves as many of the ascending `image` above the middle of the two values as there were."""
    xp = namespace(ordered)
    rows = valid.sum(axis=2, keepdims=True)
    low, high = ordered[:, :, :1], xp.take_along_axis(ordered, rows - 1 + xp.zeros_like(ordered[:, :, :1], int), axis=2)
    below = ((ordered == low) & valid).sum(axis=2, keepdims=True)
    last = xp.take_along_axis(image, xp.maximum(below - 1, 0), axis=2)
    first = xp.take_along_axis(image, xp.minimum(below, rows - 1), axis=2)
    return 0.5 * (low + high) - 0.5 * (last + first)


def _inverse(order: Array, ordered: Array) -> Array:
    """(b, c, length) the k-th of `ordered` at the place `order[k]` of its line."""
    xp = namespace(order)
    b, c, length = order.shape
    out = xp.empty_like(ordered)
    out.reshape(b * c, length)[xp.arange(b * c)[:, None], order.reshape(b * c, length)] = ordered.reshape(b * c, length)
    return out


class LinearBasis(Basis):
    """Coordinates along straight axes."""

    per_group: bool = Field(default=False, description="axes of each group, instead of one set for the table")
    tolerance: float = Field(
        default=TOLERANCE, gt=1e-8, lt=1, description="axes below this share of the largest are dropped"
    )
    marginals: bool = Field(default=False, description="return exactly the values of each column, by their ranks")

    @property
    def gives_values(self) -> bool:
        return self.marginals

    def coordinates(self, X: Array, parts: Partition) -> tuple[Array, Callable[[Array], Array]]:
        """Coordinates (n, c) of the rows along the axes of their part, and the inverse."""
        raise NotImplementedError

    def forward(self, X: Array, groups: Partition) -> tuple[Array, Callable[[Array], Array]]:
        parts = groups if self.per_group else Partition.whole(len(X), X)
        T, back = self.coordinates(X, parts)
        if not self.marginals:
            return T, back
        return T, lambda changed: restore_marginals(back(changed), X, parts)


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
