"""Which mask is proposed for a table: candidates are tried on a sample, and judged by utility and verdict.

Groups of equal records keep few columns well and destroy many; rows drawn anew from trees keep many columns, and
promise nothing that could be verified.  Each is tried on the table itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.assessing.run import measure
from gpuanon.assessing.streams import Pieces
from gpuanon.engine.protect import protect
from gpuanon.errors import GpuanonError
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

TRIAL_ROWS, TRIAL_CELLS, _LEAST_ROWS = 4_000, 120_000, 1_500
"""Rows of the sample on which masks are tried, and cells: of a wide table fewer rows, but the last number of them."""
GOOD_ENOUGH = 900.0
"""Score of `marginals` from which on the first candidate is taken."""
TRIAL_COLUMNS = 40
"""Columns that rows are drawn anew of in a trial, at most: what they reproduce is counted on sets of three columns."""
_BETTER = 25.0  # that a later candidate has to score more, if the verdict is the same


@dataclass(frozen=True)
class TriedMask:
    """A mask that was tried.

    name  : the method, with its k, and on how many columns it was tried if not on all
    mask  : as a recipe has it
    score : of `marginals`; None where it failed
    state : of the verdict, or why it failed
    """

    name: str
    mask: Mapping[str, Any]
    score: float | None
    state: str

    def __str__(self) -> str:
        return f"{self.name}: {'failed' if self.score is None else f'marginals {self.score:.0f}'}, {self.state}"


def tried(
    table: Table, recipe: Mapping[str, Any], masks: Sequence[Mapping[str, Any]]
) -> tuple[TriedMask, list[TriedMask]]:
    """The mask to propose, and all that were tried, on a random sample of the table."""
    rows = min(table.n_rows, TRIAL_ROWS, max(_LEAST_ROWS, TRIAL_CELLS // max(len(table.names), 1)))
    chosen = np.sort(np.random.default_rng(0).choice(table.n_rows, rows, replace=False))
    sample = table if rows == table.n_rows else table.take(chosen)
    found: list[TriedMask] = []
    with progress.stage("trials"):
        for at, mask in enumerate(masks):
            part, some = _on_some_columns(recipe, mask) if at else (recipe, mask)
            found.append(_try(sample, {**part, "mask": [some], "limits": {}}, mask))
            if part is not recipe:
                found[-1] = replace(found[-1], name=f"{found[-1].name}, on {TRIAL_COLUMNS} columns")
            if found[-1].state == "good" and (found[-1].score or 0.0) >= GOOD_ENOUGH:
                break
    return best_of(found), found


def _on_some_columns(recipe: Mapping[str, Any], mask: Mapping[str, Any]) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The recipe and the mask on `TRIAL_COLUMNS` columns of a wide table, chosen at random; else both as they are."""
    masked = [name for name, spec in recipe["columns"].items() if spec["role"] in ("quasi", "sensitive", "weight")]
    if len(masked) <= TRIAL_COLUMNS:
        return recipe, mask
    kept = set(np.random.default_rng(1).choice(masked, TRIAL_COLUMNS, replace=False).tolist())
    columns = {
        name: {"role": "dropped"} if name in masked and name not in kept else spec
        for name, spec in recipe["columns"].items()
    }
    listed = mask.get("columns")
    some = {**mask, "columns": [name for name in listed if name in kept]} if isinstance(listed, list) else mask
    return {**recipe, "columns": columns}, some


def best_of(found: Sequence[TriedMask]) -> TriedMask:
    """The best verdict, then the better score; an earlier candidate unless a later one is clearly better."""
    order = {"good": 0, "open": 1, "bad": 2}
    best = found[0]
    for one in found[1:]:
        if one.score is None:
            continue
        states = order.get(one.state, 3), order.get(best.state, 3)
        gain = one.score - (best.score or 0.0)
        if best.score is None or states[0] < states[1] or (states[0] == states[1] and gain > _BETTER):
            best = one
    return best


def _try(sample: Table, recipe: Mapping[str, Any], mask: Mapping[str, Any]) -> TriedMask:
    name = f"{mask['method']}" + (f", k = {mask['k']}" if "k" in mask else "")
    try:
        loaded = Recipe.load(recipe)
        release = protect(sample, loaded)
        schema = Schema.resolve(sample, loaded.columns, loaded.others, loaded.unit)
        figures = measure(Pieces.of(sample), Pieces.of(release.table), schema, ("marginals",), link=release.link)
    except GpuanonError as error:
        return TriedMask(name, mask, None, str(error).splitlines()[0])
    if "marginals" not in figures.measured:
        return TriedMask(name, mask, None, figures.failed["marginals"])
    return TriedMask(name, mask, figures.measured["marginals"].value, release.manifest["verdict"]["state"])
