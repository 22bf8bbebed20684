"""Bases of straight axes: axes of each group or of the table, and the inverse, with the marginals on request."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import Field

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.masking.bases.marginals import restore_marginals
from gpuanon.masking.contract import Basis
from gpuanon.numerics.svd import TOLERANCE


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
