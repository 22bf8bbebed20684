"""Methods that draw new rows, or new values of some columns, from a model of the table."""

from __future__ import annotations

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpuanon.masking.bases.linear import Codes, Svd
from gpuanon.masking.bases.normal_scores import NormalScores
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.plain_groups import Whole
from gpuanon.masking.methods.combination import ColumnChoice, Combination, K, Method
from gpuanon.masking.operations.column_chain.pooled_table import RARE, Rare
from gpuanon.masking.operations.column_chain.rules import Rules
from gpuanon.masking.operations.graphical_table import BINS, Group, TableSample
from gpuanon.masking.operations.maximum_entropy import MOMENTS, LargestEntropy, MomentNames, check_moments
from gpuanon.masking.operations.rank_match import LatinHypercube
from gpuanon.masking.operations.sample import Condense, Sample
from gpuanon.masking.operations.sequential import LEAF, PartlySynthetic, Sequential


class _Synthesis(Method):
    """Methods that mask all columns by default."""

    columns: ColumnChoice = Field(default="all", description='"quasi", "all" or a list of names')
    copies: int = Field(
        default=1, ge=1, le=1000, description="of the release, in one table with a column 'copy': multiple imputation"
    )

    @property
    def _released(self) -> dict[str, Any]:
        """What all synthesis hands on."""
        return {"columns": self.columns, "copies": self.copies}


class UnivariateSynthesis(_Synthesis):
    """New rows, each column by itself: numbers from a piecewise uniform density, categories by their shares."""

    source: ClassVar[str] = "Lasko 2007, ch. 2"

    method: Literal["univariate-synthesis"] = "univariate-synthesis"

    def combination(self) -> Combination:
        operation = Sample(correlated=False)
        return Combination(groups=Whole(), basis=NormalScores(), operation=operation, **self._released)


class HypercubeSynthesis(_Synthesis):
    """New rows by Latin hypercube sampling: each value of a column once, rank correlations as in the table."""

    source: ClassVar[str] = "Iman and Conover 1982; Lasko 2007, eq. 2.12–2.13"

    method: Literal["latin-hypercube"] = "latin-hypercube"

    def combination(self) -> Combination:
        return Combination(groups=Whole(), basis=Codes(), operation=LatinHypercube(), **self._released)


class TableSynthesis(_Synthesis):
    """New rows from a graphical model: tables of a few columns each, linked by those they share; numbers in bins.

    Copies no value of fewer than `rare` records; invents every combination, from cells of 15 records or more.
    Census, ten columns: a member of the table lies nearer to the release than somebody else with a chance of 0.52
    (0.5 is none; `bench/studies/acs.md`).  Any number of columns.  Rows that equal a unique record stand as often as
    without that record, and pairs of values that never occur together, although chance would put them together, do
    not stand.
    """

    source: ClassVar[str] = "Chow and Liu 1968; Lauritzen 1996; Reiss 1984; Lasko 2007, ch. 2"

    method: Literal["table-synthesis"] = "table-synthesis"
    margins: tuple[tuple[str, ...], ...] = Field(
        default=(), description="sets of columns whose tables are kept, up to the draw, beside those that are found"
    )
    group: Group = "auto"
    bins: int = Field(default=BINS, ge=2, description="of equal counts, of a number with more values")
    even: bool = Field(default=True, description="draw the records of a cell equally often, with less error")
    rare: Rare = RARE
    rules: Rules = ()

    @model_validator(mode="after")
    def _applies(self) -> Self:
        """Refuse copies that would not vary as they should."""
        if self.copies > 1 and self.even:
            raise ValueError("even: values drawn equally often vary less than copies should; give even = false")
        return self

    def combination(self) -> Combination:
        operation = TableSample(
            margins=self.margins, group=self.group, bins=self.bins, even=self.even, rare=self.rare, rules=self.rules
        )
        return Combination(groups=Whole(), basis=Codes(), operation=operation, **self._released)


class MaximumEntropySynthesis(_Synthesis):
    """New rows from the distribution of largest entropy with the table's moments, inside the columns' ranges.

    All moments up to a degree, or those that are named.
    """

    source: ClassVar[str] = "Jaynes 1957; Lasko 2007, ch. 2"

    method: Literal["maximum-entropy"] = "maximum-entropy"
    degree: int = Field(default=2, ge=2, le=4, description="highest power of a column whose mean is kept")
    moments: MomentNames = MOMENTS

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        """Refuse a degree that would do nothing."""
        check_moments(self.moments, self.degree)
        return self

    def combination(self) -> Combination:
        operation = LargestEntropy(degree=self.degree, moments=self.moments)
        return Combination(groups=Whole(), operation=operation, **self._released)


class ClusteredSynthesis(_Synthesis):
    """New rows with the mean and covariance of groups of at least k similar records (condensation)."""

    source: ClassVar[str] = "Aggarwal and Yu 2004; Lasko 2007, ch. 2"

    method: Literal["clustered-synthesis"] = "clustered-synthesis"
    k: K
    block: int = Field(default=1024, ge=0, description="rows of a spatial block; 0: the whole table at once")

    def combination(self) -> Combination:
        groups = KMember(k=self.k, block=self.block)
        return Combination(groups=groups, basis=Svd(per_group=True), operation=Condense(), **self._released)


class SequentialSynthesis(_Synthesis):
    """Columns drawn one after another, given those before: all rows drawn, or chosen columns and rows of the table.

    Copies no value of fewer than `rare` records; invents every combination, from leaves of about 40 records.  Census,
    ten and 21 columns: a member of the table lies nearer to the release than somebody else with a chance of 0.52 (0.5
    is none; `bench/studies/acs.md`).  A drawn row may equal a record: it stands as often as a model without that
    record would have made it.  With `given`, `below` or `chosen` records are kept, and their masked columns drawn
    anew (partly synthetic data).
    """

    source: ClassVar[str] = "Nowok, Raab and Dibben 2016; Reiter 2003, 2005; Kulik 2025"

    method: Literal["sequential-synthesis"] = "sequential-synthesis"
    model: Literal["cart", "parametric", "mixture"] = Field(
        default="cart",
        description="cart: values of the leaf of a tree; parametric: regressions; mixture: each row by one of both",
    )
    leaf: int = Field(default=LEAF, ge=1, description="cart: records of a leaf, about")
    proper: bool = Field(default=False, description="fit to a bootstrap sample, for the combination of several copies")
    even: bool = Field(default=True, description="cart: draw the records of a leaf equally often, with less error")
    rare: Rare = RARE
    rules: Rules = ()
    given: tuple[str, ...] = Field(default=(), description="columns that stay; the others are drawn given them")
    below: int | None = Field(
        default=None, ge=2, description="only records with fewer equals on the masked columns, themselves included"
    )
    chosen: str | None = Field(
        default=None, description="only records that this column marks: true or false, or 0 or 1; it is not masked"
    )

    @model_validator(mode="after")
    def _applies(self) -> Self:
        """Refuse copies of models that would not vary as they should."""
        if (self.proper or self.copies > 1) and self.even and self.model != "parametric":
            raise ValueError("even: values drawn equally often vary less than copies should; give even = false")
        return self

    def combination(self) -> Combination:
        settings: dict[str, Any] = {
            "model": self.model,
            "leaf": self.leaf,
            "proper": self.proper,
            "even": self.even,
            "rare": self.rare,
            "rules": self.rules,
        }
        operation: Sequential | PartlySynthetic = Sequential(**settings)
        if self.given or self.below is not None or self.chosen is not None:
            operation = PartlySynthetic(**settings, below=self.below, chosen=self.chosen)
        marks = () if self.chosen is None or self.chosen in self.given else (self.chosen,)
        by = (*self.given, *marks)
        return Combination(groups=Whole(), basis=Codes(), operation=operation, by=by, **self._released)
