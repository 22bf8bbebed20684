"""The one pipeline: read → schema → for each mask: summarise · place · mask → order at random → check → limits.

The same code masks a table in memory, in files larger than memory, and on the workers of a cluster.  Two things vary,
and are arguments: the store between the steps and who does the tasks.  Everything that decides the release is fixed by
the data, the recipe, the key and the cell size: never by parts, workers or the order of events.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from typing import Any

import numpy as np

from gpuanon.engine import tasks
from gpuanon.engine.identity import hierarchy_files, rules_of
from gpuanon.engine.run import Done, Run, Step
from gpuanon.engine.store import Part, StoredPart
from gpuanon.engine.store.placement import Cell, Placing, cells_of, placing_of
from gpuanon.engine.store.routes import Route
from gpuanon.engine.tasks import CellResult, Content
from gpuanon.engine.warnings import check_imitation, identifying_columns, unused_hierarchies
from gpuanon.errors import GuaranteeError, InputError, RecipeError
from gpuanon.masking.claims import Counted
from gpuanon.masking.given import CellSummary
from gpuanon.masking.mask import Mask, check_backend
from gpuanon.masking.mask_columns import (
    constrained_columns,
    counted_columns,
    masked_columns,
    needed_columns,
    released_schema,
)
from gpuanon.masking.methods import AnyMask
from gpuanon.masking.methods.combination import Combination
from gpuanon.recipe import Recipe
from gpuanon.tables.class_counts import HELD, ClassCounts, repeat_warnings, smallest_of
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary as TableSummary
from gpuanon.tables.table import Table
from gpuanon.version import __version__

SAMPLED_PER_CELL = 256
"""Rows sampled for each cell, on which the tree of cuts is grown."""

AUTOMATIC_ROWS = 100_000
"""Rows on which an automatic parameter is chosen, at most."""

RELEASE_PART_ROWS = 500_000
RELEASE_PART_VALUES = 10_000_000
"""A release part has about so many rows, fewer if they are wide."""


def protect_parts(run: Run, parts: Sequence[Part], head: Table, reference: Table | None = None) -> Done:
    """Mask a table that lies in parts; the release is left in the store, checked, its rows in random order.

    Parameters
    ----------
    parts : the input; of one part when the store is memory
    head : a table with the columns of the input, with or without rows
    reference : a second, non-overlapping sample of the population, for automatic parameters
    """
    rows = sum(part.rows for part in parts)
    schema = Schema.infer(head, run.recipe.columns, run.recipe.others, run.recipe.unit)
    if rows == 0:
        raise InputError("the table has no rows", hint="there is nothing to mask")
    for mask in run.recipe.mask:
        check_backend(mask.combination(), run.backend)
    check_columns(run.recipe, schema)
    state = _State(list(parts), run.recipe.fit(schema), rows)
    warnings = _repeated_identifiers(run, parts, schema, rows)
    warnings += check_imitation(run, parts, state.schema, rows)
    steps: list[Step] = []
    for number in range(len(run.recipe.mask)):
        step, state = _step(run, number, state, schema, reference)
        steps.append(step)
        if state.rows == 0:
            raise GuaranteeError(
                "no row is left to be released; nothing was written", hint="a smaller k keeps more rows"
            )
    unit = schema.unit_column
    pseudonym = unit.name if unit is not None and unit.release == "pseudonym" else None
    labels = tuple(step.fitted.class_label for step in steps if step.fitted.class_label is not None)
    route = state.route
    assemble = partial(
        tasks.assemble,
        store=run.store,
        route=route,
        key=run.key,
        salt=state.salt,
        pseudonym=pseudonym,
        labels=labels,
        one_zero=any(step.added_rows for step in steps),
        backend=run.backend,
    )
    _check_rows(state.rows, sum(run.stage("assemble", assemble, range(state.release_parts))))
    run.store.forget([*route.sources, *route.regrouped])
    return _concluded(run, schema, rows, state, steps, warnings)


def _concluded(
    run: Run, schema: Schema, rows: int, state: _State, steps: list[Step], warnings: tuple[str, ...]
) -> Done:
    """Count the classes of the release as it lies in the store, judge the claims by them, and look for warnings."""
    added = sum(int((run.store.origin(at) < 0).sum()) for at in range(state.release_parts))
    names = tuple(name for column in state.schema.quasi for name in state.schema[column].released_names)
    quasi = Counted(names, unit=schema.unit) if names else None
    counted = [classes for step in steps for claim in step.claims for classes in claim.counted]
    counted += [quasi] if quasi else []
    counted = list(dict.fromkeys([*counted, *(classes.of_records for classes in counted)]))
    changed = {name for step in steps for name in step.fitted.changed}
    unmasked = [column.name for column in state.schema.columns if column.name not in changed]
    warnings += unused_hierarchies(run.recipe, schema.without(schema.identifiers))
    if unmasked:
        origin, persons = run.store.origin(0), run.store.persons(0)
        known = origin >= 0 if bool((origin >= 0).any()) else origin < 0  # added rows would hide who stands alone
        rows_told = run.store.released(0, unmasked).take(np.flatnonzero(known))
        warnings += identifying_columns(rows_told, unmasked, None if persons is None else persons[known])
    smallest = _smallest_classes(run, state, tuple(counted))
    done = Done(schema, (rows, state.rows), added, state.release_parts, tuple(steps), smallest, quasi, warnings)
    done.conclude(done.smallest)
    return done


def check_columns(recipe: Recipe, schema: Schema) -> None:
    """Refuse masks that cannot follow each other: a column that is gone, rows without it, a constraint that breaks."""
    promised = any(mask.combination().promises for mask in recipe.mask)
    for number, mask in enumerate(recipe.mask):
        combination = mask.combination()
        if promised and combination.copies > 1 and combination.operation.rows == "kept":
            raise RecipeError(
                f"mask.{number}: copies: another mask promises k records, and a record has a row in every copy",
                hint="copies = 1 where something is promised",
            )
        columns = dict.fromkeys((*needed_columns(combination, schema), *constrained_columns(combination, schema)))
        gone = [name for name in columns if schema[name].holds_intervals]
        if gone:
            raise RecipeError(
                f"mask.{number}: columns: an earlier mask releases others in place of {', '.join(map(repr, gone))}",
                hint="mask a column before it is released as an interval, or name this mask's columns",
            )
        ends = [column.name for column in schema.columns if len(column.released_names) > 1]
        if ends and combination.operation.samples is not None:
            raise RecipeError(
                f"mask.{number}: an earlier mask releases the two ends of {', '.join(map(repr, ends))}, with which"
                " added rows cannot be filled",
                hint="put the mask that adds rows first",
            )
        later = [one.combination() for one in recipe.mask[number + 1 :]]
        constrained = combination.constraint is not None or combination.groups.spread is not None
        if constrained and any(one.groups.drops or one.operation.rows != "kept" for one in later):
            raise RecipeError(
                f"mask.{number}: diversity, closeness: a later mask drops or adds rows, which may break it",
                hint="put the mask that changes the rows first",
            )
        schema = released_schema(combination, schema)
        _check_label(number, combination, schema)


def _check_label(number: int, combination: Combination, schema: Schema) -> None:
    """Refuse a label of classes that has no name of its own."""
    name = combination.operation.class_label
    taken = {place for column in schema.columns for place in (column.name, *column.released_names)}
    if name in taken:
        raise RecipeError(f"mask.{number}: label: there is a column {name!r} already", hint="choose another name")


@dataclass(frozen=True)
class _State:
    """Where a run is between two masks.

    schema        : of the rows as they are now
    salt          : makes the order of the rows a function of the records, the recipe and the masks until now
    route         : from the cells of the last mask to the parts of the release
    """

    parts: Sequence[Part]
    schema: Schema
    rows: int
    salt: str = ""
    route: Route = field(default_factory=lambda: Route((), 1))

    @property
    def release_parts(self) -> int:
        """Number of parts of the release."""
        return self.route.destinations


def _step(run: Run, number: int, state: _State, schema: Schema, reference: Table | None) -> tuple[Step, _State]:
    """Apply mask `number` to all rows."""
    mask, fitted, placing = _planned(run, number, state, schema, reference)
    names = tuple(f"cells-{number}-{at:05d}" for at in range(len(state.parts)))
    route = Route.of(names, placing.count)
    place = partial(
        tasks.place,
        store=run.store,
        mask=fitted,
        placing=placing,
        key=run.key,
        stream=f"cells.{number}",
        drop=schema.identifiers if number == 0 else (),
        route=route,
        person=schema.unit_column.name if number == 0 and schema.unit_column is not None else None,
        backend=run.backend,
    )
    placed = run.stage(f"place-{number}", place, list(zip(state.parts, names, strict=True)), names)
    counts = [count for count, _ in placed]
    _check_rows(state.rows, sum(rows for count in counts for rows in count.values()))
    if number:
        run.store.forget(part.name for part in state.parts if isinstance(part, StoredPart))
    _regroup(run, f"regroup-{number}", route, state.rows)
    cells = cells_of(counts, placing.count, run.cell_rows, fitted)
    salt = _salt(state.salt or _input_digest(run.recipe, [found for _, found in placed]), mask, len(cells))
    last = number == len(run.recipe.mask) - 1
    targets = [f"masked-{number}-{at:05d}" for at in range(len(cells))]
    way = Route.of(targets, _release_parts(run, state) if last else 1)
    changed = _changed_later(run, number, state.schema)
    learned = _learned(run, number, route, cells, fitted, state.rows)
    work = partial(
        tasks.mask_cell,
        store=run.store,
        route=route,
        mask=fitted,
        learned=None if learned is None else run.store.share(f"learned-{number}", learned),
        key=run.key,
        stream=f"mask.{number}",
        backend=run.backend,
        changed=changed,
        release=(f"release part/{salt}", way),
    )
    results: list[CellResult] = run.stage(f"mask-{number}", work, list(zip(cells, targets, strict=True)), targets)
    run.store.forget([*route.sources, *route.regrouped])
    result = reduce(CellResult.merge, results)
    _check_rows(state.rows, result.evidence[0].sums["rows_in"])
    _regroup(run, f"regroup-release-{number}", way, result.rows)
    parts = [StoredPart(run.store, name, cell.rows) for name, cell in zip(targets, results, strict=True)]
    after = _State(parts, fitted.released_schema, result.rows, salt, way)
    return Step(mask, fitted, result, changed, fitted.report(learned)), after


def _planned(
    run: Run, number: int, state: _State, schema: Schema, reference: Table | None
) -> tuple[AnyMask, Mask, Placing]:
    """Fit mask `number` to summaries of the parts, choose its automatic parameters, and say where rows go."""
    mask = run.recipe.mask[number]
    combination = mask.combination()
    count = 1 if run.cell_rows is None else max(1, round(state.rows / run.cell_rows))
    alternatives = mask.alternatives(min(state.rows, AUTOMATIC_ROWS))
    wanted = max(SAMPLED_PER_CELL * count if count > 1 else 0, AUTOMATIC_ROWS if alternatives else 0)
    columns = needed_columns(combination, state.schema)
    known = schema.checked
    summarise = partial(
        tasks.summarise,
        schema=state.schema if number else schema,  # columns that are checked may not be released
        columns=columns,
        counted=counted_columns(combination, state.schema),
        checked=tuple(name for name in known if name not in columns) if number == 0 else (),
        key=run.key,
        stream=f"cells.{number}",
        rate=min(1.0, wanted / state.rows),
        backend=run.backend,
    )
    found = run.stage(f"summarise-{number}", summarise, state.parts)
    summary = TableSummary.merged([part for part, _ in found])
    sample = Rows.concatenated([rows for _, rows in found]).sorted() if wanted else None
    if alternatives:
        from gpuanon.engine.automatic import resolve  # loads measures

        assert sample is not None
        stream, nulls = f"mask.{number}", run.recipe.nulls
        mask = resolve(alternatives, sample, state.schema, nulls, reference, run.key, stream, run.backend)
    fitted = Mask.fit(mask.combination(), summary, state.schema, run.recipe.nulls)
    return mask, fitted, placing_of(fitted, count, sample)


def _regroup(run: Run, name: str, route: Route, rows: int) -> None:
    """Move all rows by regions of their destinations, where sources and destinations are many."""
    if route.regroups:
        task = partial(tasks.regroup, store=run.store, route=route)
        _check_rows(rows, sum(run.stage(name, task, route.regroups, route.regrouped)))
        run.store.forget(route.sources)


def _learned(run: Run, number: int, route: Route, cells: list[Cell], fitted: Mask, rows: int) -> Any:
    """The merged summary of all cells that a part of the mask asks for, or what is fitted to it."""
    if not fitted.learns:
        return None
    task = partial(
        tasks.learn,
        store=run.store,
        route=route,
        mask=fitted,
        key=run.key,
        stream=f"mask.{number}",
        backend=run.backend,
        rows=rows,
    )
    found: list[CellSummary] = run.stage(f"learn-{number}", task, cells)
    merged = reduce(lambda one, other: one.merge(other), found)
    return run.store.once(f"fit-{number}", partial(fitted.fitted, merged, run.key, f"mask.{number}"))


REPEATS_HELD = 1_000_000
"""Values of an identifier that are looked at: of a longer column a share, every row of a value or none."""


def _repeated_identifiers(run: Run, parts: Sequence[Part], schema: Schema, rows: int) -> tuple[str, ...]:
    """A warning for each identifier whose values repeat, unless a column says whose the records are."""
    names = schema.with_role("identifier")
    if not names or schema.unit != "record":
        return ()
    share = (0, -(-rows // REPEATS_HELD))
    found = run.stage("identifiers", partial(tasks.repeats, names=names, share=share), parts)
    return repeat_warnings(names, [ClassCounts.merged(list(counts)) for counts in zip(*found, strict=True)])


def _release_parts(run: Run, state: _State) -> int:
    """Number of release parts."""
    if run.store.one_part:
        return 1
    rows = min(RELEASE_PART_ROWS, RELEASE_PART_VALUES // len(state.schema.columns) + 1)
    return max(1, -(-state.rows // rows))


def _salt(before: str, mask: AnyMask, cells: int) -> str:
    """Different wherever the release is: two different releases under one key share no order of rows.

    before : of the mask before this one, or the digest of what goes into the first
    mask   : with its automatic parameters chosen
    """
    return hashlib.blake2b(f"{before} {mask.model_dump_json()} {cells}".encode(), digest_size=16).hexdigest()


def _input_digest(recipe: Recipe, contents: list[Content]) -> str:
    """A digest of the recipe, of the content of its hierarchies (wherever they lie) and of the records."""
    low, high = (sum(content[half] for content in contents) % 2**64 for half in (0, 1))
    digest = hashlib.blake2b(f"{__version__} {rules_of(recipe)} {low} {high}".encode(), digest_size=16)
    for name, file in hierarchy_files(recipe).items():
        try:
            digest.update(hashlib.blake2b(name.encode() + b"\n" + file.read_bytes()).digest())
        except OSError:
            raise InputError(f"{file.name}: cannot be read") from None
    return digest.hexdigest()


def _changed_later(run: Run, number: int, schema: Schema) -> frozenset[str]:
    """The columns that masks after mask `number` change."""
    later = run.recipe.mask[number + 1 :]
    return frozenset(name for mask in later for name in masked_columns(mask.combination(), schema))


def _smallest_classes(run: Run, state: _State, counted: tuple[Counted, ...]) -> dict[Counted, int]:
    """Rows of the smallest class of each, in the release."""
    smallest = dict.fromkeys(counted, state.rows)
    rounds = max(1, -(-state.rows // HELD))
    for at in range(rounds if counted else 0):
        task = partial(tasks.count, store=run.store, counted=counted, share=(at, rounds), backend=run.backend)
        found = run.stage(f"count-{at}", task, range(state.release_parts))
        for number, classes in enumerate(counted):
            rows = smallest_of([part[number] for part in found])
            smallest[classes] = min(smallest[classes], rows or state.rows)
    return smallest


def _check_rows(expected: int, found: int) -> None:
    """No row may be lost between two steps, or come twice."""
    if expected != found:
        raise GuaranteeError(f"{expected} rows went in and {found} came out; nothing was written")
