"""Repeated measurements of a run: the table and the recipe as masks see them, one row for each person.

A recipe with ``[series]`` is turned into one without, for the wide table, before anything else is done; what follows
does not know the difference.  Persons are numbered in the order of their first records, in memory and in parts alike.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.engine.sources import parquet_parts
from gpuanon.engine.store import FilePart, FolderStore
from gpuanon.engine.store.shuffle import whole_file
from gpuanon.engine.workers import Workers
from gpuanon.errors import RecipeError
from gpuanon.recipe import Recipe
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import UNRELEASED
from gpuanon.tables.series import Aligned, Points, chosen_points, labels, wide_name
from gpuanon.tables.table import Table

PART_RECORDS = 1_000_000
"""Records that are put together at a time, about."""

_COLUMN_LISTS = ("columns", "by", "core", "given", "match")
"""Parameters of masks that hold names of columns."""


@dataclass(frozen=True, repr=False)
class Prepared:
    """A recipe as masks see it.

    recipe : without a series
    given  : as it was given
    points : times that became columns; none without a series
    facts  : what the manifest says of a series
    """

    recipe: Recipe
    given: Recipe
    points: Points = ()
    facts: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, recipe: Recipe, points: Points, dates: bool, times: int, records: int) -> Prepared:
        """Of a recipe with a series.

        times   : of all records, those that were left out among them
        records : of the table
        """
        assert recipe.series is not None
        counts = {"records": records, "times": len(points), "times_left_out": times - len(points)}
        facts = {"series": {**recipe.series.model_dump(mode="json"), **counts}}
        return cls(widened_recipe(recipe, points, dates), recipe, points, facts)

    def same_columns(self, other: Table | None) -> Table | None:
        """A second table, such as a reference sample, with the same columns."""
        if other is None or self.given.series is None:
            return other
        return _aligned(other, self.given).wide(self.given.series, self.points)


def prepared(table: Table, recipe: Recipe) -> tuple[Table, Prepared]:
    """The table and the recipe of a run in memory: one row for each person where the recipe has a series."""
    wide, (found,) = prepared_for_all(table, [recipe])
    return wide, found


def widened_recipe(recipe: Recipe, points: Points, dates: bool) -> Recipe:
    """The recipe for the wide table: what was said of a measured column is said of each of its times."""
    series = recipe.series
    assert series is not None
    names = {name: [wide_name(name, label) for label in labels(points, dates)] for name in series.columns}
    columns = {
        wide: spec for name, spec in recipe.columns.items() if name != series.time for wide in names.get(name, [name])
    }
    masks = [_with_names(mask.model_dump(exclude_none=True), names) for mask in recipe.mask]
    given: dict[str, Any] = {name: getattr(recipe, name) for name in recipe.model_fields_set}
    return Recipe.load({**given, "columns": columns, "mask": masks, "series": None})


def _with_names(mask: Mapping[str, Any], names: Mapping[str, list[str]]) -> dict[str, Any]:
    """The parameters of a mask with the wide columns in place of measured ones."""
    found: dict[str, Any] = {}
    for key, value in mask.items():
        if isinstance(value, Mapping):
            found[key] = _with_names(value, names)
        elif key in _COLUMN_LISTS and isinstance(value, (list, tuple)):
            found[key] = [wide for name in value for wide in names.get(name, [name])]
        elif key in ("margins", "moments"):
            found[key] = [[wide for name in margin for wide in names.get(name, [name])] for margin in value]
        else:
            found[key] = value
    return found


def _least(recipe: Recipe) -> int:
    """Persons that a time must have."""
    assert recipe.series is not None
    return recipe.series.least or max(2, recipe.least)


def _person(recipe: Recipe) -> str:
    """The column of role person, which a recipe with a series has."""
    return next(name for name, spec in recipe.columns.items() if spec.role == "person")


def _dropped(recipe: Recipe, names: Sequence[str]) -> list[str]:
    """Columns that are not released, and need not be the same for a person."""
    known = recipe.columns
    gone = {
        name for name, spec in known.items() if spec.role in UNRELEASED and spec.role not in ("person", "household")
    }
    if recipe.others == "drop":
        assert recipe.series is not None
        gone |= {name for name in names if name not in known and name != recipe.series.time}
    return [name for name in names if name in gone]


def _aligned(table: Table, recipe: Recipe) -> Aligned:
    """The records of a table, without columns that are not released."""
    assert recipe.series is not None
    missing = [
        name for name in (_person(recipe), recipe.series.time, *recipe.series.columns) if name not in table.names
    ]
    if missing:
        raise RecipeError(f"series: {', '.join(map(repr, missing))}: not in the table")
    return Aligned.of(table.drop(_dropped(recipe, table.names)), _person(recipe), recipe.series)


def prepared_in_parts(
    parts: Sequence[FilePart], recipe: Recipe, store: FolderStore, workers: Workers
) -> tuple[Sequence[FilePart], Prepared]:
    """The parts and the recipe of a run in parts: Parquet parts with one row for each person.

    Records move twice: to those of their person, and, as rows of persons, to their place in the order of first records.
    Memory holds about `PART_RECORDS` records at a time, and a number for each person.
    """
    series = recipe.series
    if series is None:
        return parts, Prepared(recipe, recipe)
    records = sum(part.rows for part in parts)
    buckets = max(1, -(-records // PART_RECORDS))
    names = tuple(f"series-{at:05d}" for at in range(len(parts)))
    put = partial(_put, store=store, recipe=recipe, buckets=buckets)
    workers(put, list(zip(parts, names, strict=True)))
    scanned = workers(partial(_scanned, store=store, names=names, recipe=recipe), range(buckets))
    counts: Counter[float] = Counter()
    for found, _, _ in scanned:
        counts.update(found)
    points, dates = chosen_points(dict(counts), series, _least(recipe)), bool(scanned[0][2])
    firsts = np.sort(np.concatenate([first for _, first, _ in scanned]))
    wide = tuple(f"series-persons-{at:05d}" for at in range(buckets))
    ranges = -(-len(firsts) // buckets)
    shared = store.share("series-firsts", firsts)
    widen = partial(_widened, store=store, names=names, recipe=recipe, points=points, firsts=shared, rows=ranges)
    workers(widen, list(enumerate(wide)))
    store.forget(names)
    folder = store.workspace.path("series")
    folder.mkdir(exist_ok=True)
    written = range(-(-len(firsts) // ranges))
    workers(partial(_written, store=store, names=wide, folder=folder), written)
    store.forget(wide)
    return parquet_parts(folder), Prepared.of(recipe, points, dates, len(counts), records)


def _put(item: tuple[FilePart, str], store: FolderStore, recipe: Recipe, buckets: int) -> dict[int, int]:
    """Put the records of a part by the bucket of their person."""
    part, name = item

    def put() -> dict[int, int]:
        rows = part.read()
        table = rows.table.drop(_dropped(recipe, rows.table.names))
        bits = row_bits(table, [_person(recipe)])[:, 0]
        return store.put(name, Rows(table, rows.records), (bits % np.uint64(buckets)).astype(np.int64))

    return store.once(name, put)


def _bucket(store: FolderStore, names: Sequence[str], bucket: int, recipe: Recipe) -> tuple[Rows, Aligned]:
    """The records of a bucket, in their order."""
    rows = store.get(names, [bucket]).sorted()
    return rows, _aligned(rows.table, recipe)


def _scanned(
    bucket: int, store: FolderStore, names: Sequence[str], recipe: Recipe
) -> tuple[dict[float, int], Host, bool]:
    """Persons at each time, first record of each person, and whether times are dates."""

    def scan() -> tuple[dict[float, int], Host, bool]:
        rows, aligned = _bucket(store, names, bucket, recipe)
        return aligned.counts(), rows.records[aligned.first], aligned.dates

    return store.once(f"series-times-{bucket:05d}", scan)


def _widened(
    item: tuple[int, str],
    store: FolderStore,
    names: Sequence[str],
    recipe: Recipe,
    points: Points,
    firsts: Callable[[], Host],
    rows: int,
) -> dict[int, int]:
    """Put the rows of the persons of a bucket by their place among all."""
    bucket, name = item

    def put() -> dict[int, int]:
        assert recipe.series is not None
        records, aligned = _bucket(store, names, bucket, recipe)
        numbers = np.searchsorted(firsts(), records.records[aligned.first]).astype(np.int64)
        return store.put(name, Rows(aligned.wide(recipe.series, points), numbers), numbers // rows)

    return store.once(name, put)


def _written(place: int, store: FolderStore, names: Sequence[str], folder: Path) -> int:
    """Write the persons of one range as a Parquet file."""
    import pyarrow.parquet as pq

    def write() -> int:
        rows = store.get(names, [place]).sorted()
        with whole_file(folder / f"part-{place:05d}.parquet") as hidden:
            pq.write_table(rows.table.to_arrow(), hidden)
        return len(rows)

    return store.once(f"series-wide-{place:05d}", write)


def prepared_for_all(table: Table, recipes: Sequence[Recipe]) -> tuple[Table, list[Prepared]]:
    """The table and the recipes of a comparison, which have one series, or none."""
    series = recipes[0].series
    if any(recipe.series != series for recipe in recipes):
        raise RecipeError("series: recipes that are compared must have the same")
    if series is None:
        return table, [Prepared(recipe, recipe) for recipe in recipes]
    aligned = _aligned(table, recipes[0])
    counts = aligned.counts()
    points = chosen_points(counts, series, max(map(_least, recipes)))
    found = [Prepared.of(recipe, points, aligned.dates, len(counts), table.n_rows) for recipe in recipes]
    return aligned.wide(series, points).with_notes(table.notes), found
