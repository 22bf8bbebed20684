"""Methods that exchange between records the values of columns, or of principal or independent components."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from gpuanon.masking.bases.linear import Codes, Ica, Svd
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.plain_groups import EqualRows, Whole
from gpuanon.masking.groups.spectral_clusters import Spectral
from gpuanon.masking.methods.combination import ColumnChoice, Combination, Decoding, K, Method
from gpuanon.masking.operations.rank_match import RankMatch
from gpuanon.masking.operations.rank_swap import ColumnSwap, Exchange, RankSwap, TargetedSwap
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


class RankSwapping(Method):
    """Records whose ranks in a column differ by little exchange their values there, column by column."""

    source: ClassVar[str] = "Moore 1996; Lasko 2007, ch. 2"

    method: Literal["rank-swap"] = "rank-swap"
    window: float = Field(default=5.0, gt=0, le=100, description="largest difference of ranks, in percent of the rows")

    def combination(self) -> Combination:
        return Combination(groups=Whole(), basis=Codes(), operation=RankSwap(window=self.window), columns=self.columns)


class ColumnSwapping(Method):
    """Records are divided into random subsets, and sorted columns are exchanged between them."""

    source: ClassVar[str] = "Carlson and Salabasis 2002; Lasko 2007, ch. 2"

    method: Literal["column-swap"] = "column-swap"
    subsets: int = Field(default=10, ge=2, description="random subsets between which sorted columns are exchanged")

    def combination(self) -> Combination:
        return Combination(
            groups=Whole(), basis=Codes(), operation=ColumnSwap(subsets=self.subsets), columns=self.columns
        )


class CoreSwap(Method):
    """Values of each column are permuted among records that are equal on core columns.

    Every table of the core columns and one other is kept exactly.
    """

    source: ClassVar[str] = "Reiss 1984; Dalenius and Reiss 1982; Lasko 2007, ch. 2"

    method: Literal["core-swap"] = "core-swap"
    core: tuple[str, ...] = Field(min_length=1, description="columns that stay as they are")
    together: bool = Field(default=False, description="all columns by one permutation, instead of each by its own")

    def combination(self) -> Combination:
        return Combination(
            groups=EqualRows(),
            basis=Codes(),
            operation=Exchange(together=self.together),
            columns=self.columns,
            by=self.core,
        )


class ClusterSwap(Method):
    """Values of each column are permuted inside groups of at least k similar records."""

    source: ClassVar[str] = "Lasko 2007, ch. 2"

    method: Literal["cluster-swap"] = "cluster-swap"
    k: K
    block: int = Field(default=1024, ge=0, description="rows of a spatial block; 0: the whole table at once")

    def combination(self) -> Combination:
        return Combination(
            groups=KMember(k=self.k, block=self.block), basis=Codes(), operation=Exchange(), columns=self.columns
        )


class TargetedSwapping(Method):
    """Records that are rare among those equal on `match` exchange the masked columns with one that has others there.

    The masked columns are, as a rule, a geographic key.
    """

    source: ClassVar[str] = "Zayatz 2007; Lasko 2007, ch. 2"

    method: Literal["targeted-swap"] = "targeted-swap"
    columns: ColumnChoice = Field(description="the key that is exchanged: a list of names")
    match: tuple[str, ...] = Field(
        min_length=1, description="columns on which the two records of an exchange are equal"
    )
    below: int = Field(default=2, ge=2, description="records with fewer equals, themselves included, are at risk")
    rate: float = Field(default=0.0, ge=0, le=1, description="share of records that exchange, at least")

    def combination(self) -> Combination:
        return Combination(
            groups=EqualRows(),
            basis=Codes(),
            operation=TargetedSwap(below=self.below, rate=self.rate),
            columns=self.columns,
            by=self.match,
        )


class DataShuffle(Method):
    """Each column keeps its values in the order of new normal columns, correlated as the table's are."""

    source: ClassVar[str] = "Muralidhar and Sarathy 2006; Lasko 2007, ch. 2 and 4"

    method: Literal["data-shuffle"] = "data-shuffle"
    columns: ColumnChoice = Field(default="all", description='"quasi", "all" or a list of names')
    given: tuple[str, ...] = Field(
        default=(), description="columns that stay, and whose rank correlations are kept too"
    )

    def combination(self) -> Combination:
        return Combination(groups=Whole(), basis=Codes(), operation=RankMatch(), columns=self.columns, by=self.given)
