"""From files to files: what the command line does, without the command line."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.assessing.measures import by_name
from gpuanon.assessing.streams import Pieces
from gpuanon.errors import InputError
from gpuanon.recipe import Recipe
from gpuanon.running.assess import IN_MEMORY_ROWS, Assessment, measure
from gpuanon.running.compare import MEASURES, Trials, compare, grid
from gpuanon.running.memory import protect
from gpuanon.running.part_files import InParts, protect_on_cluster
from gpuanon.running.plan import chosen_columns
from gpuanon.running.release import manifest_path
from gpuanon.tables.files import io
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats


def protect_file(
    source: Path,
    recipe: Path,
    output: Path,
    *,
    backend: BackendName = "auto",
    key_file: Path | None = None,
    reference: Path | None = None,
    link: Path | None = None,
    force: bool = False,
    in_parts: InParts | None = None,
    log: Callable[[str], None] = lambda text: None,
) -> dict[str, Any]:
    """Mask the table in a file; everything that can be refused is refused before the work begins.

    in_parts : how to mask it in parts (see `gpuanon.running.parts`); None for all at once
    """
    began = time.perf_counter()
    loaded = Recipe.load(recipe)
    key = Key.find(key_file)
    inputs = [path for path in (source, recipe, key_file, reference) if path is not None]
    io.check_output(output, force=force, inputs=inputs)
    for beside in (manifest_path(output), link):
        if beside is not None:
            io.check_output(beside, force=force, inputs=inputs, table=False)
    if in_parts is not None:
        in_parts.check(link, reference, key_file)
    chosen = choose(backend)
    log(f"backend: {chosen.name} ({chosen.reason})")
    if in_parts is not None:
        kept = key_file is not None or "GPUANON_KEY" in os.environ
        manifest = protect_on_cluster(
            source, loaded, output, in_parts, key=key, backend=chosen.name, resumable=kept, force=force, log=log
        )
        return _result(manifest, output, began)
    with progress.stage("read"):
        table = read_table(source, loaded)
        sample = None if reference is None else read_table(reference, loaded)
    release = protect(table, loaded, rng=key, backend=chosen.name, reference=sample)
    with progress.stage("write"):
        release.write(output, link=link, force=force)
    return _result(release.manifest, output, began)


def _result(manifest: dict[str, Any], output: Path, began: float) -> dict[str, Any]:
    """What ``protect --json`` prints."""
    names = ("rows_in", "rows_out", "rows_added", "rows_dropped", "backend", "mask", "guarantee")
    seconds = round(time.perf_counter() - began, 3)
    return {**{name: manifest[name] for name in names}, "seconds": seconds, "output": str(output)}


def assess_files(
    original: Path,
    release: Path,
    recipe: Path,
    *,
    reference: Path | None = None,
    link: Path | None = None,
    names: tuple[str, ...] | None = None,
    backend: BackendName = "auto",
    sample_rows: int | None = None,
) -> Assessment:
    """Measure the release in one file against the original in another; see `gpuanon.running.assess.measure`."""
    chosen = choose(backend)
    loaded = Recipe.load(recipe)
    with progress.stage("read"):
        before, after = (_pieces(path, loaded) for path in (original, release))
        sample = None if reference is None else read_table(reference, loaded)
        rows = None if link is None else read_link(link)
        in_memory = sample_rows is None and max(before.rows, after.rows) <= IN_MEMORY_ROWS
        if in_memory:
            before, after = (Pieces.of(read_table(path, loaded)) for path in (original, release))
    schema = (Schema.resolve if in_memory else Schema.infer)(before.first, loaded.columns)
    chosen_names = tuple(by_name()) if names is None else names
    return measure(
        before, after, schema, chosen_names, link=rows, reference=sample, backend=chosen, sample_rows=sample_rows
    )


def _pieces(path: Path, recipe: Recipe) -> Pieces:
    """The table in a file, piece by piece."""
    source = io.open(path, text_columns(recipe))
    return Pieces.counted(source.batches) if source.rows is None else Pieces(source.batches, source.rows)


def compare_files(
    source: Path,
    recipes: list[Path],
    *,
    names: tuple[str, ...] | None = None,
    reference: Path | None = None,
    backend: BackendName = "auto",
    key_file: Path | None = None,
) -> Trials:
    """Mask and measure the table in a file by several recipes."""
    points = [Recipe.load(point) for recipe in recipes for _, _, point in grid(recipe)]
    with progress.stage("read"):
        table = read_table(source, points[0])
        sample = None if reference is None else read_table(reference, points[0])
    key = Key.find(key_file)
    return compare(table, recipes, measures=names or MEASURES, rng=key, backend=backend, reference=sample)


def read_table(path: Path, recipe: Recipe) -> Table:
    """The table in a file; in a CSV, columns that the recipe calls categorical or identifiers are text (post codes)."""
    return io.read(path, text_columns(recipe))


def text_columns(recipe: Recipe) -> list[str]:
    """The columns of a CSV that are text whatever they look like."""
    return [name for name, spec in recipe.columns.items() if spec.kind == "categorical" or spec.role == "identifier"]


def read_link(path: Path) -> np.ndarray[Any, Any]:
    """The private link: for each released row the row number of its original."""
    table = io.read(path)
    if table.names != ("row",):
        raise InputError(f"{path.name}: a link has one column 'row', got {len(table.names)} columns")
    return floats(table.arrow("row")).astype(np.int64)


def check_recipe(recipe: Path, source: Path | None) -> list[str]:
    """Check a recipe, and whether it fits a table; the lines say what it would do."""
    loaded = Recipe.load(recipe)
    lines = [f"{recipe.name}: {len(loaded.columns)} columns, {len(loaded.mask)} masks: no fault"]
    if source is None:
        return lines
    table = read_table(source, loaded)
    schema = Schema.resolve(table, loaded.columns)
    lines.append(f"{source.name}: {table.n_rows} rows, {len(table.names)} columns: fits")
    lines += [f"  {column.name}: {column.role}, {column.kind or 'kept as it is'}" for column in schema.columns]
    lines += [f"note: {note}" for note in schema.notes]
    for mask in loaded.mask:
        combination = mask.combination()
        parts = " × ".join(part.use for part in (combination.groups, combination.basis, combination.operation))
        lines.append(f"mask: {parts} on {', '.join(chosen_columns(combination, schema))}")
        if combination.k is not None and table.n_rows < combination.k:
            raise InputError(f"mask: k = {combination.k} is more than the table's {table.n_rows} rows")
    return lines
