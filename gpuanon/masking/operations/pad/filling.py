"""Added rows filled: samples of the table that a model is fitted to, and the columns that it draws.

Which rows are sampled is a function of their numbers, so that cells, parts and workers change nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Backend, Host
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each
from gpuanon.masking.contract import Operation
from gpuanon.masking.outcomes import AddedRows, ColumnValues, Sampled, Samples
from gpuanon.tables.encoding.numbers import NumberCodec
from gpuanon.tables.native import gather
from gpuanon.tables.rows import Rows
from gpuanon.tables.schema import Schema
from gpuanon.tables.summaries import NumberSummary
from gpuanon.tables.table import Table
from gpuanon.tables.values import distinct, family, floats, lookup

if TYPE_CHECKING:
    import pyarrow as pa


_EXACT = 2.0**53
_LARGEST = 1e100  # whose squares models can add up


@dataclass(frozen=True, eq=False, repr=False)
class NumberValues:
    """Numbers and times: the value itself, NaN for a null."""

    codec: NumberCodec
    levels: int = 0

    def values(self, data: pa.ChunkedArray) -> Host:
        """(n,) float64."""
        return floats(data)

    def column(self, values: Host, like: nw.Series[Any]) -> nw.Series[Any]:
        """The nearest values on the column's lattice, in the type of `like`."""
        return self.codec.on_lattice(values, like)


@dataclass(frozen=True, eq=False, repr=False)
class LevelValues:
    """Levels: codes from 0, NaN for a null or an unknown level.  Values that cannot be compared are levels by row.

    known : Arrow array of the levels, in the order of their codes; None where rows are levels
    first : (levels + 1,) a row of the sample that has each level, and one that has none, −1 without any
    """

    known: pa.Array | None
    first: Host

    @property
    def levels(self) -> int:
        return max(len(self.first) - 1, 1)

    def values(self, data: pa.ChunkedArray) -> Host:
        """(n,) float64."""
        if self.known is None:
            return np.full(len(data), np.nan)
        codes = lookup(data, self.known).astype(np.float64)
        return np.where(codes < 0, np.nan, codes)

    def column(self, values: Host, like: nw.Series[Any]) -> nw.Series[Any]:
        """Copies of the sample's values; `like` is the column of the sample."""
        codes = np.where(np.isnan(values), len(self.first) - 1, values).astype(np.int64)
        return gather(like, self.first[codes])


@dataclass(frozen=True, eq=False, repr=False)
class ModelledColumns:
    """All columns of a table as numbers, by what a sample of its rows holds."""

    names: tuple[str, ...]
    coders: tuple[NumberValues | LevelValues, ...]

    @classmethod
    def fit(cls, sample: Table, schema: Schema, names: Sequence[str]) -> ModelledColumns:
        """Fit to sampled rows."""
        return cls(tuple(names), tuple(each(lambda name: _coder(sample, schema, name), names)))

    @property
    def levels(self) -> tuple[int, ...]:
        """For each column the number of its levels; 0 for numbers."""
        return tuple(coder.levels for coder in self.coders)

    def values(self, table: Table, names: Sequence[str]) -> Host:
        """(n, names) float64 of these columns."""
        chosen = [self.coders[self.names.index(name)] for name in names]
        found = each(lambda at: at[1].values(table.arrow(at[0])), list(zip(names, chosen, strict=True)))
        return np.column_stack(found) if found else np.empty((table.n_rows, 0))

    def sampled(self, sample: Table, names: Sequence[str]) -> Host:
        """`values` of the sample itself; a column whose values cannot be compared has its row numbers."""
        values = self.values(sample, names)
        for at, name in enumerate(names):
            coder = self.coders[self.names.index(name)]
            if isinstance(coder, LevelValues) and coder.known is None:
                values[:, at] = np.arange(len(values))
        return values

    def column(self, name: str, values: Host, sample: Table) -> nw.Series[Any]:
        """The column that drawn `values` (m,) mean."""
        return self.coders[self.names.index(name)].column(values, sample.series(name))


def _coder(sample: Table, schema: Schema, name: str) -> NumberValues | LevelValues:
    """How one column becomes numbers: those that float64 cannot hold exactly, or square, are levels."""
    import pyarrow as pa

    data, column = sample.arrow(name), schema[name]
    kind = family(data.type)
    if column.kind in ("numeric", "date") and kind in ("number", "time"):
        plain = column.model_copy(update={"transform": "none"})
        size = float(np.nanmax(np.abs(floats(data)), initial=0.0))
        if size < _LARGEST:
            summary = NumberSummary.of(plain, data)
            if pa.types.is_floating(data.type) or size / max(summary.unit, 1) < _EXACT:
                return NumberValues(NumberCodec.fit(plain, summary, "indicator", "indicator"))
    rows = np.arange(len(data), dtype=np.int64)
    if kind == "other":
        return LevelValues(None, np.append(rows, -1))
    known = distinct([data])
    codes = lookup(data, known)
    first = np.full(len(known) + 1, -1, dtype=np.int64)
    first[codes[::-1]] = rows[::-1]  # the last write wins; the code −1 of a null is the last place
    return LevelValues(known, first)


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
