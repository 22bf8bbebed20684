"""What a run masks: a table in memory, or files that are read in parts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gpuanon.engine.series_runs import Prepared, prepared, prepared_in_parts
from gpuanon.engine.sources import head_of, in_parquet, parquet_parts
from gpuanon.engine.store import FolderStore, MemoryPart, Part, Store
from gpuanon.engine.workers import Workers
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import io
from gpuanon.tables.table import Table


class Input(Protocol):
    """The table that a run is given."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What was noticed when it was read."""

    def prepared(self, recipe: Recipe, store: Store, workers: Workers) -> tuple[Sequence[Part], Table, Prepared]:
        """Its parts, a table with its columns (with or without rows), and the recipe, all as masks see them."""


@dataclass(frozen=True, repr=False)
class TableInput:
    """A table in memory: one part."""

    table: Table

    @property
    def notes(self) -> tuple[str, ...]:
        return self.table.notes

    def prepared(self, recipe: Recipe, store: Store, workers: Workers) -> tuple[Sequence[Part], Table, Prepared]:
        table, seen = prepared(self.table, recipe)
        return [MemoryPart(table)], table, seen


@dataclass(frozen=True, repr=False)
class FileInput:
    """A file, or a folder of Parquet parts, that need not fit in memory; other formats become Parquet on the way."""

    source: io.Source
    store: FolderStore

    @property
    def notes(self) -> tuple[str, ...]:
        return self.source.notes

    def prepared(self, recipe: Recipe, store: Store, workers: Workers) -> tuple[Sequence[Part], Table, Prepared]:
        given = parquet_parts(in_parquet(self.source, self.store.workspace.folder))
        parts, seen = prepared_in_parts(given, recipe, self.store, workers)
        return parts, head_of(parts, store, workers), seen


def read_table(path: Path, recipe: Recipe) -> Table:
    """The table in a file; in a CSV, columns that the recipe neither masks nor measures are text, as they are."""
    return io.read(path, csv=recipe.csv, columns=recipe.csv_columns)


def open_table(path: Path, recipe: Recipe) -> io.Source:
    """The table in a file, to be read piece by piece; see `read_table`."""
    return io.open(path, csv=recipe.csv, columns=recipe.csv_columns)
