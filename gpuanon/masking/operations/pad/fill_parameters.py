"""Parameters of a fill of added rows: the model, its size, and the statistics that are to stay."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator

from gpuanon.errors import ParameterError
from gpuanon.masking.operations.pad.calibration import KeptStatistics
from gpuanon.masking.outcomes import ColumnValues

FillName: TypeAlias = Literal[
    "marginal", "marginal-mean", "joint", "joint-mean", "regression", "beta", "tree", "forest", "bagging", "boosting",
    "network", "hierarchical",
]  # fmt: skip

FillKind = Annotated[
    FillName,
    Field(
        description="how other columns of an added row are drawn: marginal = the value of a random row; marginal-mean ="
        " the mean of five; joint = of a record of the same class; joint-mean = their mean and noise; regression ="
        " logistic, then probit–gamma; beta = logistic, then beta; tree, forest, bagging = records of the same leaf;"
        " boosting, network, hierarchical = records with a similar prediction"
    ),
]
Leaf = Annotated[int, Field(ge=5, description="records that share a leaf, at least")]
Depth = Annotated[int | None, Field(ge=1, le=64, description="of a tree, at most; none: no limit")]
Trees = Annotated[int, Field(ge=2, le=500, description="of a forest")]
SampleRows = Annotated[int, Field(ge=1000, description="records that models are fitted to, about")]


class Calibrate(BaseModel):
    """Statistics of the whole table that are to stay; draws are tilted as little as will do.

    means        : columns
    correlations : pairs of columns; means and variances of filled columns in them stay as well
    regressions  : "response ~ one + other": the coefficients of a linear regression, of a response that is filled.
                   If its mean or a correlation is named as well, the slopes stay and the intercept moves; if a
                   correlation with a predictor is, its variance moves

    What stays moves something else: where a column varies more in the release, the same correlation means a smaller
    slope.  The manifest says what moves (`slope_drift`, `mean_drift`), what it costs (`price_nats`) and whether all
    named statistics could be kept (`reached`, `largest_residual`); a column may have no room for all of them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    means: tuple[str, ...] = ()
    correlations: tuple[tuple[str, str], ...] = ()
    regressions: tuple[str, ...] = ()

    @field_validator("regressions")
    @classmethod
    def _formulas(cls, formulas: tuple[str, ...]) -> tuple[str, ...]:
        for formula in formulas:
            response, _, predictors = formula.partition("~")
            if not response.strip() or not all(name.strip() for name in predictors.split("+")):
                raise ValueError(f'a formula such as "cost ~ age + income" is needed, got {formula!r}')
        return formulas

    def by_number(self, columns: ColumnValues, known: int) -> KeptStatistics:
        """The same by the numbers of the columns, of which the first `known` are not filled."""

        def number(name: str) -> int:
            if name not in columns.names:
                raise ParameterError(f"calibrate: there is no column {name!r}")
            at = columns.names.index(name)
            if columns.levels[at] > 2:
                raise ParameterError(f"calibrate: column {name!r} has no mean: numbers, or two levels, are needed")
            return at

        models = []
        for formula in self.regressions:
            response, _, predictors = formula.partition("~")
            models.append((number(response.strip()), tuple(number(name.strip()) for name in predictors.split("+"))))
        found = KeptStatistics(
            tuple(map(number, self.means)), tuple((number(a), number(b)) for a, b in self.correlations), tuple(models)
        )
        fills = [*found.means, *map(max, found.correlations), *(response for response, _ in found.regressions)]
        if any(at < known for at in fills):
            raise ParameterError(
                "calibrate: a statistic of columns that are not filled cannot be kept",
                hint="each needs a column outside of the mask; the response of a regression must be one",
            )
        return found
