"""What an encoding has to know of a table, as summaries of its parts that merge.

Sums are exact, extremes and counts are what they are, levels are sorted sets: the summary of a table is the
same, to the bit, however its rows are divided and in whatever order the parts are merged.

Values are counted exactly where few are distinct, else in a bounded sketch: they are truncated to the most leading bits
that leave at most `LIMIT` distinct ones.  Truncations are nested, and the number of distinct values falls with every
bit, so the sketch depends on the values only, not on the order or the partitioning of the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import HOST, Backend, Host
from gpuanon.arrays.threads import each
from gpuanon.errors import InputError
from gpuanon.numerics.exact_sum import ExactMoments
from gpuanon.tables.arrow import arrow_array, numpy_array
from gpuanon.tables.checks import value_faults
from gpuanon.tables.schema import Column, Schema, Transform
from gpuanon.tables.table import Table
from gpuanon.tables.values import distinct, family, floats, lookup, plain, ticks, value_type

if TYPE_CHECKING:
    import pyarrow as pa


LIMIT = 1 << 16
_BITS = 64


@dataclass(frozen=True, eq=False, repr=False)
class ValueCounts:
    """Distinct values, ascending, and their counts.

    keys   : (m,) uint64, ordered as the values are, lowest `cut` bits zero
    counts : (m,) int64
    cut    : number of truncated bits; 0 means exact
    """

    keys: Host
    counts: Host
    cut: int = 0

    @classmethod
    def of(cls, values: Host) -> ValueCounts:
        """Count finite float64 `values` (n,)."""
        keys, counts = np.unique(_to_keys(values), return_counts=True)
        return _bounded(keys, counts.astype(np.int64), 0)

    def merge(self, other: ValueCounts) -> ValueCounts:
        """The counts of both sets of values together."""
        cut = max(self.cut, other.cut)
        keys = np.concatenate([_cut(self.keys, cut), _cut(other.keys, cut)])
        return _bounded(*_gather(keys, np.concatenate([self.counts, other.counts])), cut)

    @property
    def values(self) -> Host:
        """(m,) the values: themselves when exact, the lower end of each bin otherwise."""
        return _to_values(self.keys)


def _to_keys(values: Host) -> Host:
    """Map float64 to uint64 so that order is kept (the bits of negative numbers are inverted)."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # + 0.0: −0 becomes 0
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _to_values(keys: Host) -> Host:
    """The inverse of `_to_keys`."""
    return np.where(keys >> np.uint64(63), keys & np.uint64((1 << 63) - 1), ~keys).view(np.float64)


def _cut(keys: Host, bits: int) -> Host:
    """Set the lowest `bits` bits to zero."""
    return keys & np.uint64((1 << _BITS) - (1 << bits))


def _gather(keys: Host, counts: Host) -> tuple[Host, Host]:
    """Merge equal keys."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), dtype=bool), keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def _bounded(keys: Host, counts: Host, cut: int) -> ValueCounts:
    """Truncate the fewest bits, at least `cut`, that leave at most `LIMIT` distinct keys; `keys` are sorted."""
    if len(keys) <= LIMIT:
        return ValueCounts(keys, counts, cut)
    # Neighbours become equal once the highest bit in which they differ is truncated.
    differing = np.ceil(np.log2((keys[1:] ^ keys[:-1]).astype(np.float64) + 1)).astype(np.int64)
    distinct = len(keys) - np.cumsum(np.bincount(differing, minlength=_BITS + 1))
    low = max(cut, int(np.argmax(distinct <= LIMIT)) - 1)  # - 1: rounding of log2 may overshoot by one
    while True:
        shorter = _gather(_cut(keys, low), counts)
        if len(shorter[0]) <= LIMIT:
            return ValueCounts(*shorter, low)
        low += 1


_MOST_DECIMALS = 9
_TICKS = {"D": 86_400, "s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}


@dataclass(frozen=True, eq=False, repr=False)
class NumberSummary:
    """A column of numbers or times.

    nulls     : rows without a value
    moments   : of the transformed values
    low, high : extremes of the values themselves; None without any
    decimals  : decimals that write every value; None when more than nine are needed
    unit      : of times the largest of day, hour, minute, second, … that divides every value, in ticks; of numbers the
                largest part of 1 that divides every value, in units of the last decimal; 0 without values
    counts    : of the values, where normal scores are wanted
    """

    nulls: int
    moments: ExactMoments
    low: float | int | None
    high: float | int | None
    decimals: int | None
    unit: int
    counts: ValueCounts | None

    @classmethod
    def of(cls, column: Column, data: pa.ChunkedArray, backend: Backend = HOST) -> NumberSummary:
        """Summarise the column.

        backend : where the sums are made, which are exact, so the same everywhere.  Transforms are made on the host:
            logarithms of a device may differ in their last bit
        """
        values = floats(data)
        null = np.isnan(values)
        values = values[~null] if null.any() else values
        low, high = _extremes(data, values)
        decimals = _decimals(values)
        return cls(
            nulls=len(data) - len(values),
            moments=ExactMoments.of(backend.upload(transformed(values, column.transform))),
            low=low,
            high=high,
            decimals=decimals,
            unit=_unit(data) if family(value_type(data.type)) == "time" else _part_of_one(values, decimals),
            counts=ValueCounts.of(values) if column.transform == "normal-scores" else None,
        )

    def merge(self, other: NumberSummary) -> NumberSummary:
        """The summary of the rows of both."""
        lows = [end for end in (self.low, other.low) if end is not None]
        highs = [end for end in (self.high, other.high) if end is not None]
        decimals = None if self.decimals is None or other.decimals is None else max(self.decimals, other.decimals)
        units = [one.unit * 10 ** ((decimals or 0) - (one.decimals or 0)) for one in (self, other) if decimals]
        return NumberSummary(
            nulls=self.nulls + other.nulls,
            moments=self.moments.merge(other.moments),
            low=min(lows, default=None),
            high=max(highs, default=None),
            decimals=decimals,
            unit=int(np.gcd.reduce(units or [self.unit, other.unit])),
            counts=None if self.counts is None or other.counts is None else self.counts.merge(other.counts),
        )


@dataclass(frozen=True, eq=False, repr=False)
class LevelSummary:
    """A column of levels.

    nulls  : rows without a value
    levels : Arrow array of the distinct values, ascending
    counts : (levels,) int64 rows of each
    """

    nulls: int
    levels: pa.Array
    counts: Host

    @classmethod
    def of(cls, column: Column, data: pa.ChunkedArray) -> LevelSummary:
        """Summarise the column."""
        levels = distinct([data])
        codes = lookup(data, levels)
        counts = np.bincount(codes + 1, minlength=len(levels) + 1)
        return cls(int(counts[0]), levels, counts[1:])

    def merge(self, other: LevelSummary) -> LevelSummary:
        """The summary of the rows of both."""
        import pyarrow as pa

        mine, theirs = pa.chunked_array([self.levels]), pa.chunked_array([other.levels])
        levels = distinct([mine, theirs])
        counts = np.zeros(len(levels), dtype=np.int64)
        counts[lookup(mine, levels)] += self.counts
        counts[lookup(theirs, levels)] += other.counts
        return LevelSummary(self.nulls + other.nulls, levels, counts)


ColumnSummary: TypeAlias = NumberSummary | LevelSummary


@dataclass(frozen=True, eq=False, repr=False)
class Summary:
    """Number of rows, and one summary for each column that is to be encoded.

    counted : how often each value occurs, of numbers too, for columns whose whole distribution is asked for
    """

    rows: int
    columns: dict[str, ColumnSummary]
    counted: dict[str, LevelSummary] = field(default_factory=dict)

    @classmethod
    def of(
        cls, table: Table, schema: Schema, columns: Sequence[str], counted: Sequence[str] = (), backend: Backend = HOST
    ) -> Summary:
        """Summarise these columns of `table`, a whole or a part; `backend` as for `NumberSummary.of`."""

        def one(name: str) -> ColumnSummary | list[str]:
            column, data = schema[name], table.arrow(name)
            faults = value_faults(name, column.role, column.transform, column.levels, data, column.missing_words)
            numeric = column.kind in ("numeric", "date") and family(data.type) != "nothing"
            if faults:
                return faults
            return NumberSummary.of(column, data, backend) if numeric else LevelSummary.of(column, data)

        # A device belongs to the thread that chose it.
        found = each(one, columns) if backend.name == "numpy" else [one(name) for name in columns]
        faults = [fault for result in found if isinstance(result, list) for fault in result]
        if faults:
            raise InputError("\n".join(faults))
        counts = {name: LevelSummary.of(schema[name], table.arrow(name)) for name in counted}
        summaries = [result for result in found if not isinstance(result, list)]
        return cls(table.n_rows, dict(zip(columns, summaries, strict=True)), counts)

    def __repr__(self) -> str:
        return f"Summary({self.rows} rows, {len(self.columns)} columns)"

    def merge(self, other: Summary) -> Summary:
        """The summary of the rows of both."""
        theirs: Mapping[str, Any] = other.columns  # of the type of mine, column by column
        merged = {name: mine.merge(theirs[name]) for name, mine in self.columns.items()}
        counted = {name: mine.merge(other.counted[name]) for name, mine in self.counted.items()}
        return Summary(self.rows + other.rows, merged, counted)

    def select(self, names: Sequence[str]) -> Summary:
        """The summary of these columns alone."""
        return Summary(self.rows, {name: self.columns[name] for name in names})

    def refuse_nulls(self) -> None:
        """Refuse columns with nulls, every one by name."""
        faults = [
            f"column {name!r}: {found.nulls} of {self.rows} rows are null"
            for name, found in self.columns.items()
            if found.nulls
        ]
        if faults:
            raise InputError("\n".join(faults), hint='nulls = "indicator" keeps them')

    @staticmethod
    def merged(parts: Sequence[Summary]) -> Summary:
        """The summary of all parts."""
        return reduce(Summary.merge, parts)


def transformed(values: Host, transform: Transform) -> Host:
    """Logarithms where asked for; normal scores come later, they need the counts of all values."""
    if transform == "log":
        return np.asarray(np.log(values))
    return np.asarray(np.log1p(values)) if transform == "log1p" else values


def _extremes(data: pa.ChunkedArray, values: Host) -> tuple[float | int | None, float | int | None]:
    """The smallest and the largest value, whole numbers exactly."""
    import pyarrow as pa
    import pyarrow.compute as pc

    data = plain(data)
    if family(data.type) == "time":
        data = ticks(data)
    if pa.types.is_integer(data.type):
        ends = pc.min_max(data).as_py()
        return ends["min"], ends["max"]
    return (float(values.min()), float(values.max())) if len(values) else (None, None)


def _decimals(values: Host) -> int | None:
    """Decimals that write every one of the values, or None when more than nine are needed."""
    if len(values) > 1000 and _decimals(values[:1000]) is None:  # most columns that need more show it at once
        return None
    rest = values
    for decimals in range(_MOST_DECIMALS + 1):
        rest = rest[np.round(rest, decimals) != rest]
        if len(rest) == 0:
            return decimals
    return None


def _part_of_one(values: np.ndarray[Any, Any], decimals: int | None) -> int:
    """The largest part of 1 of which all values are multiples, in units of the last decimal; 0 without values."""
    if not decimals or not len(values):
        return min(len(values), 1)
    whole, one = np.rint(values * 10.0**decimals), 10**decimals
    if np.abs(whole).max() > 2.0**53:
        return 1
    return int(np.gcd.reduce(np.gcd(whole.astype(np.int64), one)))


def _unit(data: pa.ChunkedArray) -> int:
    """The largest natural unit of time, in ticks, that divides every value; 0 without values."""
    import pyarrow as pa

    type_ = value_type(data.type)
    numbers = numpy_array(ticks(plain(data)).drop_null())
    common = int(np.gcd.reduce(numbers)) if len(numbers) else 0
    if pa.types.is_date32(type_):
        return min(common, 1)
    second = _TICKS["ms" if pa.types.is_date64(type_) else type_.unit]
    units = [86_400 * second, 3_600 * second, 60 * second] + [second // 10**p for p in (0, 3, 6, 9) if second >= 10**p]
    return 0 if common == 0 else next(unit for unit in units if common % unit == 0)


@dataclass(frozen=True, eq=False, repr=False)
class SensitiveColumn:
    """Values of a column and their frequencies.

    ordered : whether the order of the values means something
    values  : the distinct values in their order
    nulls   : whether a null occurs; it is a value then, before all others
    counts  : (levels,) int64 rows of each value in the whole table
    """

    name: str
    ordered: bool
    values: pa.Array
    nulls: bool
    counts: Host

    @classmethod
    def of(cls, column: Column, summary: LevelSummary) -> SensitiveColumn:
        """From the summary of the whole table; levels that the schema orders have its order."""
        import pyarrow as pa

        values, counts = summary.levels, summary.counts
        if column.levels is not None and not pa.types.is_null(values.type):
            order = lookup(pa.chunked_array([arrow_array(column.levels).cast(values.type)]), values)
            order = order[order >= 0]
            values, counts = values.take(arrow_array(order)), counts[order]
        nulls = summary.nulls > 0
        counts = np.concatenate([[summary.nulls], counts]) if nulls else counts
        return cls(column.name, column.kind != "categorical", values, nulls, np.asarray(counts, dtype=np.int64))

    def codes(self, table: Table) -> Host:
        """(n,) int64 position of each row's value in `counts`."""
        found = lookup(table.arrow(self.name), self.values)
        return found + 1 if self.nulls else np.maximum(found, 0)
