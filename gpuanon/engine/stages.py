"""A run in parts: the tasks that any number of workers may do, in any order, again if one is lost.

    summarise   each part: what the encodings have to know, and a sample of rows        (small results)
    scatter     each part: encode, find the cell of every row, write the rows by cell    (rows move)
    mask        each cell: collect its rows, mask and verify them, write them by release part
    assemble    each release part: collect its rows, put them in random order, write them  (rows move)

Rows move twice: to their cell, and out of it again, because a release part that held one cell would tell which cell a
record comes from.  A task's result depends on the data, the recipe, the key and the cell size only; it writes one file,
under its final name only when it is whole, so a task that is found done is not done again.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Draws, Key
from gpuanon.engine.exchange import collect, scatter
from gpuanon.engine.memory import release_order
from gpuanon.engine.plan import Plan
from gpuanon.numerics.cut_tree import CutTree
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table
from gpuanon.verify import Guarantee, verify

RECORD = "gpuanon record number"
"""The column that carries each row's number in the input; it never leaves a run."""

Host = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Part:
    """A stretch of the input.

    source : a Parquet file (with the row groups that are meant) or an exchange file
    first  : record number of the first row; None when the rows carry their numbers
    rows   : number of rows
    """

    number: int
    source: Path
    groups: tuple[int, ...] | None
    first: int | None
    rows: int

    def read(self) -> pa.Table:
        """The rows, each with its record number."""
        if self.groups is None:
            return collect([self.source], [0])
        import pyarrow.parquet as pq

        with pq.ParquetFile(self.source) as file:
            rows = file.read_row_groups(list(self.groups)).replace_schema_metadata(None).unify_dictionaries()
        assert self.first is not None
        return rows.append_column(RECORD, pa.array(np.arange(self.first, self.first + rows.num_rows, dtype=np.int64)))


@dataclass(frozen=True)
class Cells:
    """Which cell a row belongs to: a place in space, or a random one.

    tree  : cuts of the encoded space; None for random cells
    count : number of cells
    """

    tree: CutTree | None
    count: int

    def of(self, plan: Plan, table: Table, draws: Draws) -> Host:
        """(n,) cell of each row."""
        if self.tree is not None:
            return np.asarray(self.tree.assign(plan.view(table)))
        return np.asarray(draws.child("cell").uniform()[:, 0] * self.count).astype(np.int64)


def summarise(
    part: Part, schema: Schema, columns: tuple[str, ...], draws: tuple[Key, str], rate: float
) -> tuple[Summary, pa.Table]:
    """What the encodings have to know of a part, and the sampled rows of it."""
    rows = part.read()
    table = Table.of(rows)
    chosen = draws[0].draws(records_of(rows), draws[1]).uniform()[:, 0] < rate
    return Summary.of(table, schema, columns), rows.select([*columns, RECORD]).filter(pa.array(chosen))


def scatter_part(
    item: tuple[Part, Path], plan: Plan, cells: Cells, draws: tuple[Key, str], drop: tuple[str, ...]
) -> dict[int, int]:
    """Write a part's rows by cell; rows for each cell."""
    part, target = item
    rows = part.read().drop_columns(list(drop))
    where = cells.of(plan, Table.of(rows), draws[0].draws(records_of(rows), draws[1]))
    return scatter(rows, where, target)


@dataclass(frozen=True)
class CellResult:
    """What a masked cell reports."""

    rows: int
    groups: int
    smallest: int
    guarantee: Guarantee | None


def mask_cell(
    item: tuple[tuple[int, ...], Path],
    sources: tuple[Path, ...],
    plan: Plan,
    draws: tuple[Key, str],
    backend: Backend,
    checked: bool,
    release_parts: int,
) -> CellResult:
    """Collect the rows of some cells, mask and verify them, and write them by release part (0 parts: as one)."""
    cells, target = item
    rows = _by_record(collect(sources, cells))
    records, before = records_of(rows), Table.of(rows)
    masked = plan.apply(before, draws[0].draws(backend.upload(records), draws[1]), backend)
    guarantee = verify(plan, before, masked, masked.table) if checked else None
    where = np.zeros(len(records), dtype=np.int64)
    if release_parts:
        where = (draws[0].draws(records, "release part").uniform()[:, 0] * release_parts).astype(np.int64)
    scatter(masked.table.to_arrow(), where, target)
    return CellResult(len(records), masked.groups, masked.smallest, guarantee)


def assemble(item: tuple[int, Path], sources: tuple[Path, ...], key: Key) -> int:
    """Collect the rows of a release part, put them in random order, and write them; the number of rows."""
    import pyarrow.parquet as pq

    number, target = item
    rows = _by_record(collect(sources, [number]))  # not cell by cell: nothing of the cells may be left
    rows = rows.take(pa.array(release_order(key, records_of(rows)))).drop_columns([RECORD])
    hidden = target.with_name(f".{target.name}")
    pq.write_table(rows, hidden)
    os.replace(hidden, target)
    return int(rows.num_rows)


def _by_record(rows: pa.Table) -> pa.Table:
    """The rows in the order of their numbers."""
    return rows.take(pa.array(np.argsort(records_of(rows), kind="stable")))


def records_of(rows: pa.Table) -> Host:
    """(n,) int64 record numbers."""
    return np.asarray(rows[RECORD].to_numpy())
