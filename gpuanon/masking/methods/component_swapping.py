"""Methods that permute principal or independent components, in the whole table or in spectral clusters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from gpuanon.masking.bases.linear import Ica, Svd
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.methods.combination import Combination, Decoding, Method
from gpuanon.masking.operations.swap import Swap

Marginals = Annotated[
    bool, Field(description="release exactly the values of each column, by their ranks, not together as they were")
]
Block = Annotated[int, Field(ge=0, description="rows of a spatial block; 0: the whole table at once, as published")]


Target: TypeAlias = Annotated[
    Annotated[int, Field(ge=2)] | Literal["auto"],
    Field(description='records of a cluster; "auto": the smallest that meets the reference standard'),
]


TARGETS = (50, 75, 100, 125, 150, 200, 250, 300, 400, 500, 650, 800, 1000, 1500, 2000, 3000, 5000)
"""Cluster sizes that ``target = "auto"`` chooses from."""


class _Clustered(Method):
    """Methods that work inside clusters of a target size."""

    target: Target = 200
    marginals: Marginals = False
    decoding: Decoding = "nearest"

    def alternatives(self, rows: int) -> Mapping[int, Method]:
        """For ``target = "auto"``: this method with every target that leaves at least two clusters."""
        if self.target != "auto":
            return {}
        sizes = [size for size in TARGETS if size <= rows // 2] or [max(2, rows // 2)]
        return {size: self.model_copy(update={"target": size}) for size in sizes}

    @property
    def size(self) -> int:
        """The target; of an automatic one the smallest, which tells the columns and the parts, not the groups."""
        return TARGETS[0] if self.target == "auto" else self.target


class SvdSwap(Method):
    """Every principal component is permuted on its own."""

    source: ClassVar[str] = "Lasko 2007, fig. 4-1"

    method: Literal["svd-swap"] = "svd-swap"
    tol: float | None = Field(
        default=None,
        gt=0,
        lt=1,
        description="largest correlation of two swapped components; none: 0.05, and with orthonormal no limit.  Tables"
        " of few records and many columns cannot meet a small one",
    )
    orthonormal: bool = Field(
        default=False, description="turn the swapped components so that the covariance is kept to rounding"
    )
    marginals: Marginals = False
    decoding: Decoding = "nearest"

    def combination(self) -> Combination:
        tol = 0.05 if self.tol is None and not self.orthonormal else self.tol
        return Combination(
            groups=Whole(),
            basis=Svd(marginals=self.marginals),
            operation=Swap(tol=tol, orthonormal=self.orthonormal),
            columns=self.columns,
            decoding=self.decoding,
        )


class Pica(_Clustered):
    """Partitioned ICA swapping: independent components, permuted inside spectral clusters."""

    source: ClassVar[str] = "Lasko 2007, fig. 5-1"

    method: Literal["pica"] = "pica"
    block: Block = 2048
    sigma: float | None = Field(default=None, gt=0, description="width of the affinity; none: the median distance")

    def combination(self) -> Combination:
        groups = Spectral(target=self.size, block=self.block, sigma=self.sigma)
        return Combination(
            groups=groups,
            basis=Ica(per_group=True, marginals=self.marginals),
            operation=Swap(),
            columns=self.columns,
            decoding=self.decoding,
        )


class ClusteredSwap(_Clustered):
    """Components permuted inside spectral clusters, then turned so that each cluster keeps its covariance."""

    source: ClassVar[str] = "ours, past Lasko 2007, ch. 5: bench/studies/spectral.md"

    method: Literal["clustered-swap"] = "clustered-swap"
    target: Target = 250
    basis: Literal["ica", "svd"] = Field(
        default="ica", description="svd wants smaller clusters (150) and loses rare levels"
    )
    orthonormal: bool = Field(default=True, description="keep the covariance of each cluster to rounding")
    block: Block = 2048
    sigma: float | None = Field(default=None, gt=0, description="width of the affinity; none: the median distance")

    def combination(self) -> Combination:
        return Combination(
            groups=Spectral(target=self.size, block=self.block, sigma=self.sigma),
            basis=(Ica if self.basis == "ica" else Svd)(per_group=True, marginals=self.marginals),
            operation=Swap(orthonormal=self.orthonormal),
            columns=self.columns,
            decoding=self.decoding,
        )
