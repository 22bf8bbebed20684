"""Models that analysts will fit (``[[analysis]]`` in a recipe), and predictions that they will make (``[[workload]]``).

A recipe is data.  The library that reads formulas would evaluate any expression of Python in them, so that only names
of columns, numbers, operators and a few functions pass.
"""

from __future__ import annotations

import re
from typing import Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    field_validator,
    model_validator,
)

Family: TypeAlias = Literal["linear", "logistic", "gamma", "two-part"]

FUNCTIONS = ("C", "log", "log10", "exp", "sqrt", "center", "scale", "poly")
_TOKEN = re.compile(r"\s*(`[^`]+`|[^\W\d]\w*|\d+(?:\.\d+)?|\*\*|[-+*:^(),/|])", re.UNICODE)


class Analysis(BaseModel):
    """One model.

    formula : ``response ~ terms``; names with other characters than letters, digits and underscores stand in backticks
    family  : linear; logistic (a response of two values); gamma (positive, logarithmic link); two-part (a logistic
              model of being positive, and a gamma model of the positive values)
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    formula: str
    family: Family = "linear"

    @field_validator("formula")
    @classmethod
    def _plain(cls, formula: str) -> str:
        sides = formula.split("~")
        if len(sides) != 2 or not sides[1].strip():
            raise ValueError('a formula is "response ~ terms"')
        if not re.fullmatch(r"\s*(`[^`]+`|[^\W\d]\w*)\s*", sides[0]):
            raise ValueError("the response of a formula is one column")
        columns_of(sides[1])
        return formula

    @property
    def response(self) -> str:
        """The column that is explained."""
        return self.formula.split("~")[0].strip().strip("`")

    @property
    def terms(self) -> str:
        """What explains it."""
        return self.formula.split("~")[1].strip()

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that the formula names."""
        return tuple(dict.fromkeys((self.response, *columns_of(self.terms))))


def columns_of(terms: str) -> tuple[str, ...]:
    """The columns that the right side of a formula names.

    Raises
    ------
    ValueError
        For anything but columns, numbers, ``+ - * : ^ ** / ( ) ,`` and `FUNCTIONS`.
    """
    found, at, text = [], 0, terms.rstrip()
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            raise ValueError(f"formula: columns, numbers, + - * : ^ / ( ) and {', '.join(FUNCTIONS)} are allowed")
        name, at = token.group(1), token.end()
        called = text[at:].lstrip().startswith("(")
        if name[0] == "`" or name[0].isalpha() or name[0] == "_":
            if called and name not in FUNCTIONS:
                raise ValueError(f"formula: there is no function {name}; there are {', '.join(FUNCTIONS)}")
            if not called:
                found.append(name.strip("`"))
    return tuple(dict.fromkeys(found))


CostModel: TypeAlias = Literal["linear", "log", "two-part", "gamma", "multiplicative"]
Shift: TypeAlias = Literal["none", "logistic", "nonparametric"]
Value: TypeAlias = StrictStr | StrictBool | StrictInt | StrictFloat


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)


class ValueRange(_Declared):
    """Numbers from `from` up to, but not including, `to`; an end that is not given is open."""

    low: float | None = Field(default=None, alias="from")
    high: float | None = Field(default=None, alias="to")

    @model_validator(mode="after")
    def _some_end(self) -> Self:
        if self.low is None and self.high is None:
            raise ValueError("a range has from, to or both")
        return self


Conditions: TypeAlias = dict[str, Value | list[Value] | ValueRange]
"""By column a value, a list of values, or a range of numbers; a record meets all of them.  None: every record."""


class Workload(_Declared):
    """The mean of a response in a new market, predicted from the released records of the existing one.

    existing, new : conditions on columns: which records are of which market
    response      : the column that is predicted; the predictors are `columns`, or
    formula       : ``response ~ terms`` instead of both
    kind          : model of the mean, see `gpuanon.assessing.workloads.regression`
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
