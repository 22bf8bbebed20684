"""The engine for a table in parts: larger than memory, on any number of workers.

A run goes through the stages of `gpuanon.running.stages`.  Who does the tasks is the runner's business: this process,
one after the other, or the workers of a Dask cluster (`gpuanon.running.dask`).  Everything that decides the release
is fixed by the data, the recipe, the key and the cell size: never by the parts, the workers or the order of events.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Key
from gpuanon.errors import GuaranteeError, InputError, RecipeError
from gpuanon.numerics.cut_tree import grow, unite
from gpuanon.recipe import Recipe
from gpuanon.running import stages
from gpuanon.running.auto_target import is_open
from gpuanon.running.manifest import describe
from gpuanon.running.memory import changed_later
from gpuanon.running.plan import Plan, chosen_columns, needed_columns
from gpuanon.running.stages import CellResult, Cells, Part, Territory
from gpuanon.running.verify import Guarantee
from gpuanon.running.workspace import Workspace
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table

CELL_ROWS = 100_000
"""Rows of a cell: so many that what is lost at its borders does not show, so few that any worker holds them."""

SAMPLED_A_CELL = 256
"""Rows sampled for each cell, on which the tree of cuts is grown."""

RELEASE_PART_ROWS = 500_000
RELEASE_PART_VALUES = 10_000_000
"""A release part has about so many rows, fewer if they are wide."""


class Runner(Protocol):
    """Who does the tasks."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply `task` to every item; results in the order of the items."""


def in_turn(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest runner: this process, one task after the other."""
    results = []
    for number, item in enumerate(items, 1):
        results.append(task(item))
        progress.report(0.99 * number / len(items))
    return results


@dataclass(frozen=True)
class Run:
    """What all stages of a run share."""

    recipe: Recipe
    schema: Schema
    rows: int
    key: Key
    backend: Backend
    workspace: Workspace
    runner: Runner
    cell_rows: int
    log: Callable[[str], None]

    def stage(
        self, name: str, task: Callable[[Any], Any], items: Sequence[Any], written: Sequence[Path] = ()
    ) -> list[Any]:
        """Do `task` for every item, each once however often the run is resumed; results in order.

        written : files that the tasks write, whose bytes are told
        """
        began = time.perf_counter()
        with progress.stage(name.split("-")[0]):
            results = self.runner(partial(_once, self.workspace, name, task), list(enumerate(items)))
        seconds = max(time.perf_counter() - began, 1e-9)
        moved = sum(path.stat().st_size for path in written if path.exists())
        bytes_ = f", {moved / 1e6:,.1f} MB written" if moved else ""
        self.log(f"{name}: {len(items)} tasks, {seconds:.1f} s, {self.rows / seconds:,.0f} rows/s{bytes_}")
        return results

    def all_there(self, rows: int) -> None:
        """No row may be lost on its way, or come twice."""
        if rows != self.rows:
            raise GuaranteeError(f"{self.rows} rows went in and {rows} came out; nothing was written")


def _once(workspace: Workspace, name: str, task: Callable[[Any], Any], item: tuple[int, Any]) -> Any:
    """One task of a stage, unless it is done."""
    return workspace.once(f"{name}-{item[0]:05d}", partial(task, item[1]))


def protect_parts(
    parts: Sequence[Part],
    recipe: Recipe,
    key: Key,
    backend: Backend,
    workspace: Workspace,
    release: Path,
    *,
    runner: Runner = in_turn,
    cell_rows: int = CELL_ROWS,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Mask a table that lies in parts, and write the release as Parquet parts into the folder `release`.

    Parameters
    ----------
    parts : the input
    workspace : a private folder that every worker can reach; what was done there before is not done again
    release : an existing empty folder that every worker can reach
    runner : who does the tasks
    cell_rows : rows of a cell, about
    log : told, after each stage, its rows a second and the bytes that it wrote

    Returns
    -------
    The manifest.
    """
    rows = sum(part.rows for part in parts)
    _refuse(recipe, rows)
    schema = Schema.infer(_head(parts, workspace, runner), recipe.columns)
    run = Run(recipe, schema, rows, key, backend, workspace, runner, cell_rows, log)
    steps: list[tuple[Plan, list[CellResult]]] = []
    current = list(parts)
    for number in range(len(recipe.mask)):
        plan, results, current = _step(run, number, current)
        steps.append((plan, results))
    written = _assembled(run, current, release)
    masks = [
        (mask, plan, sum(r.groups for r in results), min(r.smallest for r in results))
        for mask, (plan, results) in zip(recipe.mask, steps, strict=True)
    ]
    guarantees = [
        _merged([r.guarantee for r in results if r.guarantee]) for _, results in steps if results[0].guarantee
    ]
    return describe(recipe, schema, backend.name, rows, written, masks, guarantees)


def _refuse(recipe: Recipe, rows: int) -> None:
    """Refuse what cannot be done in parts."""
    if recipe.limits:
        raise RecipeError(
            "limits: a run in parts cannot hold a release to them, most measures need the whole table",
            hint="take them out, and assess the release before you hand it on",
        )
    if any(is_open(mask) for mask in recipe.mask):
        raise RecipeError(
            'target: "auto" is settled on a table in memory, not in parts',
            hint="settle it on a sample of the rows (protect prints the target), then give target that number",
        )
    if rows == 0:
        raise InputError("the table has no rows", hint="there is nothing to mask")


def _head(parts: Sequence[Part], workspace: Workspace, runner: Runner) -> Table:
    """The columns of all parts, without rows; ordered levels of all parts together, in the order they are met."""
    head = parts[0].head()
    ordered = tuple(field.name for field in head.schema if pa.types.is_dictionary(field.type) and field.type.ordered)
    if ordered:
        task = partial(_once, workspace, "levels", partial(stages.ordered_levels, columns=ordered))
        found: list[dict[str, pa.Array]] = runner(task, list(enumerate(parts)))
        for name in ordered:
            type_ = head.schema.field(name).type
            none = pa.array([], type_.index_type)
            chunks = [pa.DictionaryArray.from_arrays(none, levels[name], ordered=True) for levels in found]
            levels = pa.chunked_array(chunks).unify_dictionaries().chunk(0)
            head = head.set_column(head.column_names.index(name), name, levels)
    return Table.of(head)


def _step(run: Run, number: int, parts: list[Part]) -> tuple[Plan, list[CellResult], list[Part]]:
    """Apply mask `number` to all rows: its plan, what each cell reports, and the parts that hold the masked rows."""
    plan, cells = _planned(run, number, parts)
    sources, counts = _scattered(run, number, parts, plan, cells)
    if number:
        run.workspace.forget(part.source for part in parts)  # those of the mask before, never the input
    territories = _territories(counts, cells.count, run.cell_rows, plan.combination.k or 1)
    targets = [run.workspace.path(f"masked-{number}-{at:05d}.arrow") for at in range(len(territories))]
    every = [chosen_columns(mask.combination(), run.schema) for mask in run.recipe.mask]
    last = number == len(run.recipe.mask) - 1
    mask = partial(
        stages.mask_cell,
        sources=sources,
        plan=plan,
        draws=(run.key, f"mask.{number}"),
        backend=run.backend,
        checked=not changed_later(every, number),
        release_parts=_release_parts(run) if last else 0,
    )
    items = list(zip(territories, targets, strict=True))
    results: list[CellResult] = run.stage(f"mask-{number}", mask, items, targets)
    run.all_there(sum(result.rows for result in results))
    run.workspace.forget(sources)
    masked = [
        Part(at, target, None, None, result.rows)
        for at, (target, result) in enumerate(zip(targets, results, strict=True))
    ]
    return plan, results, masked


def _planned(run: Run, number: int, parts: list[Part]) -> tuple[Plan, Cells]:
    """Fit mask `number` to summaries of the parts, and cut the space into cells on a sample of the rows."""
    combination = run.recipe.mask[number].combination()
    count = max(1, round(run.rows / run.cell_rows))
    columns = needed_columns(combination, run.schema)
    known = (*run.schema.quasi, *run.schema.sensitive, *run.schema.with_role("weight"))
    summarise = partial(
        stages.summarise,
        schema=run.schema,
        columns=columns,
        checked=tuple(name for name in known if name not in columns) if number == 0 else (),
        draws=(run.key, f"cells.{number}"),
        rate=min(1.0, SAMPLED_A_CELL * count / run.rows) if count > 1 else 0.0,
    )
    found = run.stage(f"summarise-{number}", summarise, parts)
    merged = Summary.merged([summary for summary, _ in found])
    plan = Plan.from_summary(combination, merged, run.schema, run.recipe.nulls)
    return plan, _cells(plan, count, pa.concat_tables([sample for _, sample in found], promote_options="permissive"))


def _scattered(
    run: Run, number: int, parts: list[Part], plan: Plan, cells: Cells
) -> tuple[tuple[Path, ...], list[dict[int, int]]]:
    """Write the rows of every part by cell: the files, and each file's rows for each cell."""
    targets = tuple(run.workspace.path(f"cells-{number}-{part.number:05d}.arrow") for part in parts)
    scatter = partial(
        stages.scatter_part,
        plan=plan,
        cells=cells,
        draws=(run.key, f"cells.{number}"),
        drop=run.schema.identifiers if number == 0 else (),
    )
    counts: list[dict[int, int]] = run.stage(
        f"scatter-{number}", scatter, list(zip(parts, targets, strict=True)), targets
    )
    run.all_there(sum(rows for count in counts for rows in count.values()))
    return targets, counts


def _cells(plan: Plan, count: int, sample: pa.Table) -> Cells:
    """Cells of near rows where the groups look for near rows, random ones where all rows mix."""
    if count == 1 or plan.combination.groups.use == "whole":
        return Cells(None, count)
    sample = sample.take(pa.array(np.argsort(stages.records_of(sample), kind="stable")))
    return Cells(grow(plan.view(Table.of(sample)), min(count, sample.num_rows)), count)


def _territories(counts: list[dict[int, int]], cells: int, cell_rows: int, k: int) -> list[Territory]:
    """Cells to be masked together: neighbours, until there are half the rows of a cell, and many groups.

    Where many rows are equal no cut divides them: what is larger than two cells is divided at random.
    """
    total = np.zeros(cells, dtype=np.int64)
    for count in counts:
        for cell, rows in count.items():
            total[cell] += rows
    numbers = unite(total, max(cell_rows // 2, 8 * k))
    found: list[Territory] = []
    for number in range(int(numbers.max()) + 1):
        united = np.flatnonzero(numbers == number)
        rows = int(total[united].sum())
        size = max(cell_rows, 16 * k)
        shares = rows // size if rows > 2 * size else 1
        found += [Territory(tuple(united.tolist()), (at, shares)) for at in range(shares)]
    return found


def _release_parts(run: Run) -> int:
    rows = min(RELEASE_PART_ROWS, RELEASE_PART_VALUES // len(run.schema.columns) + 1)
    return max(1, -(-run.rows // rows))


def _assembled(run: Run, masked: list[Part], release: Path) -> int:
    """Write the release parts; the number of rows written."""
    sources = tuple(part.source for part in masked)
    targets = [(at, release / f"part-{at:05d}.parquet") for at in range(_release_parts(run))]
    task = partial(stages.assemble, sources=sources, key=run.key)
    written: int = sum(run.stage("assemble", task, targets, [path for _, path in targets]))
    run.all_there(written)
    run.workspace.forget(sources)
    return written


def _merged(guarantees: list[Guarantee]) -> Guarantee:
    """One guarantee for all cells: it stands because it stands in each."""
    figures = dict(guarantees[0].figures)
    for name in figures:
        values = [guarantee.figures[name] for guarantee in guarantees]
        figures[name] = sum(values) if name == "groups" else min(values)  # type: ignore[type-var,arg-type]
    return replace(guarantees[0], figures=figures, verified=all(guarantee.verified for guarantee in guarantees))
