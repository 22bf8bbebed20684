"""Methods on equivalence classes, and the Gaussian copula."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from gpuanon.masking.bases.linear import Codes
from gpuanon.masking.bases.normal_scores import NormalScores
from gpuanon.masking.groups.plain_groups import EqualRows, Whole
from gpuanon.masking.methods.combination import ColumnChoice, Combination, ConstrainedMethod, K, Method
from gpuanon.masking.operations.blank import Blank, Importance, RandomBlank
from gpuanon.masking.operations.pad import Calibrate, FillKind, Leaf, Pad, SampleRows, Trees
from gpuanon.masking.operations.pad import Depth as TreeDepth
from gpuanon.masking.operations.recode import Recode
from gpuanon.masking.operations.recode.recode_search import RecodeSearch, check_search
from gpuanon.masking.operations.recode.recoding_loss import Metric as LossMetric
from gpuanon.masking.operations.sample import Sample
from gpuanon.masking.operations.suppress import Suppress
from gpuanon.masking.operations.transition import Transition, check_invariant

Depth = Annotated[int, Field(ge=0)]


class SuppressRows(ConstrainedMethod):
    """Records of classes with fewer than k records are not released."""

    source: ClassVar[str] = "Sweeney 2002; Fried and Vamvourellis"

    method: Literal["suppress"] = "suppress"
    k: K
    limit: float | None = Field(
        default=None, ge=0, le=1, description="share of the records that may be dropped; else refused"
    )

    def combination(self) -> Combination:
        operation = Suppress(k=self.k, limit=self.limit, **self.bounds)
        return Combination(groups=EqualRows(), basis=Codes(), operation=operation, columns=self.columns)


class SyntheticRows(Method):
    """Rows are added to classes with fewer than k records; no record is changed or dropped."""

    source: ClassVar[str] = "Fried and Vamvourellis"

    method: Literal["synthetic-rows"] = "synthetic-rows"
    k: K
    fill: FillKind = "tree"
    leaf: Leaf = 50
    depth: TreeDepth = None
    trees: Trees = 25
    sample: SampleRows = 500_000
    calibrate: Calibrate | None = Field(default=None, description="statistics of the whole table that are to stay")

    @model_validator(mode="after")
    def _applies(self) -> Self:
        """Refuse a setting that would do nothing."""
        if self.trees != 25 and self.fill not in ("forest", "bagging"):
            raise ValueError(f"trees: applies to the fills forest and bagging, got {self.fill}")
        return self

    def combination(self) -> Combination:
        operation = Pad(
            k=self.k, fill=self.fill, leaf=self.leaf, depth=self.depth, trees=self.trees, sample=self.sample,
            calibrate=self.calibrate,
        )  # fmt: skip
        return Combination(groups=EqualRows(), basis=Codes(), operation=operation, columns=self.columns)


class GlobalRecoding(ConstrainedMethod):
    """Each column is released at one depth of its hierarchy, as text: at `levels`, or where it loses least for k."""

    source: ClassVar[str] = "Samarati 2001; Lasko 2007, ch. 2; Prasser et al. 2020"

    method: Literal["recode"] = "recode"
    levels: Depth | dict[str, Depth] | None = Field(
        default=None, description="depth of all columns, or by name, 0 for those not named; none: searched for"
    )
    k: int | None = Field(default=None, ge=2, description="records of a class, at least; none: nothing is promised")
    limit: float = Field(default=0.0, ge=0, le=1, description="searched: share of the records that may be suppressed")
    metric: LossMetric = Field(default="loss", description="searched: what is to be least, as ARX has it")
    weights: dict[str, float] | None = Field(default=None, description="searched: how much a column counts in it")
    local: bool = Field(default=False, description="searched: suppressed records are recoded again by themselves")
    seconds: float = Field(default=60.0, gt=0, description="searched: time; then the best so far is taken")

    @model_validator(mode="after")
    def _given_or_searched(self) -> Self:
        searched = {"limit", "metric", "weights", "local", "seconds", "diversity", "closeness"}
        fields = type(self).model_fields
        idle = sorted(name for name in searched if getattr(self, name) != fields[name].default)
        if idle and self.levels is not None:
            raise ValueError(f"{', '.join(idle)}: for levels that are searched for, and levels are given")
        if self.levels is None and self.k is None:
            raise ValueError("levels or k: one of them is needed")
        check_search(self.metric, self.weights, self.local)
        return self

    def combination(self) -> Combination:
        operation: Recode | RecodeSearch
        if self.levels is not None:
            operation = Recode(levels=self.levels, k=self.k)
        else:
            assert self.k is not None
            operation = RecodeSearch(
                k=self.k,
                limit=self.limit,
                metric=self.metric,
                weights=self.weights,
                local=self.local,
                seconds=self.seconds,
                **self.bounds,
            )
        return Combination(groups=EqualRows(), basis=Codes(), operation=operation, columns=self.columns)


class LocalSuppression(Method):
    """Single cells are blanked, the fewest or least important, until what is left of each record is shared by k."""

    source: ClassVar[str] = "De Waal and Willenborg 1998; Lasko 2007, ch. 2"

    method: Literal["blank"] = "blank"
    k: K
    limit: float = Field(default=1.0, gt=0, le=1, description="share of the cells that may be blanked; else refused")
    importance: dict[str, Importance] | None = Field(
        default=None, description="cost of a blanked cell of a column, by name"
    )
    cover: float = Field(
        default=0.0, ge=0, description="cells of common records blanked besides, for each that must be"
    )

    def combination(self) -> Combination:
        operation = Blank(k=self.k, limit=self.limit, importance=self.importance, cover=self.cover)
        return Combination(groups=EqualRows(), basis=Codes(), operation=operation, columns=self.columns)


class RandomSuppression(Method):
    """Cells are blanked at random until what is left of each record is shared by k."""

    source: ClassVar[str] = "Lasko 2007, ch. 2"

    method: Literal["random-suppress"] = "random-suppress"
    k: K
    limit: float = Field(default=1.0, gt=0, le=1, description="share of the cells that may be blanked; else refused")
    rate: float = Field(default=0.05, ge=0, lt=1, description="share of the cells of common records that are blanked")

    def combination(self) -> Combination:
        operation = RandomBlank(k=self.k, limit=self.limit, rate=self.rate)
        return Combination(groups=EqualRows(), basis=Codes(), operation=operation, columns=self.columns)


class PostRandomisation(Method):
    """Values of categorical columns are replaced by others, drawn by the chances of a transition matrix."""

    source: ClassVar[str] = "Gouweleeuw et al. 1998"

    method: Literal["pram"] = "pram"
    stay: float = Field(default=0.8, ge=0, le=1, description="chance that a value is not drawn anew")
    invariant: bool = Field(default=True, description="expected counts of the values do not change by a matrix either")
    within: str | None = Field(default=None, description="column of the mask within whose values others are drawn")
    matrix: dict[str, list[list[float]]] | None = Field(
        default=None, description="by column, chances of each value for each value in ascending order", repr=False
    )

    @model_validator(mode="after")
    def _invariant_is_used(self) -> Self:
        check_invariant(self.invariant, self.matrix)
        return self

    def combination(self) -> Combination:
        operation = Transition(stay=self.stay, invariant=self.invariant, within=self.within, matrix=self.matrix)
        return Combination(groups=EqualRows(), basis=Codes(), operation=operation, columns=self.columns)


class Copula(Method):
    """New rows from a Gaussian copula: each column's own values, correlated as in the original."""

    source: ClassVar[str] = "Lasko 2007, eq. 2.14–2.17"

    method: Literal["copula"] = "copula"
    columns: ColumnChoice = Field(default="all", description='"quasi", "all" or a list of names')
    copies: int = Field(
        default=1, ge=1, le=1000, description="of the release, in one table with a column 'copy': multiple imputation"
    )

    def combination(self) -> Combination:
        chosen: dict[str, Any] = {"columns": self.columns, "copies": self.copies}
        return Combination(groups=Whole(), basis=NormalScores(), operation=Sample(), **chosen)
