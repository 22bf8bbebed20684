"""`check`: the page to read before a recipe is signed.  Nothing is written, and a sample at most is masked.

Warnings come first; then what is dropped, masked and kept, what tells people apart now and in what stays unmasked, what
is promised and what is not, and how long the run will take on this machine.
"""

from __future__ import annotations

import os
import time
import tracemalloc
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import log
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import spent_compiling
from gpuanon.arrays.threads import each
from gpuanon.assessing.risk.singled_out import LIMIT
from gpuanon.engine.combinations import Risk, risk_lines, risk_of, units_of
from gpuanon.engine.inputs import read_table
from gpuanon.engine.pipeline import check_columns
from gpuanon.engine.protect import protect
from gpuanon.engine.series_runs import prepared
from gpuanon.engine.warnings import SAMPLE_ROWS, identifying_columns, unused_hierarchies
from gpuanon.errors import GpuanonError, InputError
from gpuanon.masking.mask_columns import masked_columns
from gpuanon.masking.methods.combination import Method
from gpuanon.numerics.alone import single_person
from gpuanon.numerics.sampling import sample_rows
from gpuanon.recipe import Recipe
from gpuanon.tables.class_counts import ClassCounts, repeat_warnings
from gpuanon.tables.codes import code_notes, value_codes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.schema import UNRELEASED, Column, Schema, Unit
from gpuanon.tables.table import Table

TRIAL_ROWS = (1500, 6000)
"""Rows of the two trial runs from which time is extrapolated."""


@dataclass(frozen=True)
class ColumnCheck:
    """What becomes of a column.

    becomes : dropped, masked, kept, or pseudonym
    alone   : share of the people (records, persons or households: the unit) with a value that nobody else has; None
              for what is not released
    """

    name: str
    role: str
    kind: str | None
    becomes: str
    alone: float | None


@dataclass(frozen=True)
class Estimate:
    """How long masking will take and how much memory, from trial runs on random samples of these sizes.

    failed : why nothing could be estimated, or None
    dropped : share of the records of the larger sample that was not released
    """

    rows: tuple[int, ...] = ()
    seconds: float | None = None
    memory: float | None = None
    failed: str | None = None
    dropped: float = 0.0


@dataclass(frozen=True)
class Checked:
    """What a recipe does, and to this table.

    unit        : what figures count
    quasi, kept : what the quasi-identifiers tell of people now, and what the columns that stay unmasked go on telling
    """

    recipe: str
    columns_named: int
    masks: tuple[str, ...]
    table: str | None = None
    rows: int = 0
    unit: Unit = "record"
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[ColumnCheck, ...] = ()
    quasi: Risk | None = None
    kept: Risk | None = None
    promises: tuple[str, ...] = ()
    limits: dict[str, float] = field(default_factory=dict)
    estimate: Estimate | None = None

    def to_json(self) -> dict[str, Any]:
        """As ``check --json`` prints it."""
        found = asdict(self)
        found |= {name: None if risk is None else risk.to_json() for name, risk in self._risks().items()}
        return {**found, "singled_out": None if self.table is None else self.singled_out}

    def _risks(self) -> dict[str, Risk | None]:
        return {"quasi": self.quasi, "kept": self.kept}

    @property
    def singled_out(self) -> float:
        """Share of the people alone on at most three of the columns that stay unmasked."""
        return 0.0 if self.kept is None else self.kept.singled_out

    def lines(self) -> list[str]:
        """The page as lines of text."""
        lines = [f"warning: {warning}" for warning in self.warnings]
        masks = "1 mask" if len(self.masks) == 1 else f"{len(self.masks)} masks"
        lines += [f"{self.recipe}: {self.columns_named} columns, {masks}: no fault"]
        if self.table is None:
            return lines
        lines.append(f"{self.table}: {self.rows} rows, {len(self.columns)} columns: fits")
        width = max(len(column.name) for column in self.columns)
        for column in self.columns:
            alone = f"; {column.alone:.1%} of the {self.unit}s alone in it" if (column.alone or 0) >= 0.0005 else ""
            if column.becomes == "dropped":
                lines.append(f"  {column.name}: {column.role}, not released")
                continue
            line = f"  {column.name}: {column.role}, {column.kind or 'kept as it is'}"
            lines.append(f"{line:<{width + 28}} → {column.becomes}{alone}")
        lines += [f"mask: {mask}" for mask in self.masks]
        lines += self._risk_lines()
        lines += [f"promised: {promise}" for promise in self.promises] or ["promised: nothing"]
        lines.append("not promised: anything about columns that are kept, or about what an intruder knows besides")
        lines += [
            f"limit: {name} {value:g}; a release that does not keep it is not written"
            for name, value in self.limits.items()
        ]
        if self.estimate is not None and 0 < self.estimate.dropped < 1:  # where all rows are new, none is left out
            lines.append(
                f"dropped: {self.estimate.dropped:.1%} of the records of a trial; figures of the release, ranges of"
                " statistics among them, are about the others"
            )
        lines += [] if self.estimate is None else [_in_words(self.estimate, self.rows)]
        return lines + [f"note: {note}" for note in self.notes]

    def _risk_lines(self) -> list[str]:
        """What tells people apart now, and what goes on doing so."""
        lines = [] if self.quasi is None else [f"quasi-identifiers: {line}" for line in risk_lines(self.quasi)]
        if self.kept is not None:
            worst = [f"{names} {share:.1%}" for names, share in list(self.kept.sets.items())[:5] if share >= 0.001]
            lines.append(
                f"kept unmasked: {', '.join(self.kept.columns)}: {self.kept.unique:.1%} of the {self.unit}s are alone"
                f" on all of them, {self.singled_out:.1%} on at most three{': ' + '; '.join(worst) if worst else ''}"
            )
        return lines


def checked(recipe: Path, source: Path | None, *, trial: bool = True) -> Checked:
    """Check a recipe, and whether it fits a table; every fault is named at once.

    trial : whether samples of the table are masked, for the promises as they will be stated and the expected time
    """
    loaded = Recipe.load(recipe)
    uses = []
    for mask in loaded.mask:
        combination = mask.combination()
        uses.append(" × ".join(part.use for part in (combination.groups, combination.basis, combination.operation)))
    if source is None:
        return Checked(recipe.name, len(loaded.columns), tuple(uses))
    with progress.stage("read"):
        table, seen = prepared(read_table(source, loaded), loaded)
        loaded = seen.recipe
    return check_table(recipe.name, loaded, source.name, table, uses, trial=trial)


def check_table(name: str, recipe: Recipe, source: str, table: Table, uses: list[str], *, trial: bool) -> Checked:
    """`checked` of a table in memory."""
    schema = Schema.resolve(table, recipe.columns, recipe.others, recipe.unit)
    released = recipe.fit(schema)
    check_columns(recipe, schema)
    masked: dict[str, None] = {}
    masks: list[str] = []
    advice: list[str] = []
    for mask, use in zip(recipe.mask, uses, strict=True):
        combination = mask.combination()
        chosen = masked_columns(combination, released)
        masked |= dict.fromkeys(name for name in chosen if combination.operation.changes(name))
        masks.append(f"{use} on {', '.join(chosen)}")
        against = mask.advice(len(chosen)) if isinstance(mask, Method) else None
        advice += [] if against is None else [against]
        if combination.k is not None and table.n_rows < combination.k:
            raise InputError(f"mask: k = {combination.k} is more than the table's {table.n_rows} rows")
    kept = tuple(c.name for c in released.columns if c.name not in masked and c.kind is not None)
    names = [column.name for column in released.columns]
    codes = value_codes(table, names)  # once for all that is counted
    unit = schema.unit_column
    who = units_of(table, None if unit is None else unit.name)
    alone = _alone(codes, names, who)

    def risk(some: tuple[str, ...]) -> Risk | None:
        chosen = np.ascontiguousarray(codes[:, [names.index(name) for name in some]])
        return risk_of(table, some, None if unit is None else unit.name, schema.unit, codes=chosen)

    left = risk(kept)
    columns = tuple(
        ColumnCheck(
            column.name,
            column.role,
            column.kind,
            _becomes(column, column.name in masked),
            alone.get(column.name),
        )
        for column in schema.columns
    )
    estimate, promises = _trial(table, recipe) if trial else (None, ())
    warnings = _warnings(table, recipe, schema, kept) + _left_warnings(left, recipe) + tuple(advice)
    return Checked(
        recipe=name, columns_named=len(recipe.columns), masks=tuple(masks), table=source, rows=table.n_rows,
        unit=schema.unit, warnings=warnings, notes=_notes(table, recipe, schema), columns=columns,
        quasi=risk(schema.quasi), kept=left, promises=promises, limits=dict(recipe.limits),
        estimate=estimate,
    )  # fmt: skip


def _warnings(table: Table, recipe: Recipe, schema: Schema, kept: tuple[str, ...]) -> tuple[str, ...]:
    """What a steward should look at: as the run itself would warn."""
    names = schema.with_role("identifier") if schema.unit == "record" else ()
    found = repeat_warnings(names, [ClassCounts.of(row_bits(table, [name])) for name in names])
    found += unused_hierarchies(recipe, schema.without(schema.identifiers))
    if kept and table.n_rows:
        rows = table.take(sample_rows(table.n_rows, SAMPLE_ROWS, "identifying columns"))
        persons = None if schema.unit_column is None else row_bits(rows, [schema.unit_column.name])[:, 0]
        found += identifying_columns(rows, kept, persons)
    return found


def _becomes(column: Column, masked: bool) -> str:
    """What becomes of a column: dropped, masked, kept, or released as a pseudonym."""
    if column.release is not None:
        return column.release
    return "dropped" if column.role in UNRELEASED else "masked" if masked else "kept"


def _notes(table: Table, recipe: Recipe, schema: Schema) -> tuple[str, ...]:
    return (*table.notes, *schema.notes, *code_notes(table, schema, recipe.columns))


def _alone(codes: Host, names: Sequence[str], who: Host | None) -> dict[str, float]:
    """For each column the share of people with a value that nobody else has."""
    if not len(codes):
        return {}
    people = len(codes) if who is None else len(np.unique(who))

    def share(at: int) -> float:
        alone = single_person(codes[:, at], int(codes[:, at].max()) + 1, who)
        return (int(alone.sum()) if who is None else len(np.unique(who[alone]))) / people

    return dict(zip(names, each(share, range(len(names))), strict=True))


def _left_warnings(left: Risk | None, recipe: Recipe) -> tuple[str, ...]:
    """A warning where the columns that stay unmasked single out more people than a verdict allows."""
    limit = recipe.limits.get("singled_out", LIMIT)
    if left is None or left.singled_out <= limit or "singled_out" in recipe.accept:
        return ()
    worst = f", most by {next(iter(left.sets))}" if left.sets else ""
    return (
        f"{left.singled_out:.1%} of the {left.unit}s are alone on at most three of the columns that stay"
        f" unmasked{worst}: above {limit:.0%} the verdict on a release is bad",
    )


def _trial(table: Table, recipe: Recipe) -> tuple[Estimate, tuple[str, ...]]:
    """Mask two random samples: how long the table will take, and what its release will promise.

    Time grows with n^p, 1 ≤ p ≤ 2, as processor time does between the samples; memory in proportion.  Limits are not
    measured, and neither is the compilation of functions, which is done once on a machine.
    """
    sizes = tuple(dict.fromkeys(min(rows, table.n_rows) for rows in TRIAL_ROWS))
    plain = recipe.model_copy(update={"limits": {}})
    rng = np.random.default_rng(0)
    seconds: list[float] = []
    worked: list[float] = []
    promises: tuple[str, ...] = ()
    try:
        with progress.stage("trial"):
            samples = [table.take(np.sort(rng.choice(table.n_rows, rows, replace=False))) for rows in sizes]
            for sample in samples:
                began, work = _clock()
                manifest = protect(sample, plain).manifest
                ended, done = _clock()
                seconds.append(ended - began)
                worked.append(max(done - work, 1e-3))
                promises = tuple(one["statement"] for one in manifest["guarantee"] if one["verified"])
            peak = _peak(samples[0], plain)
    except GpuanonError as error:
        return Estimate(sizes, failed=str(error)), promises
    power = 1.0
    if len(sizes) == 2:
        power = min(2.0, max(1.0, log(worked[1] / worked[0]) / log(sizes[1] / sizes[0])))
    grown = table.n_rows / sizes[-1]
    memory = peak * table.n_rows / sizes[0] + 3 * table.to_arrow().nbytes
    dropped = int(manifest.get("rows_dropped", 0)) / max(sizes[-1], 1)
    return Estimate(sizes, seconds[-1] * grown**power, memory, dropped=dropped), promises


def _clock() -> tuple[float, float]:
    """Seconds and processor seconds, those of compilations left out."""
    waited, worked = spent_compiling()
    return time.perf_counter() - waited, time.process_time() - worked


def _peak(sample: Table, recipe: Recipe) -> float:
    """Bytes of Python and NumPy that masking the sample takes at most."""
    tracing = tracemalloc.is_tracing()
    if not tracing:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        protect(sample, recipe)
        return float(tracemalloc.get_traced_memory()[1] - before)
    finally:
        if not tracing:
            tracemalloc.stop()


def _in_words(estimate: Estimate, rows: int) -> str:
    """The estimate as a line."""
    sizes = " and ".join(f"{size:,}" for size in estimate.rows)
    if estimate.failed is not None:
        return f"expected: not estimated, a trial on {sizes} rows failed: {estimate.failed}"
    assert estimate.seconds is not None
    assert estimate.memory is not None
    machine = f"{os.cpu_count()} cores"
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        machine += f", {os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 1e9:.0f} GB"
    memory = f"{max(estimate.memory / 1e9, 0.1):.1f} GB"
    return (
        f"expected: about {_time(estimate.seconds)} and {memory} for {rows:,} rows in memory on this machine, busy as"
        f" it is ({machine}), from trials on {sizes} rows; reading, writing and limits come on top"
    )


def _time(seconds: float) -> str:
    return f"{max(seconds, 1):.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
