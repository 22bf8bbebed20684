"""From files to files: what the command line does, without the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName, choose
from gpuanon.arrays.rng import Key
from gpuanon.assessing.measures import by_name
from gpuanon.assessing.streams import Pieces
from gpuanon.errors import InputError
from gpuanon.masking.mask_columns import masked_columns
from gpuanon.recipe import Recipe
from gpuanon.running.assess import IN_MEMORY_ROWS, Assessment, measure
from gpuanon.running.compare import MEASURES, Trials, compare, grid
from gpuanon.running.protect import read_table
from gpuanon.tables.class_counts import ClassCounts, repeat_warnings, row_bits
from gpuanon.tables.files import io
from gpuanon.tables.schema import Schema
from gpuanon.tables.values import floats


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
    schema = (Schema.resolve if in_memory else Schema.infer)(before.first, loaded.columns, loaded.others)
    chosen_names = tuple(by_name()) if names is None else names
    return measure(
        before, after, schema, chosen_names, link=rows, reference=sample, backend=chosen, sample_rows=sample_rows
    )


def _pieces(path: Path, recipe: Recipe) -> Pieces:
    """The table in a file, piece by piece."""
    source = io.open(path, recipe.text_columns)
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
    schema = Schema.resolve(table, loaded.columns, loaded.others)
    loaded.fit(schema)
    lines.append(f"{source.name}: {table.n_rows} rows, {len(table.names)} columns: fits")
    lines += [f"  {column.name}: {column.role}, {column.kind or 'kept as it is'}" for column in schema.columns]
    lines += [f"note: {note}" for note in schema.notes]
    names = schema.with_role("identifier") if schema.unit == "record" else ()
    counts = [ClassCounts.of(row_bits(table, [name])) for name in names]
    lines += [f"warning: {warning}" for warning in repeat_warnings(names, counts)]
    for mask in loaded.mask:
        combination = mask.combination()
        parts = " × ".join(part.use for part in (combination.groups, combination.basis, combination.operation))
        lines.append(f"mask: {parts} on {', '.join(masked_columns(combination, schema))}")
        if combination.k is not None and table.n_rows < combination.k:
            raise InputError(f"mask: k = {combination.k} is more than the table's {table.n_rows} rows")
    return lines
