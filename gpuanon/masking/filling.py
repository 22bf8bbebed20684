"""Added rows filled: samples of the table that a model is fitted to, and the columns that it draws.

Which rows are sampled is a function of their numbers, so that cells, parts and workers change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import narwhals as nw
import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend
from gpuanon.arrays.rng import Key
from gpuanon.masking.contract import Operation
from gpuanon.masking.modelled_columns import ModelledColumns
from gpuanon.masking.outcomes import AddedRows, ColumnValues, Sampled, Samples
from gpuanon.tables.native import gather
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table

Host = np.ndarray[Any, Any]

_ROWS = 1 << 19
"""Added rows that are filled at once."""


@dataclass(frozen=True, repr=False)
class FillSample:
    """Sampled rows of a cell, or of several that were merged.

    records : sampled records, added : sampled rows that are going to be added, with the values of their parents
    rows    : number of all records, rows_added : of all added rows
    backend : of the run
    """

    records: Rows
    added: Rows
    rows: int
    rows_added: int
    backend: Backend

    @classmethod
    def of(
        cls, rows: Rows, added: Rows, samples: Samples, total: int, key: Key, stream: str, backend: Backend
    ) -> FillSample:
        """Of one cell; `total` is the number of records of the whole table."""
        return cls(
            _some(rows, samples.records / total, key, f"{stream}/sample"),
            _some(added, samples.added / total, key, f"{stream}/sample"),
            len(rows),
            len(added),
            backend,
        )

    def merge(self, other: FillSample) -> FillSample:
        """The sample of both."""
        return FillSample(
            Rows.concatenated([self.records, other.records]),
            Rows.concatenated([self.added, other.added]),
            self.rows + other.rows,
            self.rows_added + other.rows_added,
            self.backend,
        )


def _some(rows: Rows, rate: float, key: Key, stream: str) -> Rows:
    """A random share of the rows."""
    if rate >= 1:
        return rows
    chosen = key.draws(rows.records, stream).uniform()[:, 0] < rate if rate > 0 else np.zeros(len(rows), bool)
    return rows.take(np.flatnonzero(chosen))


@dataclass(frozen=True, repr=False)
class Fill:
    """A fitted model of the columns that a mask does not release.

    known  : the columns of the mask, others : those that are filled
    coding : of all of them as numbers
    sample : the sampled records, from which values of levels are copied
    """

    operation: Operation
    known: tuple[str, ...]
    others: tuple[str, ...]
    coding: ModelledColumns
    sample: Table
    model: Any

    @classmethod
    def fit(
        cls, operation: Operation, found: FillSample, known: tuple[str, ...], schema: Schema, key: Key, stream: str
    ) -> Fill:
        """Fit the operation's model, once for all cells."""
        records, added = found.records.sorted(), found.added.sorted()
        others = tuple(name for name in records.table.names if name not in known)
        names = known + others
        with progress.stage("fit"):
            coding = ModelledColumns.fit(records.table, schema, names)
            values = ColumnValues(names, coding.sampled(records.table, names), coding.levels)
            sampled = Sampled(
                values,
                len(known),
                None if not len(added) else _values(coding, added.table, known),
                found.rows,
                found.rows_added,
                key.draws(added.records, f"{stream}/fill"),
                found.backend,
            )
            model = operation.fit(sampled)
        return cls(operation, known, others, coding, records.table.select(others) if others else records.table, model)

    @property
    def report(self) -> Mapping[str, Any]:
        """What the manifest says of it."""
        return self.operation.report(self.model, self.known + self.others)

    def columns(
        self, rows: Rows, parents: Host, records: Host, codes: Host, key: Key, stream: str
    ) -> dict[str, nw.Series[Any]]:
        """The filled columns of added rows.

        parents : (m,) the row of the cell beside which each was made; records : (m,) its own record number
        codes   : (n, columns) of the rows of the cell
        """
        pieces: list[dict[str, nw.Series[Any]]] = []
        cell = partial(_values, self.coding, rows.table, self.others)
        for at in range(0, len(parents), _ROWS):
            chosen = parents[at : at + _ROWS]
            added = AddedRows(
                _values(self.coding, rows.table.select(self.known).take(chosen), self.known),
                self.others,
                chosen,
                codes,
                cell,
                key.draws(records[at : at + _ROWS], f"{stream}/fill"),
                rows.persons,
            )
            found = self.operation.filled(self.model, added)
            pieces.append(
                {
                    name: gather(rows.table.series(name), column.donors)
                    if column.donors is not None
                    else self.coding.column(name, _given(column.values), self.sample)
                    for name, column in zip(self.others, found, strict=True)
                }
            )
            progress.report(min(1.0, (at + _ROWS) / len(parents)))
        return {name: _joined([piece[name] for piece in pieces]) for name in self.others} if pieces else {}


def _values(coding: ModelledColumns, table: Table, names: tuple[str, ...]) -> ColumnValues:
    """These columns of a table as numbers."""
    levels = dict(zip(coding.names, coding.levels, strict=True))
    return ColumnValues(names, coding.values(table, names), tuple(levels[name] for name in names))


def _given(values: Any) -> Host:
    assert values is not None
    return np.asarray(values)


def _joined(pieces: list[nw.Series[Any]]) -> nw.Series[Any]:
    """The pieces of a column, one after the other."""
    if len(pieces) == 1:
        return pieces[0]
    name = pieces[0].name
    return Table.concatenated([Table.of(piece.to_frame()) for piece in pieces]).series(name)
