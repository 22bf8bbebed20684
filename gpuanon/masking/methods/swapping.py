"""Methods that exchange values between records: every column keeps exactly its values."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.masking.bases.linear import Codes
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.plain_groups import EqualRows, Whole
from gpuanon.masking.methods.combination import ColumnChoice, Combination, K, Method
from gpuanon.masking.operations.rank_match import RankMatch
from gpuanon.masking.operations.rank_swap import ColumnSwap, Exchange, RankSwap, TargetedSwap


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
