"""Compare recipes: each is masked and measured, and the best of those that keep their limits is named.

A recipe may hold lists where a mask wants one value (``k = [5, 10, 20]``): a grid, of which every point is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import as_key
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import Measure, by_name
from gpuanon.errors import GuaranteeError, ParameterError
from gpuanon.recipe import Recipe, parse
from gpuanon.running.assess import check_names, compute
from gpuanon.running.protect import protect
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

MEASURES = ("reidentification", "prediction_distance", "information_loss", "correlations", "histogram_intersection")
"""What is measured unless the caller names something else: two of risk, then utility; the first of each decides."""

_LISTS = ("columns", "order")  # parameters whose value is a list


@dataclass(frozen=True)
class Trial:
    """One point of the grid.

    name     : the recipe, with the values that were chosen
    chosen   : those values
    measured : figures by name; empty when the release was refused
    refused  : why it was refused, or None
    failed   : why a measure could not be computed, by name
    rows     : of the release: out, added and dropped; empty when it was refused
    details  : all that was measured, by name, as ``assess`` has it
    """

    name: str
    chosen: Mapping[str, Any]
    measured: Mapping[str, float] = field(default_factory=dict)
    refused: str | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trials:
    """All points, and the best of those that were not refused.

    columns : the quasi-identifiers that every release was measured on
    decides : the measure that decides, the first of utility; None when there is none
    against : the measure of risk that stands beside it, the first; None when there is none
    best    : the point that is best by it; None when it could be measured for none
    """

    trials: tuple[Trial, ...]
    best: Trial | None
    columns: tuple[str, ...] = ()
    decides: str | None = None
    against: str | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know."""
        found = (
            [f"every release was measured on the quasi-identifiers {', '.join(self.columns)}"] if self.columns else []
        )
        if self.best is None:
            why = "no measure of utility was asked for" if self.decides is None else f"no {self.decides} was measured"
            found.append(f"no best is named: {why} for a release that was not refused")
        return tuple(found)

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write the map of risk and utility, and the table of all trials, as one HTML page."""
        from gpuanon.running.reports import compared, write_report

        write_report(compared(self), Path(path), force=force)

    def to_json(self) -> dict[str, Any]:
        """The object of ``compare --json``."""
        return {
            "trials": [
                {
                    "name": t.name,
                    "parameters": dict(t.chosen),
                    "measured": dict(t.measured),
                    "refused": t.refused,
                    "failed": dict(t.failed),
                    "rows": dict(t.rows),
                    "details": dict(t.details),
                }
                for t in self.trials
            ],
            "best": None if self.best is None else self.best.name,
            "quasi": list(self.columns),
            "notes": list(self.notes),
        }


def compare(
    data: Any,
    recipes: Sequence[Recipe | Mapping[str, Any] | str | Path],
    *,
    measures: Sequence[str] = MEASURES,
    rng: Any = None,
    backend: BackendName = "auto",
    reference: Any = None,
) -> Trials:
    """Mask `data` by every recipe (every point of its grid) and measure each release.

    Parameters
    ----------
    data : as for `gpuanon.protect`
    recipes : recipes that may hold lists of values; a point whose release breaks its guarantee or limits is refused,
        as is one whose parameters do not suit this table
    measures : names; the best point is the one with the best first measure of utility.  Their options are those of
        the first recipe, for all releases alike
    backend : where masks and measures run

    All releases are measured on the same columns: the union of the recipes' quasi-identifiers.

    Raises
    ------
    RecipeError, InputError
        When a recipe does not fit the table.
    """
    table, key, where = Table.of(data), as_key(rng), choose(backend)
    sample = None if reference is None else Table.of(reference)
    names = tuple(measures)
    check_names(names)
    points = [(name, chosen, Recipe.load(point)) for recipe in recipes for name, chosen, point in grid(recipe)]
    # A column that is not there is a fault of the recipe: it is named before anything is masked.
    schema = common_schema([Schema.resolve(table, recipe.columns, recipe.others) for _, _, recipe in points])
    options = points[0][2].measures  # the same for all, so that figures compare
    trials = []
    for name, chosen, recipe in points:
        try:
            release = protect(table, recipe, rng=key, backend=where.name, reference=sample)
        except (GuaranteeError, ParameterError) as error:
            trials.append(Trial(name, chosen, refused=str(error)))
            continue
        found = compute(Comparison(table, release.table, schema, release.link, sample, where), names, options)
        values = {measure: figure.value for measure, figure in found.measured.items()}
        rows = {what: release.manifest[what] for what in ("rows_out", "rows_added", "rows_dropped")}
        details = {measure: figure.to_json() for measure, figure in found.measured.items()}
        trials.append(Trial(name, chosen, values, failed=found.failed, rows=rows, details=details))
    decides = next((by_name()[name] for name in names if by_name()[name].family == "utility"), None)
    against = next((name for name in names if by_name()[name].family == "risk"), None)
    best = _best(trials, decides)
    return Trials(tuple(trials), best, schema.quasi, None if decides is None else decides.name, against)


def common_schema(schemas: Sequence[Schema]) -> Schema:
    """The schema that every release is measured by: a column is what the first recipe says, with a common role.

    A column that one recipe drops as an identifier is in none of the comparisons; otherwise a quasi-identifier of any
    recipe is one for all, then a sensitive column.
    """
    columns = []
    for column in schemas[0].columns:
        roles = [schema[column.name].role for schema in schemas]
        role = next((role for role in ("identifier", "quasi", "sensitive") if role in roles), column.role)
        says = next(schema[column.name] for schema in schemas if schema[column.name].role == role)
        columns.append(says)
    return schemas[0].model_copy(update={"columns": tuple(columns)})


def _best(trials: Sequence[Trial], decides: Measure | None) -> Trial | None:
    """The best of those that were measured by what decides; the first on a tie."""
    best: Trial | None = None
    for trial in trials:
        if decides is None or trial.refused is not None or decides.name not in trial.measured:
            continue
        if best is None or decides.exceeds(best.measured[decides.name], trial.measured[decides.name]):
            best = trial
    return best


def grid(recipe: Recipe | Mapping[str, Any] | str | Path) -> Iterator[tuple[str, dict[str, Any], Any]]:
    """Every point of a recipe's grid: its name, the values that were chosen, and the recipe with them."""
    if isinstance(recipe, Recipe):
        yield "recipe", {}, recipe
        return
    name = "recipe" if isinstance(recipe, Mapping) else Path(recipe).stem
    data = recipe if isinstance(recipe, Mapping) else parse(Path(recipe))
    masks = data.get("mask", []) if isinstance(data, Mapping) else []
    open_ = [
        (number, parameter, values)
        for number, mask in enumerate(masks if isinstance(masks, list) else [])
        for parameter, values in (mask.items() if isinstance(mask, Mapping) else ())
        if isinstance(values, list) and parameter not in _LISTS
    ]
    for choice in product(*(values for _, _, values in open_)):
        chosen = {
            (parameter if len(masks) == 1 else f"mask.{number}.{parameter}"): value
            for (number, parameter, _), value in zip(open_, choice, strict=True)
        }
        point = [dict(mask) if isinstance(mask, Mapping) else mask for mask in masks]
        for (number, parameter, _), value in zip(open_, choice, strict=True):
            point[number][parameter] = value
        label = ", ".join(f"{parameter} = {value}" for parameter, value in chosen.items())
        yield f"{name}: {label}" if label else name, chosen, {**data, "mask": point} if masks else data
