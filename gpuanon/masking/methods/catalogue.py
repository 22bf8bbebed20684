"""The catalogue: each published combination of groups × basis × operation, with its name, parameters and source.

A named method is a frozen model that turns its parameters into a `Combination`; the parts know nothing of it.
A recipe may also hold a `Combination` itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import Discriminator, Field, Tag, model_validator

from gpuanon.masking.groups import KMember, MedianCuts, Spectral, Whole
from gpuanon.masking.methods.boxes import OptimalBoxes
from gpuanon.masking.methods.classes import (
    Copula,
    GlobalRecoding,
    LocalSuppression,
    PostRandomisation,
    RandomSuppression,
    SuppressRows,
    SyntheticRows,
)
from gpuanon.masking.methods.combination import Combination, ConstrainedMethod, Decoding, K, Method
from gpuanon.masking.methods.microaggregation import Microaggregation
from gpuanon.masking.methods.noise import AdditiveNoise
from gpuanon.masking.methods.swapping import (
    ClusterSwap,
    ColumnSwapping,
    CoreSwap,
    DataShuffle,
    RankSwapping,
    TargetedSwapping,
)
from gpuanon.masking.methods.synthesis import (
    ClusteredSynthesis,
    HypercubeSynthesis,
    MaximumEntropySynthesis,
    SequentialSynthesis,
    TableSynthesis,
    UnivariateSynthesis,
)
from gpuanon.masking.operations import Centroid, Dither, Interval, Permute, Resample, Swap
from gpuanon.masking.operations.dither import Precision, check_precision, check_strata
from gpuanon.masking.views import Ica, Svd

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


class DistributionPreserving(ConstrainedMethod):
    """Groups of at least k similar records; values are drawn so that their distribution is kept.

    Leave the response out of the grouping (`response_weight` 0), and take `permute` where predictions from the release
    matter most, those for subgroups above all, or the Gaussian dither where being found matters most.  Where every
    column has at most ten values or bins, `strata` give the Gaussian dither less bias and fewer hits, and disclose the
    response about as `permute` does.
    """

    source: ClassVar[str] = "Wei, Ramamurthy and Varshney 2018"

    method: Literal["distribution-preserving"] = "distribution-preserving"
    k: K
    dither: Literal["gaussian", "cell", "merged-cell", "resample", "permute"] = "gaussian"
    alpha: float = Field(default=1 / 3, ge=0, description="gaussian: variance added to each column")
    response_weight: float = Field(
        default=0.0,
        ge=0,
        description="weight of the sensitive columns in the grouping; the paper's 1 makes groups alike in them, which"
        " discloses them",
    )
    block: int | None = Field(
        default=None, ge=0, description="rows of a block; 0: the whole table, as published; none: grows with k"
    )
    order: Literal["auto", "fewest", "response", "given"] | tuple[int, ...] = Field(
        default="auto",
        description="of the columns, in the transformation: those first that have the fewest values, or that tell most"
        " of the sensitive columns (response); auto: response where there are sensitive columns that stay as they are",
    )
    bins: int | None = Field(
        default=None, ge=2, description="gaussian: bins of continuous columns, so that no real row is copied"
    )
    strata: int | None = Field(
        default=None,
        ge=2,
        le=100,
        description="gaussian: quantile strata of the first sensitive column with an order, inside which records are"
        " grouped and mixed: less bias of predictions; needs bins, at most 10, and attribute_disclosure beside it",
    )
    precision: Precision = Field(
        default="double",
        description="gaussian: of the distribution functions by which values are drawn; single is for GPUs with little"
        " float64.  Groups never depend on it",
    )

    @model_validator(mode="after")
    def _strata_fit(self) -> Self:
        """Refuse strata without coarse columns, and with constraints that want groups unlike in the response."""
        check_precision(self.dither, self.precision)
        if self.strata is None:
            return self
        check_strata(self.dither, self.bins)
        if self.diversity is not None or self.closeness is not None:
            raise ValueError("strata: make the groups alike in the response; diversity and closeness want the contrary")
        return self

    def combination(self) -> Combination:
        operation: Resample | Permute | Dither
        if self.dither == "resample":
            operation = Resample()
        elif self.dither == "permute":
            operation = Permute()
        else:
            operation = Dither(
                kind=self.dither, alpha=self.alpha, block=self.block, order=self.order, bins=self.bins,
                strata=self.strata, precision=self.precision,
            )  # fmt: skip
        return Combination(
            groups=KMember(k=self.k, **self.bounds, **({} if self.block is None else {"block": self.block})),
            operation=operation,
            columns=self.columns,
            response_weight=self.response_weight,
        )


class SvdSwap(Method):
    """Every principal component is permuted on its own."""

    source: ClassVar[str] = "Lasko 2007, fig. 4-1"

    method: Literal["svd-swap"] = "svd-swap"
    tol: float = Field(default=0.05, gt=0, description="largest correlation of two swapped components")
    orthonormal: bool = Field(
        default=False, description="turn the swapped components so that the covariance is kept to rounding"
    )
    decoding: Decoding = "nearest"

    def combination(self) -> Combination:
        operation = Swap(tol=self.tol, orthonormal=self.orthonormal)
        return Combination(
            groups=Whole(), basis=Svd(), operation=operation, columns=self.columns, decoding=self.decoding
        )


class Rhs(ConstrainedMethod):
    """Every column cut at its median at once; each record receives its group's mean.  Fails in high dimension."""

    source: ClassVar[str] = "Lasko 2007, ch. 4"

    method: Literal["rhs"] = "rhs"
    k: K

    def combination(self) -> Combination:
        return Combination(
            groups=MedianCuts(k=self.k, columns="all", **self.bounds), operation=Centroid(), columns=self.columns
        )


class SpectralRhs(ConstrainedMethod):
    """Median cuts of the widest principal component; each record receives its group's mean."""

    source: ClassVar[str] = "Lasko 2007, fig. 4-2"

    method: Literal["spectral-rhs"] = "spectral-rhs"
    k: K

    def combination(self) -> Combination:
        return Combination(
            groups=MedianCuts(k=self.k, on="svd", **self.bounds), operation=Centroid(), columns=self.columns
        )


class Mondrian(ConstrainedMethod):
    """Median cuts of the widest column; each record receives its group's mean, or the range of its values."""

    source: ClassVar[str] = "LeFevre, DeWitt and Ramakrishnan 2006"

    method: Literal["mondrian"] = "mondrian"
    k: K
    release: Literal["centroid", "interval", "interval-column"] = Field(
        default="centroid",
        description="interval: columns NAME_low and NAME_high, sets of categories; interval-column: one column NAME of"
        " intervals, for Parquet and Arrow files",
    )

    def combination(self) -> Combination:
        operation: Centroid | Interval = Centroid()
        if self.release != "centroid":
            operation = Interval(form="columns" if self.release == "interval" else "column")
        return Combination(groups=MedianCuts(k=self.k, **self.bounds), operation=operation, columns=self.columns)


class Pica(_Clustered):
    """Partitioned ICA swapping: independent components, permuted inside spectral clusters."""

    source: ClassVar[str] = "Lasko 2007, fig. 5-1"

    method: Literal["pica"] = "pica"
    block: Block = 2048
    sigma: float | None = Field(default=None, gt=0, description="width of the affinity; none: the median distance")

    def combination(self) -> Combination:
        groups = Spectral(target=self.size, block=self.block, sigma=self.sigma)
        return Combination(
            groups=groups, basis=Ica(per_group=True), operation=Swap(), columns=self.columns, decoding=self.decoding
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
            basis=Ica(per_group=True) if self.basis == "ica" else Svd(per_group=True),
            operation=Swap(orthonormal=self.orthonormal),
            columns=self.columns,
            decoding=self.decoding,
        )


AnyMethod: TypeAlias = (
    Microaggregation
    | DistributionPreserving
    | SvdSwap
    | Rhs
    | SpectralRhs
    | Mondrian
    | OptimalBoxes
    | Pica
    | ClusteredSwap
    | AdditiveNoise
    | SuppressRows
    | SyntheticRows
    | GlobalRecoding
    | LocalSuppression
    | PostRandomisation
    | RandomSuppression
    | Copula
    | RankSwapping
    | ColumnSwapping
    | CoreSwap
    | ClusterSwap
    | TargetedSwapping
    | DataShuffle
    | UnivariateSynthesis
    | HypercubeSynthesis
    | TableSynthesis
    | MaximumEntropySynthesis
    | ClusteredSynthesis
    | SequentialSynthesis
)
METHODS: tuple[type[Method], ...] = get_args(AnyMethod)


def _kind_of_mask(mask: Any) -> str:
    """Which member of `AnyMask` a mask is: a named method or a free combination."""
    if isinstance(mask, dict):
        return "combination" if {"groups", "basis", "operation"} & set(mask) and "method" not in mask else "method"
    return "method" if hasattr(mask, "method") else "combination"


AnyMask: TypeAlias = Annotated[
    Annotated[Annotated[AnyMethod, Field(discriminator="method")], Tag("method")]
    | Annotated[Combination, Tag("combination")],
    Discriminator(_kind_of_mask),
]


def catalogue() -> list[dict[str, Any]]:
    """The methods as ``methods --json`` lists them."""
    entries = []
    for method in METHODS:
        properties = method.model_json_schema()["properties"]
        name = properties.pop("method")["default"]
        entries.append({"name": name, "summary": method.__doc__, "source": method.source, "parameters": properties})
    return entries
