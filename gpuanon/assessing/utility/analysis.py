"""Analysts' models, fitted to the original and to the release: would they have drawn the same conclusions?

References
----------
.. [1] A. F. Karr, C. N. Kohnen, A. Oganian, J. P. Reiter, A. P. Sanil (2006), A framework for evaluating the utility of
   data altered to protect confidentiality, Am. Stat. 60(3): overlap of confidence intervals.
.. [2] N. Duan et al. (1983), A comparison of alternative models for the demand for medical care, J. Bus. Econ. Stat.
   1(2): two-part models.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from gpuanon.arrays.backend import Host
from gpuanon.assessing.declared_models import Analysis
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import By, Compared, Figure, Measured, join
from gpuanon.assessing.measure import SHARE, Measure, Weights
from gpuanon.errors import InputError, ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


_EVENTS = 5
"""Fewest records of either value of a logistic response."""

FEWEST = 10
"""Fewest records off a term's usual value (a level's own records) of a coefficient that is reported."""


@dataclass(frozen=True)
class Coefficient:
    """A coefficient, its 95 % interval and the p-value that it is 0."""

    value: float
    low: float
    high: float
    p: float

    def to_json(self) -> dict[str, float | None]:
        """Under names."""
        return {"estimate": self.value, "low": self.low, "high": self.high, "p": self.p}


def analysis(
    original: Any,
    release: Any,
    models: Sequence[Analysis],
    *,
    weights: tuple[Host, Host] | None = None,
) -> Measured:
    """One less the mean overlap of the 95 % intervals of coefficients from original and release: 0 equal, 1 apart.

    Parameters
    ----------
    original, release : pandas data frames with the columns of the formulas
    models : formulas and families
    weights : of the records of both, or None; scaled to a mean of 1

    The design is that of the original: the release is coded by the original's levels.  Records that lack a value, or
    have a level that the original has not, are left out, and counted.  A coefficient that the release does not
    determine (a level that is gone, or that fewer than `FEWEST` records have there) has no overlap; one that rests on
    fewer than `FEWEST` records of the original is left out.
    Beside the value: all coefficients, intervals and p-values of both tables.
    """
    require()
    if not models:
        raise InputError("needs models of analysts in the recipe ([[analysis]])")
    before: dict[str, Coefficient] = {}
    after: dict[str, Coefficient | None] = {}
    notes = []
    for number, model in enumerate(models, 1):
        tables = [complete(table, model, original) for table in (original, release)]
        if len(tables[0]) and tables[0][model.response].nunique() < 2:
            raise InputError(f"analysis: {model.response}: has one value in the original, there is nothing to explain")
        for side, rows, whole in zip(("original", "release"), tables, (original, release), strict=True):
            if len(rows) < len(whole):
                notes.append(f"{model.formula}: {len(whole) - len(rows)} records of the {side} were left out")
        own = [None if weights is None else weights[at][tables[at].index.to_numpy()] for at in (0, 1)]
        label = model.formula if len(models) == 1 else f"{number}: {model.formula}"
        first = _fitted(model, tables[0], tables[0], own[0])
        second = _fitted(model, tables[0], tables[1], own[1])
        before |= {f"{label} | {name}": estimate for name, estimate in first.items()}
        after |= {f"{label} | {name}": second.get(name) for name in first}
    return _measured(before, after, len(models), notes)


def _measured(
    before: Mapping[str, Coefficient], after: Mapping[str, Coefficient | None], models: int, notes: Sequence[str]
) -> Measured:
    """The figure of all coefficients together."""
    if not before:
        raise InputError("analysis: no coefficient rests on enough records to be reported")
    missed = {name: 1 - interval_overlap(before[name], after[name]) for name in before}
    shifts = [
        abs(found.value - before[name].value) / ((before[name].high - before[name].low) / 3.92)
        for name, found in after.items()
        if found is not None and before[name].high > before[name].low
    ]
    turned = [
        found is None or (found.p < 0.05) != (before[name].p < 0.05) or found.value * before[name].value < 0
        for name, found in after.items()
    ]
    details: dict[str, Figure] = {
        "models": models,
        "coefficients": len(before),
        "median_shift_in_standard_errors": float(np.median(shifts)) if shifts else None,
        "largest_shift_in_standard_errors": max(shifts, default=None),
        "changed_conclusions": int(np.sum(turned)),
    }
    none: Mapping[str, float | None] = dict.fromkeys(("estimate", "low", "high", "p"))
    sides = (
        {name: found.to_json() for name, found in before.items()},
        {name: none if found is None else found.to_json() for name, found in after.items()},
    )
    parts = (By("coefficient", dict(missed)), Compared("coefficient", *sides))
    return Measured(float(np.mean(list(missed.values()))), details, join(*notes), parts=parts)


def require() -> None:
    """Refuse models where the packages that fit them are not installed."""
    missing = [name for name in ("formulaic", "statsmodels") if find_spec(name) is None]
    if missing:
        raise InputError(f"analysis needs {' and '.join(missing)}: pip install 'gpuanon[analysis]'")


def interval_overlap(one: Coefficient, other: Coefficient | None) -> float:
    """Mean share of both intervals that they have in common, 0 to 1; 0 where there is no other ([1])."""
    if other is None:
        return 0.0
    common = min(one.high, other.high) - max(one.low, other.low)
    widths = one.high - one.low, other.high - other.low
    if common < 0 or not all(math.isfinite(width) for width in widths):
        return 0.0
    return 0.5 * sum(common / width if width > 0 else 1.0 for width in widths)  # a point that lies inside is in common


def complete(table: Any, model: Analysis, original: Any) -> Any:
    """The records with every value that the model needs, and levels that the original has."""
    rows = table[list(model.columns)]
    for name in model.columns:
        if rows[name].dtype == object or str(rows[name].dtype) in ("str", "category", "string"):
            known = original[name].dropna().unique()
            rows = rows[rows[name].isin(known)]
    return rows.dropna()


def _fitted(model: Analysis, design: Any, rows: Any, weights: Host | None) -> dict[str, Coefficient]:
    """Coefficients by name; of a two-part model those of both parts."""
    X, y = design_matrix(model, design, rows), _response(model, design, rows)
    if model.family == "two-part":
        some = y > 0
        if (y < 0).any():
            raise InputError(f"analysis: {model.response}: a two-part model wants values of 0 and more")
        own = None if weights is None else weights[some]
        parts = ("any", _fit(X, some.astype(float), "logistic", weights, model)), (
            "amount", _fit(X[some], y[some], "gamma", own, model))  # fmt: skip
        return {f"{part}: {name}": found for part, fit in parts for name, found in fit.items()}
    return _fit(X, y, model.family, weights, model)


def design_matrix(model: Analysis, design: Any, rows: Any) -> Any:
    """The terms as a matrix with names, coded as the original's records are."""
    import formulaic
    from formulaic.errors import FormulaicError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # levels that are absent here keep their place in the design
            spec = formulaic.Formula(model.terms).get_model_matrix(design, context={}).model_spec
            return spec.get_model_matrix(rows, context={})
    except (FormulaicError, KeyError, ValueError, TypeError):
        raise InputError(f"analysis: {model.formula}: cannot be made into a model of these columns") from None


def _response(model: Analysis, design: Any, rows: Any) -> Host:
    """The response as numbers; of a logistic model 0 and 1, the higher of its two values being 1."""
    y = rows[model.response]
    if model.family == "logistic":
        values = sorted(design[model.response].unique().tolist())
        if len(values) != 2:
            raise InputError(f"analysis: {model.response}: a logistic model wants two values, it has {len(values)}")
        return np.asarray((y == values[1]).to_numpy(), dtype=float)
    try:
        return np.asarray(y.to_numpy(), dtype=float)
    except (ValueError, TypeError):
        raise InputError(f"analysis: {model.response}: a {model.family} model wants numbers") from None


def _fit(X: Any, y: Host, family: str, weights: Host | None, model: Analysis) -> dict[str, Coefficient]:
    """Coefficients that the records determine, with intervals and p-values."""
    import statsmodels.api as sm

    names, matrix = list(X.columns), np.asarray(X, dtype=float)
    if family == "gamma" and (y <= 0).any():
        raise InputError(f"analysis: {model.response}: a gamma model wants positive values; two-part takes zeros")
    if family == "logistic" and min(y.sum(), len(y) - y.sum()) < _EVENTS:
        raise InputError(f"analysis: {model.response}: fewer than {_EVENTS} records of one of its values")
    kept = _independent(matrix)
    if len(y) <= len(kept):
        raise InputError(f"analysis: {model.formula}: too few records")
    own = np.ones(len(y)) if weights is None else weights / weights.mean()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")  # separation shows in the intervals
        try:
            if family == "linear":
                found = sm.WLS(y, matrix[:, kept], weights=own).fit()
            else:
                gamma = sm.families.Gamma(sm.families.links.Log())
                chosen = gamma if family == "gamma" else sm.families.Binomial()
                found = sm.GLM(y, matrix[:, kept], family=chosen, var_weights=own).fit()
        except (np.linalg.LinAlgError, ValueError, ZeroDivisionError):
            raise InputError(f"analysis: {model.formula}: the model cannot be fitted") from None
    intervals, p = found.conf_int(), found.pvalues
    return {
        names[at]: Coefficient(
            float(found.params[place]), float(intervals[place][0]), float(intervals[place][1]), float(p[place])
        )
        for place, at in enumerate(kept)
        if np.isfinite(intervals[place]).all() and _rests_on_many(matrix[:, at])
    }


def _rests_on_many(column: Host) -> bool:
    """Whether a coefficient rests on enough records: that of a level which few people have tells their values."""
    usual = np.unique(column, return_counts=True)[1]
    return len(usual) == 1 or int(len(column) - usual.max()) >= FEWEST


def _independent(matrix: Host) -> list[int]:
    """Columns that do not depend on earlier ones, by a QR decomposition of the cross products."""
    scale = np.sqrt((matrix**2).sum(axis=0))
    kept: list[int] = []
    if not len(matrix):
        raise ParameterError("analysis: at least one record is needed")
    basis = np.empty((len(matrix), 0))
    for at in range(matrix.shape[1]):
        if scale[at] == 0:
            continue
        column = matrix[:, at] / scale[at]
        for _ in range(2):
            column = column - basis @ (basis.T @ column)
        left = float(np.sqrt((column**2).sum()))
        if left > 1e-7:
            basis = np.column_stack([basis, column / left])
            kept.append(at)
    return kept


def _analysis(c: Comparison, models: Sequence[Mapping[str, Any]] = ()) -> Measured:
    """Of the columns that the formulas name."""
    parsed = TypeAdapter(list[Analysis]).validate_python(list(models))
    if not parsed:
        raise MissingEvidence("needs models of analysts in the recipe ([[analysis]])")
    named = list(dict.fromkeys(name for model in parsed for name in model.columns))
    unknown = [name for name in named if name not in c.columns]
    if unknown:
        raise MissingEvidence(f"analysis: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    frames = frames_of(c, named)
    return analysis(frames[0], frames[1], parsed, weights=c.weights_or_none)


def frames_of(c: Comparison, named: Sequence[str]) -> tuple[Any, Any]:
    """Data frames of original and release for formulas; numbers and dates as numbers, everything else as text."""
    import pandas as pd

    def frame(side: Any, table: Any) -> Any:
        columns = {}
        for name in named:
            number = c.schema[name].kind in ("numeric", "date")
            text = table.arrow(name).to_pandas().astype("object")
            columns[name] = side[:, c.columns.index(name)] if number else text.to_numpy()
        return pd.DataFrame(columns)

    return frame(c.values[0], c.original), frame(c.values[1], c.points)


ANALYSIS = Measure(
    name="analysis", label="do the analysts' models give the same answers?",
    sentence="Estimates of the recipe's models from original and release, with their margins of error, differ this"
    " much: 0 same, 1 apart.",
    summary="one less the overlap of the intervals of coefficients of the recipe's models",
    family="utility", range=SHARE,
    usual="0: the same answers; 1: no interval in common",
    unit="table", function=analysis, compute=_analysis,
    options={"models": list[Analysis]}, arrays="values",
    weights=Weights(
        "estimates",
        "weights have their mean scaled to 1: coefficients are those of the population, intervals those of as many"
        " people as there are records",
    ),
    nulls="records without a value that a model needs are left out of it", scaling="whole",
    host="generalised linear models of statsmodels, as an analyst would fit them",
    source="Karr et al. 2006; Duan et al. 1983", sees="together", alone=True,
)  # fmt: skip
