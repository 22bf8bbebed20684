"""Predictions that analysts will make from a release, as a recipe has them under ``[[workload]]``."""

from __future__ import annotations

from typing import Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictFloat, StrictInt, StrictStr, model_validator

from gpuanon.assessing.formulas import Analysis

CostModel: TypeAlias = Literal["linear", "log", "two-part", "gamma", "multiplicative"]
Shift: TypeAlias = Literal["none", "logistic", "nonparametric"]
Value: TypeAlias = StrictStr | StrictBool | StrictInt | StrictFloat


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class Range(_Declared):
    """Numbers from `from` up to, but not including, `to`; an end that is not given is open."""

    low: float | None = Field(default=None, alias="from")
    high: float | None = Field(default=None, alias="to")

    @model_validator(mode="after")
    def _some_end(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("a range has from, to or both")
        return self


Conditions: TypeAlias = dict[str, Value | list[Value] | Range]
"""By column a value, a list of values, or a range of numbers; a record meets all of them.  None: every record."""


class Workload(_Declared):
    """The mean of a response in a new market, predicted from the released records of the existing one.

    existing, new : conditions on columns: which records are of which market
    response      : the column that is predicted; the predictors are `columns`, or
    formula       : ``response ~ terms`` instead of both
    kind          : model of the mean, see `gpuanon.assessing.workloads.skewed`
    shift         : how the existing records are weighted to the new market, see `gpuanon.assessing.workloads.market`
    bins          : quantile bins of numbers and dates among the predictors: cells of the weights, and of `columns`
    subgroups     : by name, conditions on records of the new market whose bias is shown apart
    """

    name: str | None = Field(default=None, min_length=1, max_length=60)
    existing: Conditions = Field(default_factory=dict)
    new: Conditions = Field(default_factory=dict)
    response: str | None = None
    columns: tuple[str, ...] = ()
    formula: str | None = None
    kind: CostModel = "linear"
    shift: Shift = "nonparametric"
    bins: int = Field(default=5, ge=2, le=100)
    subgroups: dict[str, Conditions] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_model(self) -> Self:
        if self.formula is not None:
            Analysis(formula=self.formula)
            if self.response is not None or self.columns:
                raise ValueError("a formula names response and predictors; response and columns stand without one")
        elif self.response is None or not self.columns:
            raise ValueError("a workload needs a formula, or response and columns")
        if self.target in self.predictors:
            raise ValueError("the response is among its predictors")
        return self

    @property
    def model(self) -> Analysis | None:
        """The formula."""
        return None if self.formula is None else Analysis(formula=self.formula)

    @property
    def target(self) -> str:
        """The response."""
        return str(self.response) if self.model is None else self.model.response

    @property
    def predictors(self) -> tuple[str, ...]:
        """The columns that it is predicted from."""
        return self.columns if self.model is None else self.model.columns[1:]

    @property
    def named(self) -> tuple[str, ...]:
        """Every column that it names."""
        conditions = (self.existing, self.new, *self.subgroups.values())
        return tuple(dict.fromkeys((self.target, *self.predictors, *(name for one in conditions for name in one))))

    @property
    def label(self) -> str:
        """Its name, or what is predicted from what."""
        return self.name or self.formula or f"{self.target} ~ {' + '.join(self.predictors)}"
