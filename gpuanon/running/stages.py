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

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Draws, Key
from gpuanon.numerics.cut_tree import CutTree
from gpuanon.running.exchange import collect, scatter, whole_file
from gpuanon.running.memory import release_order
from gpuanon.running.plan import Plan
from gpuanon.running.verify import Guarantee, verify
from gpuanon.tables.files import io
from gpuanon.tables.files.reading import read_stretch
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary
from gpuanon.tables.table import Table

RECORD = "gpuanon record number"
"""The column that carries each row's number in the input; it never leaves a run."""

Host = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Part:
    """A stretch of the input.

    source : a Parquet file (with the row groups that are meant) or an exchange file
    first  : record number of the first row; None when the rows carry their numbers
    rows   : number of rows
    skip   : rows of the row groups that come before
    """

    number: int
    source: Path
    groups: tuple[int, ...] | None
    first: int | None
    rows: int
    skip: int = 0

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows, each with its record number; only these columns, if they are named."""
        if self.groups is None:
            rows = collect([self.source], [0])
            return rows if columns is None else rows.select([*columns, RECORD])
        assert self.first is not None
        rows = read_stretch(self.source, self.groups, self.skip, self.rows, columns)
        numbers = pa.array(np.arange(self.first, self.first + self.rows, dtype=np.int64))
        return (rows if columns is None else rows.select(list(columns))).append_column(RECORD, numbers)

    def head(self) -> pa.Table:
        """A table of the same columns without rows."""
        return Table.of(io.open(self.source).schema.empty_table()).to_arrow()


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


def ordered_levels(part: Part, columns: tuple[str, ...]) -> dict[str, pa.Array]:
    """The levels of ordered dictionary columns, lowest first: each part of the input has its own."""
    rows = part.read(columns)
    return {name: rows[name].chunk(0).dictionary for name in columns}


def summarise(
    part: Part,
    schema: Schema,
    columns: tuple[str, ...],
    checked: tuple[str, ...],
    draws: tuple[Key, str],
    rate: float,
) -> tuple[Summary, pa.Table]:
    """What the encodings have to know of a part, and the sampled rows of it.

    checked : further columns whose values are checked
    """
    rows = part.read([*columns, *checked])
    schema.check(Table.of(rows), checked)
    table = Table.of(rows.drop_columns(list(checked)))
    chosen = draws[0].draws(records_of(rows), draws[1]).uniform()[:, 0] < rate
    return Summary.of(table, schema, columns), table.to_arrow().filter(pa.array(chosen))


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


@dataclass(frozen=True)
class Territory:
    """Rows that are masked together: those of some cells, or a random share of them.

    share : number of the share, and how many there are
    """

    cells: tuple[int, ...]
    share: tuple[int, int] = (0, 1)

    def collect(self, sources: tuple[Path, ...], draws: tuple[Key, str]) -> pa.Table:
        """Its rows, in the order of their numbers."""
        at, shares = self.share

        def ours(rows: pa.Table) -> Host:
            drawn = draws[0].draws(records_of(rows), f"{draws[1]}/share").uniform()[:, 0]
            return np.asarray((drawn * shares).astype(np.int64) == at)

        return _by_record(collect(sources, self.cells, ours if shares > 1 else None))


def mask_cell(
    item: tuple[Territory, Path],
    sources: tuple[Path, ...],
    plan: Plan,
    draws: tuple[Key, str],
    backend: Backend,
    checked: bool,
    release_parts: int,
) -> CellResult:
    """Collect the rows of a territory, mask and verify them, and write them by release part (0 parts: as one)."""
    territory, target = item
    rows = territory.collect(sources, draws)
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
    rows = collect(sources, [number])
    by_record = np.argsort(records_of(rows), kind="stable")  # not cell by cell: nothing of the cells may be left
    order = by_record[release_order(key, records_of(rows)[by_record])]
    rows = rows.drop_columns([RECORD]).take(pa.array(order))
    with whole_file(target, mode=0o666) as hidden:  # the release's own file: the umask says who may read it
        pq.write_table(rows, hidden)
    return int(rows.num_rows)


def _by_record(rows: pa.Table) -> pa.Table:
    """The rows in the order of their numbers."""
    return rows.take(pa.array(np.argsort(records_of(rows), kind="stable")))


def records_of(rows: pa.Table) -> Host:
    """(n,) int64 record numbers."""
    return np.asarray(rows[RECORD].to_numpy())
