"""The catalogue: each published combination of groups × basis × operation, with its name, parameters and source.

A named method is a frozen model that turns its parameters into a `Combination`; the parts know nothing of it.
A recipe may also hold a `Combination` itself.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import Discriminator, Field, Tag, ValidationInfo, field_validator, model_validator

from gpuanon.bases import AnyBasis, Ica, Identity, Svd
from gpuanon.errors import RecipeError
from gpuanon.groups import (
    AnyGroups,
    FirstAxis,
    Fuzzy,
    KMember,
    Mdav,
    MedianCuts,
    OptimalUnivariate,
    SpanningTree,
    Spectral,
    Univariate,
    Whole,
)
from gpuanon.operations import AnyOperation, Centroid, Dither, Noise, Permute, Resample, Swap
from gpuanon.parts import Part, Promise

ColumnChoice: TypeAlias = Literal["quasi", "all"] | tuple[str, ...]
K = Annotated[int, Field(ge=2, description="records of a group, at least")]
Block = Annotated[int, Field(ge=0, description="rows of a spatial block; 0: the whole table at once, as published")]


Target: TypeAlias = Annotated[
    Annotated[int, Field(ge=2)] | Literal["auto"],
    Field(description='records of a cluster; "auto": the smallest that meets the reference standard'),
]


def _settled(target: int | Literal["auto"]) -> int:
    """A target that is a number; "auto" is one only after a reference sample has settled it."""
    if target == "auto":
        raise RecipeError('target: "auto" needs a reference sample to settle it')
    return target


class Combination(Part):
    """groups × basis × operation, freely combined."""

    groups: AnyGroups
    basis: AnyBasis = Identity()
    operation: AnyOperation
    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" or a list of names')
    metric: Literal["euclidean", "gower"] = Field(default="euclidean", description="how the groups measure distance")
    response_weight: float = Field(
        default=0.0, ge=0, description="weight of the sensitive columns in the grouping; they are not changed"
    )

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        """Refuse a metric that the groups do not know, and what cannot be done with groups of single columns."""
        groups = self.groups
        if self.metric not in groups.metrics:
            raise ValueError(f"metric: {groups.use} groups know {', '.join(groups.metrics)} only, got {self.metric}")
        if groups.per_column and (self.basis.use, self.operation.use) != ("identity", "centroid"):
            raise ValueError(
                f"{groups.use} groups are those of each column by itself: basis identity and operation centroid are"
                f" allowed, got {self.basis.use} and {self.operation.use}"
            )
        if groups.per_column and self.response_weight:
            raise ValueError(
                f"response_weight: does not apply to {groups.use} groups, in which one column at a time takes part"
            )
        return self

    @property
    def promise(self) -> Promise:
        """What is verified on the release."""
        return "values" if self.groups.per_column else self.operation.promise

    @property
    def k(self) -> int | None:
        """The smallest group that the groups promise, or None."""
        return getattr(self.groups, "k", None)

    def combination(self) -> Combination:
        """Itself: a named method has the same function."""
        return self


class Method(Part):
    """A published method."""

    source: ClassVar[str]

    columns: ColumnChoice = Field(default="quasi", description='"quasi", "all" or a list of names')

    def combination(self) -> Combination:
        """The method's groups, basis and operation."""
        raise NotImplementedError


MicroGroups: TypeAlias = type[Mdav | KMember | Univariate | OptimalUnivariate | FirstAxis | Fuzzy | SpanningTree]
MICRO_GROUPS: dict[str, MicroGroups] = {
    "mdav": Mdav,
    "k-member": KMember,
    "univariate": Univariate,
    "optimal-univariate": OptimalUnivariate,
    "first-axis": FirstAxis,
    "fuzzy": Fuzzy,
    "spanning-tree": SpanningTree,
}
"""The groupings of `Microaggregation`."""


class Microaggregation(Method):
    """Groups of at least k similar records; each record receives its group's centre."""

    source: ClassVar[str] = "Domingo-Ferrer and Torra 2005; Byun et al. 2007; Lasko 2007, ch. 2"

    method: Literal["microaggregation"] = "microaggregation"
    k: K
    groups: Literal["mdav", "k-member", "univariate", "optimal-univariate", "first-axis", "fuzzy", "spanning-tree"] = (
        Field(
            default="mdav",
            description="how similar records are found",
            json_schema_extra={"values": {name: (m.__doc__ or "").split("\n")[0] for name, m in MICRO_GROUPS.items()}},
        )
    )
    refine: bool | None = Field(
        default=None,
        description="exchange records between neighbouring groups while the loss falls; not for fuzzy, univariate",
        json_schema_extra={"default": True},
    )
    block: int | None = Field(
        default=None,
        ge=0,
        description="rows of a spatial block; 0: the whole table at once, as published; not for univariate, first-axis",
        json_schema_extra={"default": 1024},
    )
    centre: Literal["mean", "median"] = Field(default="mean", description="of numbers; categories have their mode")
    metric: Literal["euclidean", "gower"] = "euclidean"

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_the_groups(cls, data: Any) -> Any:
        """`refine` and `block` where the groups have them: a manifest says what was done."""
        model = MICRO_GROUPS.get(str(data.get("groups", "mdav"))) if isinstance(data, dict) else None
        if model is None:
            return data
        usual = {name: model.model_fields[name].default for name in ("refine", "block") if name in model.model_fields}
        return {**usual, **{name: value for name, value in data.items() if value is not None or name not in usual}}

    @field_validator("refine", "block", "metric")
    @classmethod
    def _applies(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse what the chosen groups have no use for."""
        use = info.data.get("groups")
        if use is None or value is None:
            return value
        model = MICRO_GROUPS[use]
        if info.field_name == "metric" and value not in model.metrics:
            raise ValueError(f"{use} groups know {', '.join(model.metrics)} only")
        if info.field_name != "metric" and info.field_name not in model.model_fields:
            having = [name for name, other in MICRO_GROUPS.items() if info.field_name in other.model_fields]
            raise ValueError(f"does not apply to {use} groups, only to {', '.join(having)}")
        return value

    def combination(self) -> Combination:
        given = {"refine": self.refine, "block": self.block}
        groups = MICRO_GROUPS[self.groups](k=self.k, **{n: v for n, v in given.items() if v is not None})
        return Combination(
            groups=groups, operation=Centroid(centre=self.centre), columns=self.columns, metric=self.metric
        )


class DistributionPreserving(Method):
    """Groups of at least k similar records; values are drawn so that their distribution is kept."""

    source: ClassVar[str] = "Wei, Ramamurthy and Varshney 2018"

    method: Literal["distribution-preserving"] = "distribution-preserving"
    k: K
    dither: Literal["gaussian", "cell", "merged-cell", "resample", "permute"] = "gaussian"
    alpha: float = Field(default=1 / 3, ge=0, description="gaussian: variance added to each column")
    response_weight: float = Field(default=1.0, ge=0, description="weight of the sensitive columns in the grouping")
    block: int | None = Field(
        default=None, ge=0, description="rows of a block; 0: the whole table, as published; none: grows with k"
    )
    order: Literal["fewest", "given"] | tuple[int, ...] = Field(
        default="fewest", description="of the columns, in the transformation"
    )
    bins: int | None = Field(
        default=None, ge=2, description="gaussian: bins of continuous columns, so that no real row is copied"
    )

    def combination(self) -> Combination:
        operation: Resample | Permute | Dither
        if self.dither == "resample":
            operation = Resample()
        elif self.dither == "permute":
            operation = Permute()
        else:
            operation = Dither(kind=self.dither, alpha=self.alpha, block=self.block, order=self.order, bins=self.bins)
        return Combination(
            groups=KMember(k=self.k) if self.block is None else KMember(k=self.k, block=self.block),
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

    def combination(self) -> Combination:
        operation = Swap(tol=self.tol, orthonormal=self.orthonormal)
        return Combination(groups=Whole(), basis=Svd(), operation=operation, columns=self.columns)


class Rhs(Method):
    """Every column cut at its median at once; each record receives its group's mean.  Fails in high dimension."""

    source: ClassVar[str] = "Lasko 2007, ch. 4"

    method: Literal["rhs"] = "rhs"
    k: K

    def combination(self) -> Combination:
        return Combination(groups=MedianCuts(k=self.k, columns="all"), operation=Centroid(), columns=self.columns)


class SpectralRhs(Method):
    """Median cuts of the widest principal component; each record receives its group's mean."""

    source: ClassVar[str] = "Lasko 2007, fig. 4-2"

    method: Literal["spectral-rhs"] = "spectral-rhs"
    k: K

    def combination(self) -> Combination:
        return Combination(groups=MedianCuts(k=self.k, on="svd"), operation=Centroid(), columns=self.columns)


class Mondrian(Method):
    """Median cuts of the widest column; each record receives its group's mean."""

    source: ClassVar[str] = "LeFevre, DeWitt and Ramakrishnan 2006"

    method: Literal["mondrian"] = "mondrian"
    k: K

    def combination(self) -> Combination:
        return Combination(groups=MedianCuts(k=self.k), operation=Centroid(), columns=self.columns)


class Pica(Method):
    """Partitioned ICA swapping: independent components, permuted inside spectral clusters."""

    source: ClassVar[str] = "Lasko 2007, fig. 5-1"

    method: Literal["pica"] = "pica"
    target: Target = 200
    block: Block = 2048
    sigma: float | None = Field(default=None, gt=0, description="width of the affinity; none: the median distance")

    def combination(self) -> Combination:
        groups = Spectral(target=_settled(self.target), block=self.block, sigma=self.sigma)
        return Combination(groups=groups, basis=Ica(per_group=True), operation=Swap(), columns=self.columns)


class ClusteredSwap(Method):
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
            groups=Spectral(target=_settled(self.target), block=self.block, sigma=self.sigma),
            basis=Ica(per_group=True) if self.basis == "ica" else Svd(per_group=True),
            operation=Swap(orthonormal=self.orthonormal),
            columns=self.columns,
        )


class AdditiveNoise(Method):
    """Random noise is added to every column."""

    source: ClassVar[str] = "Lasko 2007, ch. 2"

    method: Literal["noise"] = "noise"
    b: float = Field(default=0.1, gt=0, description="variance of the noise, as a share of the column's")
    kind: Literal["uncorrelated", "correlated", "corrected"] = "uncorrelated"

    def combination(self) -> Combination:
        return Combination(groups=Whole(), operation=Noise(b=self.b, kind=self.kind), columns=self.columns)


AnyMethod: TypeAlias = (
    Microaggregation
    | DistributionPreserving
    | SvdSwap
    | Rhs
    | SpectralRhs
    | Mondrian
    | Pica
    | ClusteredSwap
    | AdditiveNoise
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
