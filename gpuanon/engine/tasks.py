"""The tasks of a run, which any number of workers may do, in any order, again if one is lost.

    summarise   each part: what the mask has to know of its columns, and a sample of rows    (small results)
    place       each part: find the cell of every row, put the rows by cell                  (rows move)
    learn       each cell: what the operation has to know of all cells                       (small results)
    mask        each cell: collect its rows, mask and check them, put them by release part
    regroup     where tasks are many: rows of some sources, on their way to some destinations (rows move; see `routes`)
    assemble    each release part: collect its rows, order them at random                    (rows move)
    count       each release part: classes of equal rows, as written                         (small results)

Rows move twice: to their cell, and out of it again, because a release part that held one cell would tell which cell a
record comes from.  A task's result depends on the data, the recipe, the key and the cell size only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import HOST, Array, Backend, to_host
from gpuanon.arrays.device_memory import explain_out_of_memory
from gpuanon.arrays.rng import Key, mix_bits
from gpuanon.arrays.sorting import argsort_words
from gpuanon.engine.store import Part, Store
from gpuanon.engine.store.placement import Cell, Placing
from gpuanon.engine.store.routes import Route
from gpuanon.masking.claims import Counted, Evidence
from gpuanon.masking.given import CellSummary, Facts, added_facts
from gpuanon.masking.mask import Mask
from gpuanon.tables import native
from gpuanon.tables.class_counts import ClassCounts, Counts, PersonCounts, count_classes
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.rows import Rows, pseudonyms
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import Summary as TableSummary

if TYPE_CHECKING:
    import pyarrow as pa

Content = tuple[int, int]
"""A sum over records that tells whether two tables hold the same ones."""


@dataclass(frozen=True)
class CellResult:
    """What a masked cell reports; those of several cells are merged."""

    rows: int
    groups: int
    smallest: int
    evidence: tuple[Evidence, ...]
    facts: Facts = field(default_factory=dict)

    def merge(self, other: CellResult) -> CellResult:
        """The report of both."""
        return CellResult(
            self.rows + other.rows,
            self.groups + other.groups,
            min(self.smallest, other.smallest),
            tuple(mine.merge(theirs) for mine, theirs in zip(self.evidence, other.evidence, strict=True)),
            added_facts(self.facts, other.facts),
        )


def summarise(
    part: Part,
    schema: Schema,
    columns: tuple[str, ...],
    counted: tuple[str, ...],
    checked: tuple[str, ...],
    key: Key,
    stream: str,
    rate: float,
    backend: Backend = HOST,
) -> tuple[TableSummary, Rows]:
    """What the mask has to know of a part, and the sampled rows of it.

    counted : columns whose whole distribution it has to know
    checked : further columns whose values are checked
    rate    : share of the rows that is sampled
    """
    with progress.stage("summarise"):
        rows = part.read(tuple(dict.fromkeys([*columns, *counted, *checked])))
        schema.check(rows.table, checked)
        summary = TableSummary.of(rows.table, schema, columns, counted, backend)
        rows = rows.with_table(rows.table.select(columns))
        if rate >= 1:
            return summary, rows
        chosen = key.draws(rows.records, stream).uniform()[:, 0] < rate if rate else np.zeros(len(rows), bool)
        return summary, rows.take(np.flatnonzero(chosen))


def repeats(part: Part, names: tuple[str, ...], share: tuple[int, int]) -> tuple[ClassCounts, ...]:
    """How often the values of these columns of a part occur, those of a share of all values."""
    table = part.read(names).table
    return tuple(ClassCounts.of(row_bits(table, [name]), share) for name in names)


def place(
    item: tuple[Part, str],
    store: Store,
    mask: Mask,
    placing: Placing,
    key: Key,
    stream: str,
    drop: tuple[str, ...],
    route: Route,
    person: str | None = None,
    backend: Backend = HOST,
) -> tuple[dict[int, int], Content]:
    """Put a part's rows by cell; rows for each cell, and the sum that tells what the rows are.

    drop   : columns that go no further
    person : the column that says whose the rows are; None where there is none, or the rows know it already
    """
    part, name = item
    rows = part.read()
    if person is not None:
        rows = rows.with_persons(person, key)
    rows = rows.with_table(rows.table.drop(drop))
    counts = route.put(store, name, rows, placing.cells(mask, rows, key, stream))
    return counts, content(rows, backend)


def content(rows: Rows, backend: Backend = HOST) -> Content:
    """A sum over rows of the bits of their numbers, their persons and all their values: whatever the division of them.

    It tells what is masked: the same rows in another order are other records.
    """
    bits = row_bits(rows.table, rows.table.names, backend=backend)
    for numbers in (rows.records, rows.persons):
        if numbers is not None:
            words = backend.upload(numbers.astype(np.int64).view(np.uint64))
            bits = mix_bits(bits ^ mix_bits(words)[:, None])
    low, high = to_host(bits.sum(axis=0, dtype=np.uint64))
    return int(low), int(high)


def learn(
    cell: Cell, store: Store, route: Route, mask: Mask, key: Key, stream: str, backend: Backend, rows: int
) -> CellSummary:
    """What the operation has to know of a cell.

    rows : of the whole table
    """
    return mask.learn(cell.collect(store, route.names(cell.places), key, stream), key, stream, backend, rows)


def mask_cell(
    item: tuple[Cell, str],
    store: Store,
    route: Route,
    mask: Mask,
    learned: Callable[[], Any] | None,
    key: Key,
    stream: str,
    backend: Backend,
    changed: frozenset[str],
    release: tuple[str, Route],
) -> CellResult:
    """Collect the rows of a cell, mask and check them, and put them by release part.

    learned : gives what was learned of all cells
    changed : columns that later masks change; claims that do not last are not checked
    release : stream that chooses the release part of a row, and the way to the parts
    """
    cell, target = item
    before = cell.collect(store, route.names(cell.places), key, stream)
    masked = mask.apply(before, key, stream, backend, None if learned is None else learned())
    with progress.stage("verify"):
        evidence = (
            mask.accounting.check(before, masked.trace, masked.rows),
            *(claim.check(before, masked.trace, masked.rows) for claim in mask.lasting_claims(changed)),
        )
    path, way = release
    where = np.zeros(len(masked.rows), dtype=np.int64)
    if way.destinations > 1:
        where = (key.draws(masked.rows.records, path).uniform()[:, 0] * way.destinations).astype(np.int64)
    way.put(store, target, masked.rows, where)
    trace = masked.trace
    return CellResult(len(masked.rows), trace.groups, trace.smallest, evidence, masked.facts)


def regroup(task: tuple[int, int], store: Store, route: Route) -> int:
    """Bring the rows of some sources and a region of destinations together; the number of rows."""
    return route.regroup(store, task)


def assemble(
    number: int,
    store: Store,
    route: Route,
    key: Key,
    salt: str,
    pseudonym: str | None = None,
    labels: tuple[tuple[str, tuple[str, ...]], ...] = (),
    one_zero: bool = False,
    backend: Backend = HOST,
) -> int:
    """Collect the rows of a release part and keep them in random order; the number of rows.

    salt      : differs between runs, so that two releases under one key share neither an order nor pseudonyms
    pseudonym : the column that holds a pseudonym of each person, or None
    labels    : columns that hold a label of each class, and the columns whose classes they are
    one_zero  : whether all columns have one zero and one null: −0.0 and NaN, which no fill gives, would tell records
                from added rows
    """
    rows = store.get(route.names([number]), [number]).sorted()  # nothing of the cells may be left
    rows = rows.take(to_host(random_order(backend.upload(rows.records), key, f"row order/{salt}")))
    if one_zero:
        table = rows.table
        rows = rows.with_table(table.replace({name: native.one_zero(table.series(name)) for name in table.names}))
    if pseudonym is not None and rows.persons is not None:
        made = pseudonyms(rows.persons, key, f"pseudonym/{salt}")
        rows = rows.with_table(rows.table.replace({pseudonym: _text(made, rows)}))
    for name, columns in labels:
        classes = np.ascontiguousarray(row_bits(rows.table, columns, stored=True)[:, 0]).view(np.int64)
        made = pseudonyms(classes, key, f"label of {name}/{salt}")
        rows = rows.with_table(rows.table.replace({name: _text(made, rows)}))
    return store.release(number, rows)


def _text(values: pa.Array, rows: Rows) -> nw.Series[Any]:
    """A column of text for these rows."""
    return native.text_series(values, rows.table.series(rows.table.names[0]))


def random_order(records: Array, key: Key, stream: str) -> Array:
    """A random order of the rows, on their device: their order in the table identifies the records."""
    words = key.draws(records, stream).words(2).astype(np.uint64)
    return argsort_words((words[:, 0] << np.uint64(32)) | words[:, 1])


@explain_out_of_memory()
def count(
    number: int, store: Store, counted: tuple[Counted, ...], share: tuple[int, int], backend: Backend = HOST
) -> tuple[Counts, ...]:
    """Classes of rows of a release part, counted in rows or in persons.

    What is hashed and counted are the bits of the part as it lies in the store, which is what a file is compared with
    (`io.holds`): on a device they are uploaded column by column, and of a single part only the size
    of the smallest class comes back.

    share : number of the round, and how many there are: each counts a share of all classes, so that memory holds them
    """
    names = tuple(dict.fromkeys(name for classes in counted for name in classes.columns))
    table, persons = store.released(number, names), store.persons(number)
    wanted = [(c.columns, c.wildcard, c.covered) for c in counted]
    found: list[Counts] = list(count_classes(table, wanted, share, backend))
    if not store.one_part:  # counts of several parts are merged
        found = [counts.on_host() if isinstance(counts, ClassCounts) else counts for counts in found]
    for at, classes in enumerate(counted):
        if classes.unit != "record" and persons is not None:
            found[at] = PersonCounts.of(row_bits(table, classes.columns, stored=True), persons, share)
    return tuple(found)
