"""Compare recipes: each is masked and measured, and the best of those that keep their limits is named.

A recipe may hold lists where a mask wants one value (``k = [5, 10, 20]``): a grid, of which every point is tried.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import as_key
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.run import check_names
from gpuanon.comparing.grid import Point, common_schema, grid, suggested
from gpuanon.comparing.journal import Journal, job_digest, table_digest
from gpuanon.comparing.recipe_text import recipe_text
from gpuanon.comparing.trials import Figures, Setting, run_trial, workers_for
from gpuanon.engine.outputs import RECIPE_MARK, Guard, write_report
from gpuanon.engine.run import once
from gpuanon.engine.series_runs import prepared_for_all
from gpuanon.engine.store import MemoryStore
from gpuanon.engine.workers import Workers
from gpuanon.errors import ParameterError, Remark
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import io
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

USUAL_MEASURES = (
    "reidentification", "prediction_distance", "information_loss", "correlations", "histogram_intersection",
)  # fmt: skip
"""What is measured unless the caller names something else: two of risk, then utility; the first of each decides."""

MEAN_RANK = "mean-rank"
"""The rule by which the release with the best mean rank over all measures of utility is chosen."""


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
    recipe   : the recipe of this point, ready to be written
    seconds  : that masking and measuring took
    """

    name: str
    chosen: Mapping[str, Any]
    measured: Mapping[str, float] = field(default_factory=dict)
    refused: str | None = None
    failed: Mapping[str, str] = field(default_factory=dict)
    rows: Mapping[str, int] = field(default_factory=dict)
    details: Mapping[str, Any] = field(default_factory=dict)
    recipe: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True)
class Trials:
    """All points, and the best of those that were not refused.

    columns : the quasi-identifiers that every release was measured on
    decides : the measure of utility on the map, which decides unless the rule is another; None when there is none
    against : the measure of risk that stands beside it, the first; None when there is none
    best    : the point that is best by the rule; None when it could be measured for none
    rule    : how the best was chosen, in words
    """

    trials: tuple[Trial, ...]
    best: Trial | None
    columns: tuple[str, ...] = ()
    decides: str | None = None
    against: str | None = None
    rule: str = ""
    notes_of_run: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """The measures of every release, one release per line; `to_json` has their details."""
        lines = [f"Comparison of {len(self.trials)} releases"]
        for trial in self.trials:
            figures = ", ".join(f"{name} {value:.4g}" for name, value in trial.measured.items())
            lines.append(f"  {trial.name}: {figures or 'refused'}{'  (best)' if trial is self.best else ''}")
        return "\n".join(lines)

    @property
    def notes(self) -> tuple[str, ...]:
        """What the reader must know."""
        found = (
            [f"every release was measured on the quasi-identifiers {', '.join(self.columns)}"] if self.columns else []
        )
        if self.best is None:
            why = "no measure of utility was asked for" if self.decides is None else f"no {self.decides} was measured"
            found.append(f"no best is named: {why} for a release that was not refused")
        return (*found, *self.notes_of_run)

    @property
    def front(self) -> tuple[int, ...]:
        """Numbers, from 0, of the trials that no other beats in both risk and utility, from the least risk on."""
        if self.decides is None or self.against is None:
            return ()
        risk, utility = MEASURES[self.against], MEASURES[self.decides]
        known = [n for n, t in enumerate(self.trials) if {risk.name, utility.name} <= t.measured.keys()]
        kept = [n for n in known if not any(self._beats(other, n, risk, utility) for other in known)]
        sign = 1 if risk.better == "lower" else -1
        return tuple(sorted(kept, key=lambda n: sign * self.trials[n].measured[risk.name]))

    def _beats(self, one: int, other: int, risk: Measure, utility: Measure) -> bool:
        """Whether `one` is better in one of both and not worse in the other."""
        mine, theirs = self.trials[one].measured, self.trials[other].measured
        worse = any(m.exceeds(mine[m.name], theirs[m.name]) for m in (risk, utility))
        return not worse and any(m.exceeds(theirs[m.name], mine[m.name]) for m in (risk, utility))

    def report(self, path: str | Path, *, force: bool = False) -> None:
        """Write the map of risk and utility, and the table of all trials, as one HTML page."""
        from gpuanon.report.contents import compared

        write_report(compared(self), path, force=force)

    def write_best(self, path: str | Path, *, force: bool = False) -> None:
        """Write the recipe of the best release, ready to be run; TOML, or JSON where the name ends so."""
        if self.best is None:
            raise ParameterError("best: no release was chosen, so that there is no recipe to write")
        with io.Writing(force=force, guard=Guard()) as out:
            out.text(path, self.best_recipe(Path(path)))

    def best_recipe(self, path: Path = Path("best.toml")) -> str:
        """The text of the recipe of the best release; empty where there is none."""
        if self.best is None:
            return ""
        head = "" if path.suffix.lower() == ".json" else f"{RECIPE_MARK}: {self.rule}\n"
        return head + recipe_text(self.best.recipe, path)

    def _repr_html_(self) -> str | None:
        """What a notebook shows: the page of the comparison."""
        from gpuanon.report.contents import compared
        from gpuanon.report.page import shown_in_notebook

        return shown_in_notebook(compared(self))

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
                    "seconds": t.seconds,
                }
                for t in self.trials
            ],
            "best": None if self.best is None else self.best.name,
            "recipe": None if self.best is None else dict(self.best.recipe),
            "rule": self.rule,
            "front": [self.trials[number].name for number in self.front],
            "quasi": list(self.columns),
            "notes": list(self.notes),
        }


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
) -> Trials:
    """Mask `data` by every recipe (every point of its grid) and measure each release.

    Parameters
    ----------
    data : as for `gpuanon.protect`
    recipes : recipes that may hold lists of values; a point whose release breaks its guarantee or limits is refused,
        as is one whose parameters do not suit this table
    measures : names; their options are those of the first recipe, for all releases alike
    backend : where masks and measures run
    choose_by : the measure of utility by which the best is chosen, of those that keep their limits; None: the first of
        `measures`; ``"mean-rank"``: the best mean rank over all measures of utility that were asked for
    limits : further limits, for every recipe; a release that does not keep them is refused
    suggest : try a grid of all methods that suit the columns, instead of the recipes' masks; the first recipe says
        columns and limits, or none does
    workers : number of processes that share the trials, 0 or 1: this process; None for as many as there are cores,
        where that is worth their start.  A script that asks for several has to be one that can be imported
    journal : where finished trials are written down, and taken from when they are there

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
    >>> trials = gpuanon.compare(table, [recipe], measures=["k_anonymity", "information_loss"])
    >>> [trial.name for trial in trials.trials]
    ['recipe: k = 2', 'recipe: k = 3']
    >>> trials.best.chosen
    {'k': 2}
    """
    if isinstance(recipes, (str, Path, Mapping, Recipe)):  # letters, or names of settings, would be taken for recipes
        raise ParameterError("recipes: a list of recipes is allowed, got one recipe", hint="[recipe]")
    if not recipes and not suggest:
        raise ParameterError("recipes: at least one is needed")
    check_names(measures)
    table, names = Table.of(data), tuple(measures)
    sample = None if reference is None else Table.of(reference)
    decides, rule = _rule(names, choose_by)
    points = [_limited(point, limits or {}) for point in _points(table, recipes, suggest)]
    table, seen = prepared_for_all(table, [Recipe.load(point.data) for point in points])
    loaded, sample = [one.recipe for one in seen], seen[0].same_columns(sample)
    # A column that is not there is a fault of the recipe: it is named before anything is masked.
    schema = common_schema([Schema.resolve(table, recipe.columns, recipe.others) for recipe in loaded])
    options = loaded[0].options  # the same for all, so that figures compare
    key = as_key(rng)
    setting = Setting(table, sample, schema, names, options, key, choose(backend).name)
    own = "" if rng is None else key.digest()
    common = [table_digest(table), table_digest(sample), list(names), options, own] if journal is not None else []
    digests = [job_digest(point.mapping, *common) for point in points]
    found = _run(setting, loaded, digests, journal, workers)
    trials = tuple(
        Trial(point.name, point.chosen, recipe=point.mapping, **figures)
        for point, figures in zip(points, found, strict=True)
    )
    against = next((name for name in names if MEASURES[name].family == "risk"), None)
    result = Trials(trials, None, schema.quasi, None if decides is None else decides.name, against, rule)
    return replace(result, best=_mean_rank_best(trials, names) if choose_by == MEAN_RANK else _best(trials, decides))


def _points(table: Table, recipes: Sequence[Any], suggest: bool) -> list[Point]:
    """All points of all grids, or those of a suggested one."""
    if not suggest:
        if not recipes:
            raise ParameterError("recipes: at least one is needed", hint="--suggest makes a grid for the table")
        return [point for recipe in recipes for point in grid(recipe)]
    start = next(iter(grid(recipes[0]))).mapping if recipes else {}
    return suggested(table, start)


def _limited(point: Point, limits: Mapping[str, float]) -> Point:
    """The point with further limits."""
    if not limits:
        return point
    data = point.mapping
    return replace(point, data={**data, "limits": {**data.get("limits", {}), **limits}})


def _rule(names: Sequence[str], choose_by: str | None) -> tuple[Measure | None, str]:
    """The measure of utility on the map, and the rule of the choice in words."""
    known = MEASURES
    useful = [known[name] for name in names if known[name].family == "utility"]
    if choose_by is None or choose_by == MEAN_RANK:
        decides = useful[0] if useful else None
        if choose_by == MEAN_RANK:
            return decides, "the best mean rank over " + ", ".join(measure.name for measure in useful)
        return decides, "" if decides is None else f"the {_way(decides)} {decides.name}"
    if choose_by not in [measure.name for measure in useful]:
        raise ParameterError(
            f"choose: {choose_by!r} is not among the measures of utility that are computed",
            hint=f"there are {', '.join([*(measure.name for measure in useful), MEAN_RANK])}",
        )
    return known[choose_by], f"the {_way(known[choose_by])} {choose_by}"


def _way(measure: Measure) -> str:
    return "lowest" if measure.better == "lower" else "highest"


def _run(
    setting: Setting,
    recipes: Sequence[Recipe],
    digests: Sequence[str],
    journal: Journal | None,
    workers: int | Workers | None,
) -> list[Figures]:
    """The figures of every recipe, in their order; those in the journal are not computed again."""
    left = len(recipes) if journal is None else sum(digest not in journal.done for digest in digests)
    run = workers_for(setting, left, workers)
    task = partial(once, MemoryStore() if journal is None else journal, partial(run_trial, setting))
    with progress.stage("compare"):
        try:
            return run(task, list(zip(digests, recipes, strict=True)))
        except BaseException as error:
            if journal is not None and (finished := journal.finished):
                error.add_note(Remark(f"{finished} finished trials are in {journal.path}; --resume goes on"))
            raise


def _best(trials: Sequence[Trial], decides: Measure | None) -> Trial | None:
    """The best of those that were measured by what decides; the first on a tie."""
    best: Trial | None = None
    for trial in trials:
        if decides is None or trial.refused is not None or decides.name not in trial.measured:
            continue
        if best is None or decides.exceeds(best.measured[decides.name], trial.measured[decides.name]):
            best = trial
    return best


def _mean_rank_best(trials: Sequence[Trial], names: Sequence[str]) -> Trial | None:
    """The trial with the best mean rank over the measures of utility that all which were not refused have."""
    from scipy.stats import rankdata

    kept = [trial for trial in trials if trial.refused is None]
    useful = [
        MEASURES[name]
        for name in names
        if MEASURES[name].family == "utility" and all(name in trial.measured for trial in kept)
    ]
    if not kept or not useful:
        return None
    signed = [[(1 if m.better == "lower" else -1) * trial.measured[m.name] for trial in kept] for m in useful]
    return kept[int(np.argmin(np.mean([rankdata(values) for values in signed], axis=0)))]
