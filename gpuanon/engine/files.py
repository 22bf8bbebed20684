"""From files to files: what the command line does, without the command line."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.assessing.measures import MEASURES
from gpuanon.assessing.released import as_link
from gpuanon.assessing.streams import Pieces
from gpuanon.comparing.compare import USUAL_MEASURES, Trials, compare
from gpuanon.comparing.grid import grid
from gpuanon.comparing.journal import Journal
from gpuanon.engine.assessing import IN_MEMORY_ROWS, Assessment, measure
from gpuanon.engine.checking import checked
from gpuanon.engine.digest import digest_of, mark_path, marked_release
from gpuanon.engine.outputs import manifest_path, read_manifest
from gpuanon.engine.protect import open_table, read_table
from gpuanon.engine.series_runs import Prepared, prepared
from gpuanon.errors import InputError
from gpuanon.recipe import Recipe
from gpuanon.tables.arrow import numpy_array
from gpuanon.tables.formats import io
from gpuanon.tables.formats.csv.csv_files import CsvOptions
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import family


def assess_files(
    original: Path,
    release: Path,
    recipe: Path,
    *,
    reference: Path | None = None,
    control: Path | None = None,
    link: Path | None = None,
    names: tuple[str, ...] | None = None,
    backend: BackendName = "auto",
    sample_rows: int | None = None,
) -> Assessment:
    """Measure the release in one file against the original in another; see `gpuanon.engine.assessing.measure`."""
    chosen = choose(backend)
    loaded = Recipe.load(recipe)
    with progress.stage("read"):
        before, seen = _original(original, loaded)
        after = _pieces(_open_release(release, seen.recipe, before.first))
        sample, others = (
            seen.same_columns(None if path is None else read_table(path, loaded)) for path in (reference, control)
        )
        rows = None if link is None else read_link(link)
        in_memory = sample_rows is None and max(before.rows, after.rows) <= IN_MEMORY_ROWS
        loaded = seen.recipe
        if in_memory:
            before = before if seen.points else Pieces.of(read_table(original, loaded))
            after = Pieces.of(after.whole())
    if rows is not None and link is not None:
        as_link(rows, before.rows, after.rows, link.name)
        check_release_of(link, release)
    notes = release_notes(release, after.rows)
    schema = (Schema.resolve if in_memory else Schema.infer)(before.first, loaded.columns, loaded.others)
    chosen_names = tuple(MEASURES) if names is None else names
    found = measure(
        before, after, schema, chosen_names, link=rows, reference=sample, control=others, backend=chosen,
        sample_rows=sample_rows, options=loaded.options,
    )  # fmt: skip
    manifest = None if notes else read_manifest(manifest_path(release))
    return replace(found, notes=(*found.notes, *notes), least=loaded.least, manifest=manifest)


def _original(path: Path, recipe: Recipe) -> tuple[Pieces, Prepared]:
    """The original, piece by piece, and its recipe as masks see them; a series is put together in memory."""
    if recipe.series is None:
        return _pieces(open_table(path, recipe)), Prepared(recipe, recipe)
    table, seen = prepared(read_table(path, recipe), recipe)
    return Pieces.of(table), seen


def _pieces(source: io.Source) -> Pieces:
    """The table in a file, piece by piece."""
    return Pieces.counted(source.batches) if source.rows is None else Pieces(source.batches, source.rows)


def _open_release(path: Path, recipe: Recipe, original: Table) -> io.Source:
    """A release: a CSV is read as releases are written, and columns that are text in the original are text in it."""
    kinds = recipe.csv_columns
    text = [name for name in original.names if family(original.arrow(name).type) == "text"]
    return io.open(path, text, csv=CsvOptions(newlines=True, nulls=recipe.csv.nulls), columns=kinds)


@dataclass(frozen=True)
class Choosing:
    """How the command line compares: see `gpuanon.comparing.compare.compare`.

    journal : file of finished trials; None for none
    resume  : take finished trials from it
    force   : replace the journal of an interrupted comparison
    """

    choose_by: str | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    suggest: bool = False
    workers: int | None = None
    journal: Path | None = None
    resume: bool = False
    force: bool = False


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
    how = how or Choosing()
    points = [] if how.suggest else [Recipe.load(point.data) for recipe in recipes for point in grid(recipe)]
    with progress.stage("read"):
        table = read_table(source, points[0]) if points else io.read(source)
        sample = None if reference is None else read_table(reference, points[0]) if points else io.read(reference)
    known = key_file is not None or "GPUANON_KEY" in os.environ
    journal = None if how.journal is None else Journal(how.journal, resume=how.resume, force=how.force)
    return compare(
        table, recipes, measures=names or USUAL_MEASURES, rng=Key.find(key_file) if known else None, backend=backend,
        reference=sample, choose_by=how.choose_by, limits=how.limits, suggest=how.suggest, workers=how.workers,
        journal=journal,
    )  # fmt: skip


def read_link(path: Path) -> np.ndarray[Any, Any]:
    """The private link: for each released row the row number of its original."""
    import pyarrow as pa

    table = io.read(path)
    if table.names != ("row",):
        raise InputError(f"{path.name}: a link has one column 'row', got {len(table.names)} columns")
    rows = table.to_arrow()["row"]
    if rows.null_count or not pa.types.is_integer(rows.type):
        raise InputError(f"{path.name}: a link holds whole numbers, one in each line", hint="protect --link writes one")
    return numpy_array(rows).astype(np.int64)


def check_release_of(link: Path, release: Path) -> None:
    """Refuse a link that says that it belongs to another release."""
    digest = marked_release(link)
    if digest is not None and digest != digest_of(release):
        raise InputError(
            f"{link.name}: belongs to another release, or {release.name} was changed since it was written",
            hint=f"if it has the same rows in the same order, assess it without {mark_path(link).name}",
        )


def release_notes(release: Path, rows: int) -> tuple[str, ...]:
    """What the manifest beside a release says against the file as it is now."""
    manifest = read_manifest(manifest_path(release))
    if manifest is None:
        return ()
    written = manifest.get("release")
    digest = written.get("digest") if isinstance(written, dict) else None
    if rows != manifest["rows_out"] or (digest is not None and digest != digest_of(release)):
        return (
            f"{release.name} was changed since it was written: its manifest does not speak of these rows, "
            "and a link need not fit them",
        )
    return ()


def check_recipe(recipe: Path, source: Path | None) -> list[str]:
    """Check a recipe, and whether it fits a table; the lines say what it would do, without a trial run."""
    return checked(recipe, source, trial=False).lines()
