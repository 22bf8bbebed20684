"""Compare recipes: each is masked and measured, and the best of those that keep their limits is named.

A recipe may hold lists where a mask wants one value (``k = [5, 10, 20]``): a grid, of which every point is tried.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key, as_key
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import check_names
from gpuanon.comparing.grid import Point, common_schema, grid, start_of, suggested, with_any_mask
from gpuanon.comparing.running import Job, Journal, Setting, job_digest, run_trials, table_digest
from gpuanon.comparing.trials import CHOOSES, Trial, Trials, best_of, rule_of
from gpuanon.engine.inputs import read_table
from gpuanon.engine.series_runs import prepared_for_all
from gpuanon.engine.workers import Workers
from gpuanon.engine.workers.processes import Ended
from gpuanon.errors import ParameterError
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import io
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

USUAL_MEASURES = ("singled_out", "copies", "marginals", "information_loss")
"""What is measured unless the caller names something else; the interval overlap of declared analyses comes on top."""

SUGGESTED_SECONDS = 55.0
"""Time of a suggested grid on the command line, unless another is given."""


def compare(
    data: Any,
    recipes: Sequence[Recipe | Mapping[str, Any] | str | Path],
    *,
    measures: Sequence[str] = USUAL_MEASURES,
    rng: Any = None,
    backend: BackendName = "auto",
    reference: Any = None,
    choose_by: str | None = None,
    limits: Mapping[str, float] | None = None,
    suggest: bool = False,
    workers: int | Workers | None = 1,
    journal: Journal | None = None,
    seconds: float | None = None,
) -> Trials:
    """Mask `data` by every recipe (every point of its grid) and measure each release.

    Parameters
    ----------
    data : as for `gpuanon.protect`
    recipes : recipes that may hold lists of values; a point whose release breaks its guarantee or limits is refused,
        as is one whose parameters do not suit this table
    measures : names; their options are those of the first recipe, for all releases alike
    backend : where masks and measures run
    choose_by : the measure of utility by which the best is chosen, of releases that keep their limits and whose verdict
        is not bad; None: ``"marginals"``, which is then measured in any case; ``"mean-rank"``: the best mean rank over
        all measures of utility that were asked for and do not compare single records.  A measure that compares single
        records chooses among releases that keep all of them.  A release that only drops rows is chosen where no other
        qualifies
    limits : further limits, for every recipe; a release that does not keep them is refused
    suggest : try a grid of all methods that suit the columns, instead of the recipes' masks; the first recipe says
        columns and limits, or none does
    workers : number of processes that share the trials, 0 or 1: this process; None for as many as there are cores,
        where that is worth their start.  A script that asks for several has to be one that can be imported
    journal : where finished trials are written down, and taken from when they are there
    seconds : for all trials; what is not done by then is left out and named.  A trial under way is ended where
        processes run them, and where it takes a quarter of the time while others wait.  Methods run in the order of
        the time that they took on small samples.  None: as long as it takes

    All releases are measured on the same columns: the union of the recipes' quasi-identifiers.

    Raises
    ------
    RecipeError, InputError
        When a recipe does not fit the table.

    Examples
    --------
    >>> import gpuanon, pyarrow as pa
    >>> table = pa.table({"age": [31, 35, 52, 58, 64, 69], "cost": [1.0, 2.0, 2.5, 4.0, 3.0, 6.0]})
    >>> recipe = {
    ...     "columns": {"age": {"role": "quasi"}, "cost": {"role": "quasi"}},
    ...     "mask": [{"method": "microaggregation", "k": [2, 3]}],
    ... }
    >>> trials = gpuanon.compare(table, [recipe], measures=["information_loss"], choose_by="information_loss")
    >>> [trial.name for trial in trials.trials]
    ['recipe: k = 2', 'recipe: k = 3']
    >>> trials.best.chosen
    {'k': 2}
    """
    if isinstance(recipes, (str, Path, Mapping, Recipe)):  # letters, or names of settings, would be taken for recipes
        raise ParameterError("recipes: a list of recipes is allowed, got one recipe", hint="[recipe]")
    if not recipes and not suggest:
        raise ParameterError("recipes: at least one is needed")
    began = time.monotonic()
    check_names(measures)
    table, names = Table.of(data), tuple(measures)
    sample = None if reference is None else Table.of(reference)
    points, left_out = _points(table, recipes, suggest)
    points = [_limited(point, limits or {}) for point in points]
    if choose_by is None or choose_by == CHOOSES:
        names = tuple(dict.fromkeys((*names, CHOOSES)))
    table, seen = prepared_for_all(table, [Recipe.load(point.data) for point in points])
    loaded, sample = [one.recipe for one in seen], seen[0].same_columns(sample)
    # A column that is not there is a fault of the recipe: it is named before anything is masked.
    schema = common_schema([Schema.resolve(table, recipe.columns, recipe.others, recipe.unit) for recipe in loaded])
    options = loaded[0].options  # the same for all, so that figures compare
    names = tuple(dict.fromkeys((*names, *(name for name in ("analysis",) if name in options))))
    decides, rule = rule_of(names, choose_by)
    key = as_key(rng)
    setting = Setting(table, sample, schema, names, options, key, choose(backend).name)
    own = "" if rng is None else key.digest()
    common = [table_digest(table), table_digest(sample), list(names), options, own] if journal is not None else []
    jobs = [
        Job(job_digest(point.mapping, *common) if journal is not None else str(at), recipe, _family(recipe))
        for at, (point, recipe) in enumerate(zip(points, loaded, strict=True))
    ]
    found = run_trials(setting, jobs, journal, workers, None if seconds is None else began + seconds)
    trials = tuple(
        Trial(point.name, point.chosen, recipe=point.mapping, **figures)
        for point, figures in zip(points, found, strict=True)
        if not isinstance(figures, Ended)
    )
    left_out |= {p.name: _why(one) for p, one in zip(points, found, strict=True) if isinstance(one, Ended)}
    against = next((name for name in names if MEASURES[name].family == "risk"), None)
    best = best_of(trials, names, choose_by)
    return Trials(trials, best, schema.quasi, decides.name, against, rule, left_out)


def _family(recipe: Recipe) -> tuple[str, ...]:
    """What the time of a trial depends on, beside the table: the methods, or the parts of a free combination."""
    parts = [getattr(mask, "method", None) or mask.combination().model_dump_json() for mask in recipe.mask]
    return tuple(map(str, parts))


def _why(ended: Ended) -> str:
    """Why a trial was left out."""
    if not ended.by_us:
        return "its process was ended, perhaps for want of memory"
    if ended.seconds is None:
        return "the time was over before it began"
    return f"not done after {ended.seconds:.0f} s; a longer --time may include it"


def _points(table: Table, recipes: Sequence[Any], suggest: bool) -> tuple[list[Point], dict[str, str]]:
    """All points of all grids, or those of a suggested one with the methods that do not suit the table."""
    if suggest:
        return suggested(table, start_of(recipes))
    return [point for recipe in recipes for point in grid(recipe)], {}


def _limited(point: Point, limits: Mapping[str, float]) -> Point:
    """The point with further limits."""
    if not limits:
        return point
    data = point.mapping
    return replace(point, data={**data, "limits": {**data.get("limits", {}), **limits}})


@dataclass(frozen=True)
class Choosing:
    """How the command line compares: see `compare`.

    journal : file of finished trials; None for none
    resume  : take finished trials from it
    force   : replace the journal of an interrupted comparison
    seconds : for reading and all trials; None: as long as it takes, of a suggested grid `SUGGESTED_SECONDS`
    """

    choose_by: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    suggest: bool = False
    workers: int | None = None
    journal: Path | None = None
    resume: bool = False
    force: bool = False
    seconds: float | None = None


def compare_files(
    source: Path,
    recipes: list[Path],
    *,
    names: tuple[str, ...] | None = None,
    reference: Path | None = None,
    backend: BackendName = "auto",
    key_file: Path | None = None,
    how: Choosing | None = None,
) -> Trials:
    """Mask and measure the table in a file by several recipes."""
    began, how = time.monotonic(), how or Choosing()
    with progress.stage("read"):
        if how.suggest:
            start = start_of(recipes)
            table, sample = _read_for(start, source), None if reference is None else _read_for(start, reference)
        else:
            # All points are looked at before the table is read: a fault in one is named at once.
            loaded = [Recipe.load(point.data) for recipe in recipes for point in grid(recipe)]
            table = read_table(source, loaded[0]) if loaded else io.read(source)
            sample = None if reference is None or not loaded else read_table(reference, loaded[0])
    seconds = how.seconds or (SUGGESTED_SECONDS if how.suggest else None)
    known = key_file is not None or "GPUANON_KEY" in os.environ
    journal = None if how.journal is None else Journal(how.journal, resume=how.resume, force=how.force)
    return compare(
        table, recipes, measures=names or USUAL_MEASURES, rng=Key.find(key_file) if known else None, backend=backend,
        reference=sample, choose_by=how.choose_by, limits=how.limits, suggest=how.suggest, workers=how.workers,
        journal=journal, seconds=None if seconds is None else max(0.0, seconds - (time.monotonic() - began)),
    )  # fmt: skip


def _read_for(start: Mapping[str, Any], path: Path) -> Table:
    """A table as a recipe whose masks are not known says that it is to be read."""
    if "columns" in start:
        return read_table(path, with_any_mask(start))
    return io.read(path, csv=CsvOptions.model_validate(start.get("csv", {})))
