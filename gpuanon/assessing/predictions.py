"""The predictions of ``[[workload]]``, from the original and from the release: what does the mask add to their bias?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from gpuanon.arrays.backend import Host
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.declared_models import Conditions, ValueRange, Workload
from gpuanon.assessing.evidence import MissingEvidence
from gpuanon.assessing.figures import By, Compared, Figure, Measured, join
from gpuanon.assessing.measure import FROM_0, USED, Measure
from gpuanon.assessing.utility import analysis
from gpuanon.assessing.utility.analysis import FEWEST, frames_of
from gpuanon.assessing.weighting import quantiles
from gpuanon.errors import InputError, ParameterError
from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.table import Table


@dataclass(frozen=True, eq=False)
class _Side:
    """Records of one table with all that a workload needs.

    cells    : (n, d) predictors as levels from 0
    terms    : (n, t) terms of the formula without the intercept; None: indicators of the cells
    response : (n,)
    weights  : (n,) people that each stands for
    """

    cells: Host
    terms: Host | None
    response: Host
    weights: Host

    def take(self, rows: Host) -> _Side:
        terms = None if self.terms is None else self.terms[rows]
        return _Side(self.cells[rows], terms, self.response[rows], self.weights[rows])


def workload(c: Comparison, workloads: Sequence[Mapping[str, Any]] = ()) -> Measured:
    """The largest change of a relative bias, in points of per cent; both biases, by workload and subgroup.

    The existing market's records, of the original and of the release, are weighted to the cells of the new one and
    predict the response of the original's records there: what an analyst does who has the release, and knows of the new
    market what predicts but not what is predicted.  A market or subgroup of fewer than `FEWEST` records is refused:
    its bias would tell the mean of a few people.
    """
    parsed = TypeAdapter(list[Workload]).validate_python(list(workloads))
    if not parsed:
        raise MissingEvidence("needs predictions of analysts in the recipe ([[workload]])")
    unknown = sorted({name for one in parsed for name in one.named} - set(c.columns))
    if unknown:
        raise MissingEvidence(f"workload: {', '.join(map(repr, unknown))}: there is no such column that is compared")
    before: dict[str, dict[str, float | None]] = {}
    after: dict[str, dict[str, float | None]] = {}
    notes: list[str] = []
    for number, one in enumerate(parsed, 1):
        label = one.label if len(parsed) == 1 else f"{number}: {one.label}"
        first, second = _both(c, one, label, notes)
        before |= {label + name: figures for name, figures in first.items()}
        after |= {label + name: figures for name, figures in second.items()}
    added = {name: abs(float(after[name]["bias"] or 0) - float(before[name]["bias"] or 0)) for name in before}
    details: dict[str, Figure] = {"workloads": len(parsed), "predictions": len(before)}
    parts = (By("prediction", dict(added)), Compared("prediction", before, after))
    return Measured(max(added.values()), details, join(*notes), parts=parts)


def _both(c: Comparison, one: Workload, label: str, notes: list[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Figures of the predictions from the original's and the release's records: all, and each subgroup."""
    sides, kept, levels = _sides(c, one)
    for side, rows, table in zip(("original", "release"), kept, (c.original, c.points), strict=True):
        if len(rows) < table.n_rows:
            notes.append(f"{label}: {table.n_rows - len(rows)} records of the {side} were left out")
    new = np.flatnonzero(_meeting(c, 0, one.new)[kept[0]])
    people = sides[0].take(new)
    inside = {"": np.ones(len(new), dtype=bool)}
    for name, conditions in one.subgroups.items():
        inside[f" | {name}"] = _meeting(c, 0, conditions)[kept[0]][new]
    for name, rows in inside.items():
        _require_many(int(rows.sum()), f"{label}{name}: of the new market")
        if not rows.all():  # their figures follow by subtraction
            _require_many(int((~rows).sum()), f"{label}{name}: of the new market outside this subgroup")
    found = []
    for at, side in enumerate(("original", "release")):
        rows = np.flatnonzero(_meeting(c, at, one.existing)[kept[at]])
        _require_many(len(rows), f"{label}: of the existing market in the {side}")
        found.append(_figures(one, sides[at].take(rows), people, inside, levels, label))
    return found[0], found[1]


def _figures(
    one: Workload, known: _Side, people: _Side, inside: Mapping[str, Host], levels: tuple[int, ...], label: str
) -> dict[str, dict[str, float | None]]:
    """Relative bias of the mean of all people and of each subgroup, in per cent; R², and how alike the markets are.

    deviation  : of the predicted mean by chance, √(variance / people), in per cent: a bias far below it does not matter
    shift      : mean response of the new market over that of the existing one less 1, in per cent
    similarity : histogram intersection of the weighted existing records and the new market
    gap        : largest less smallest bias of a subgroup, in points
    """
    from gpuanon.assessing.workloads.market import market_weights, similarity
    from gpuanon.assessing.workloads.prediction_errors import aggregate_error
    from gpuanon.assessing.workloads.regression import Coding, fit_cost, r_squared

    for name, rows in inside.items():
        if not people.weights[rows] @ people.response[rows] > 0:
            raise InputError(f"workload: {label}{name}: a relative bias needs a mean of the response above 0")
    try:
        weights = known.weights * market_weights(
            known.cells, known.cells, people.cells, one.shift, levels,
            p_weights=known.weights, q_weights=people.weights,
        )  # fmt: skip
        coding: Coding = "dummy" if known.terms is None else "numeric"
        x, wanted = (side.cells if side.terms is None else side.terms for side in (known, people))
        fit = fit_cost(
            x, known.response, weights, model=one.kind, coding=coding, levels=levels if coding == "dummy" else None
        )
        predicted = fit.predict(wanted)
    except ParameterError as error:
        raise InputError(f"workload: {label}: {error}") from None
    actual, own = people.response, people.weights
    existing = float(np.average(known.response, weights=known.weights))
    errors = {name: aggregate_error(predicted[r], actual[r], own[r]) for name, r in inside.items()}
    bias = {name: error.bias for name, error in errors.items()}
    out: dict[str, dict[str, float | None]] = {
        name: {"bias": error.bias, "deviation": error.deviation} for name, error in errors.items()
    }
    out[""] |= {
        "r2": r_squared(predicted, actual, own) if np.ptp(actual) > 0 else None,
        "similarity": similarity(known.cells, weights, people.cells, own),
        "shift": 100 * (float(np.average(actual, weights=own)) / existing - 1) if existing else None,
    }
    if len(bias) > 2:
        apart = [value for name, value in bias.items() if name]
        out[""]["gap"] = max(apart) - min(apart)
    return out


def _sides(c: Comparison, one: Workload) -> tuple[list[_Side], list[Host], tuple[int, ...]]:
    """Both tables, the rows of each that have every value the workload needs, and the levels of each predictor."""
    at = c.columns.index(one.target)
    if c.schema[one.target].kind != "numeric":
        raise InputError(f"workload: {one.target}: the response has to be a column of numbers")
    cells = [np.empty((len(values), len(one.predictors)), dtype=np.int64) for values in c.values]
    for place, name in enumerate(one.predictors):
        j = c.columns.index(name)
        numbers = c.schema[name].kind in ("numeric", "date")
        sides = c.values if numbers else c.codes
        cuts = _cuts(c.values[0][:, j], one.bins, c.weights_or_none) if numbers else None
        for out, values in zip(cells, (side[:, j] for side in sides), strict=True):
            out[:, place] = _level(values, cuts)
    levels = tuple(int(max(side[:, j].max() for side in cells)) + 1 for j in range(len(one.predictors)))
    kept = [np.flatnonzero(~np.isnan(values[:, at])) for values in c.values]
    terms: list[Host | None] = [None, None]
    if one.model is not None:
        analysis.require()
        frames = frames_of(c, one.model.columns)
        rows = [analysis.complete(frame, one.model, frames[0]) for frame in frames]
        kept = [frame.index.to_numpy() for frame in rows]
        _require_many(min(map(len, kept)), f"{one.label}: with every value")
        terms = [_without_intercept(analysis.design_matrix(one.model, rows[0], frame)) for frame in rows]
    weights = c.weights_or_none or tuple(np.ones(len(values)) for values in c.values)
    both = [
        _Side(cells[s][kept[s]], terms[s], c.values[s][kept[s], at], weights[s][kept[s]]) for s in (0, 1)
    ]  # fmt: skip
    return both, kept, levels


def _cuts(values: Host, bins: int, weights: tuple[Host, Host] | None) -> Host:
    """Where the bins of a column begin: between neighbours of at most `bins` distinct values, else at quantiles."""
    there = ~np.isnan(values)
    known = values[there]
    distinct = np.unique(known)
    if len(distinct) <= bins:
        return np.asarray((distinct[1:] + distinct[:-1]) / 2)
    return np.unique(quantiles(known, np.arange(1, bins) / bins, None if weights is None else weights[0][there]))


def _level(values: Host, cuts: Host | None) -> Host:
    """Levels from 1 of numbers between cuts, or of codes from 0; 0 for null."""
    if cuts is None:
        return np.asarray(values + 1)
    return np.where(np.isnan(values), 0, 1 + np.searchsorted(cuts, values, side="right"))


def _without_intercept(matrix: Any) -> Host:
    """The terms of a design but for its intercept, which every model of `fit_cost` has."""
    return np.asarray(matrix[[name for name in matrix.columns if name != "Intercept"]], dtype=np.float64)


def _meeting(c: Comparison, side: int, conditions: Conditions) -> Host:
    """(n,) whether each record of the original (0) or the release (1) meets all the conditions."""
    table = (c.original, c.points)[side]
    met = np.ones(table.n_rows, dtype=bool)
    for name, wanted in conditions.items():
        if c.schema[name].kind == "numeric":
            met &= _number_meets(c.values[side][:, c.columns.index(name)], wanted, name)
        elif isinstance(wanted, ValueRange):
            raise InputError(f"workload: {name}: a range is a condition on numbers")
        else:
            met &= _text_meets(table, name, wanted if isinstance(wanted, list) else [wanted])
    return met


def _number_meets(values: Host, wanted: Any, name: str) -> Host:
    if isinstance(wanted, ValueRange):
        low, high = (-np.inf if wanted.low is None else wanted.low), (np.inf if wanted.high is None else wanted.high)
        return np.asarray((values >= low) & (values < high))
    numbers = wanted if isinstance(wanted, list) else [wanted]
    if any(isinstance(value, (str, bool)) for value in numbers):
        raise InputError(f"workload: {name}: a condition on a column of numbers is a number, a list or a range")
    return np.isin(values, np.asarray(numbers, dtype=np.float64))


def _text_meets(table: Table, name: str, wanted: Sequence[Any]) -> Host:
    """Values are compared as text; a null meets nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table.arrow(name)
    column = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
    texts = [str(value).lower() if isinstance(value, bool) else str(value) for value in wanted]
    return numpy_array(pc.is_in(column.cast(pa.string()), value_set=arrow_array(texts, pa.string())))


def _require_many(count: int, what: str) -> None:
    if count < FEWEST:
        raise InputError(f"workload: {what} there are fewer than {FEWEST} records")


WORKLOAD = Measure(
    name="workload", label="do the analysts' predictions stay as good?",
    sentence="Predictions of the recipe made from the release are off by this many more points of per cent than"
    " those made from the original.",
    summary="largest change of the relative bias of the recipe's predictions, in points of per cent",
    family="utility", range=FROM_0,
    usual="0: as good as from the original",
    unit="table", function=workload, compute=workload,
    options={"workloads": list[Workload]}, arrays="values", weights=USED,
    nulls="a missing predictor is a level of its own; records without a response are left out", scaling="whole",
    host="generalised linear models of scikit-learn, as an analyst would fit them",
    source="Wei, Ramamurthy and Varshney 2018", sees="together", alone=True,
)  # fmt: skip
