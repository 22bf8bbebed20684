"""Columns as plain numbers for statistical models, and drawn numbers as columns of the table's own types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import narwhals as nw
import numpy as np

from gpuanon.arrays.threads import each
from gpuanon.tables.codes import distinct, lookup
from gpuanon.tables.encoding.numbers import NumberCodec
from gpuanon.tables.native import gather
from gpuanon.tables.schema import Column, Schema
from gpuanon.tables.summaries import NumberSummary
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats

if TYPE_CHECKING:
    import pyarrow as pa

Host = np.ndarray[Any, Any]

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


def copied(column: Column, data: pa.ChunkedArray) -> bool:
    """Whether drawn values of a column can only be copies of those that occur: it has levels, and no new numbers."""
    return _numbers(column, data) is None


def _numbers(column: Column, data: pa.ChunkedArray) -> NumberValues | None:
    """A column as numbers; None for levels, and for numbers that float64 cannot hold exactly, or square."""
    import pyarrow as pa

    if column.kind not in ("numeric", "date") or family(data.type) not in ("number", "time"):
        return None
    plain = column.model_copy(update={"transform": "none"})
    size = float(np.nanmax(np.abs(floats(data)), initial=0.0))
    if size >= _LARGEST:
        return None
    summary = NumberSummary.of(plain, data)
    if not (pa.types.is_floating(data.type) or size / max(summary.unit, 1) < _EXACT):
        return None
    return NumberValues(NumberCodec.fit(plain, summary, "indicator", "indicator"))


def _coder(sample: Table, schema: Schema, name: str) -> NumberValues | LevelValues:
    """How one column becomes numbers."""
    data, column = sample.arrow(name), schema[name]
    numbers = _numbers(column, data)
    if numbers is not None:
        return numbers
    kind = family(data.type)
    rows = np.arange(len(data), dtype=np.int64)
    if kind == "other":
        return LevelValues(None, np.append(rows, -1))
    known = distinct([data])
    codes = lookup(data, known)
    first = np.full(len(known) + 1, -1, dtype=np.int64)
    first[codes[::-1]] = rows[::-1]  # the last write wins; the code −1 of a null is the last place
    return LevelValues(known, first)
