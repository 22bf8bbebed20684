"""Compare recipes: each is masked and measured, and the best of those that keep their limits is named.

A recipe may hold lists where a mask wants one value (``k = [5, 10, 20]``): a grid, of which every point is tried.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from gpuanon.arrays.backend import BackendName
from gpuanon.arrays.rng import Key
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measures import by_name
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe, parse
from gpuanon.running.assess import compute
from gpuanon.running.memory import as_key, protect
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
    """

    name: str
    chosen: Mapping[str, Any]
    measured: Mapping[str, float] = field(default_factory=dict)
    refused: str | None = None


@dataclass(frozen=True)
class Trials:
    """All points, and the best of those that were not refused: the one of least utility lost."""

    trials: tuple[Trial, ...]
    best: Trial | None

    def to_json(self) -> dict[str, Any]:
        """The object of ``compare --json``."""
        return {
            "trials": [
                {"name": t.name, "parameters": dict(t.chosen), "measured": dict(t.measured), "refused": t.refused}
                for t in self.trials
            ],
            "best": None if self.best is None else self.best.name,
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
    recipes : recipes that may hold lists of values; a point whose release breaks its guarantee or limits is refused
    measures : names; the best point is the one with the best first measure of utility
    """
    table, key = Table.of(data), as_key(rng)
    sample = None if reference is None else Table.of(reference)
    points = [(name, chosen, Recipe.load(point)) for recipe in recipes for name, chosen, point in grid(recipe)]
    trials = [
        _tried(table, name, chosen, recipe, tuple(measures), key, backend, sample) for name, chosen, recipe in points
    ]
    decides = next((by_name()[name] for name in measures if by_name()[name].family == "utility"), None)
    kept = [trial for trial in trials if trial.refused is None and (decides is None or decides.name in trial.measured)]
    best = None
    for trial in kept:
        if best is None or (decides and decides.exceeds(best.measured[decides.name], trial.measured[decides.name])):
            best = trial
    return Trials(tuple(trials), best)


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


def _tried(
    table: Table,
    name: str,
    chosen: Mapping[str, Any],
    recipe: Recipe,
    measures: tuple[str, ...],
    key: Key,
    backend: BackendName,
    reference: Table | None,
) -> Trial:
    """Mask and measure one point."""
    try:
        release = protect(table, recipe, rng=key, backend=backend, reference=reference)
    except GpuanonError as error:
        return Trial(name, chosen, refused=str(error))
    schema = Schema.resolve(table, recipe.columns)
    found = compute(Comparison(table, release.table, schema, release.link, reference), measures)
    return Trial(name, chosen, {measure: figure.value for measure, figure in found.measured.items()})
