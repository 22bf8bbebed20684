"""Repeated measurements: the records of a person, aligned in time, become one wide row.

A measured column ``weight`` at the times 0, 1, 2 becomes ``weight_0``, ``weight_1``, ``weight_2``: a vector, null where
the person was not measured.  Every mask, claim and measure then sees a table of persons.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta
from typing import TYPE_CHECKING, Any, Literal, Self

import narwhals as nw
import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from gpuanon.arrays.backend import Host
from gpuanon.errors import InputError
from gpuanon.tables import native
from gpuanon.tables.arrow import arrow_array
from gpuanon.tables.row_bits import column_words, row_bits
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats, null_mask, plain

if TYPE_CHECKING:
    import pyarrow as pa

Points = tuple[float, ...]
"""Times, ascending, each of which becomes a column of every measured column: numbers, or days since 1970."""

MOST = 1000
"""Times that may become columns."""

_EPOCH = date(1970, 1, 1)
_UNITS = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Series(BaseModel):
    """What a recipe says of repeated measurements, under ``[series]``.

    Records of one person, the column of role person, become one row.  The times become names of columns, so each time
    must be that of several persons: by default of as many as the largest k of the masks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    time: str = Field(description="column of the time of a record: a number or a date; not released")
    columns: tuple[str, ...] = Field(
        min_length=1, description="columns that are measured repeatedly; the others must be the same for a person"
    )
    origin: Literal["same", "person"] = Field(
        default="same", description="same: times as they are; person: counted from the person's first record"
    )
    step: float | None = Field(
        default=None,
        gt=0,
        description="width of the intervals of time that become columns; none: each time by itself, dates by the day",
    )
    several: Literal["refuse", "first", "last", "mean"] = Field(
        default="refuse",
        description="records of a person at one time: refused, or the earliest, the latest or the mean stands",
    )
    rare: Literal["refuse", "drop"] = Field(
        default="refuse", description="records at times that fewer persons have than `least`"
    )
    least: int | None = Field(
        default=None, ge=2, description="persons that a time must have; none: the largest k of the masks, 2 without one"
    )

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        """Refuse a column in two roles."""
        if len(set(self.columns)) < len(self.columns) or self.time in self.columns:
            raise ValueError("columns: each column once, and not the time")
        return self


@dataclass(frozen=True, eq=False, repr=False)
class Aligned:
    """Records of whole persons, each with its place in the wide table.

    table  : the records
    person : (n,) int64 whose record each is, numbered from 0 in the order of their first records
    first  : (p,) int64 the first record of each person
    exact  : (n,) float64 time of each
    times  : (n,) the same on the grid of the series
    dates  : whether times are days since 1970
    """

    table: Table
    person: Host
    first: Host
    exact: Host
    times: Host
    dates: bool

    @classmethod
    def of(cls, table: Table, person: str, series: Series) -> Aligned:
        """Find the persons and the times; every record of a person must be in `table`."""
        bits = np.ascontiguousarray(row_bits(table, [person])).view([("a", np.uint64), ("b", np.uint64)]).reshape(-1)
        _, first, place = np.unique(bits, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        index, first = rank[place.reshape(-1)], first[order].astype(np.int64)
        exact, dates = _times(table, series)
        if series.origin == "person":
            earliest = np.full(len(first), np.inf)
            np.minimum.at(earliest, index, exact)
            exact, dates = exact - earliest[index], False
        step = series.step
        times = exact if step is None else np.floor(exact / step + 1e-9) * step
        return cls(table, index, first, exact, times, dates)

    def counts(self) -> dict[float, int]:
        """Persons that each time has."""
        times, place = np.unique(self.times, return_inverse=True)
        pairs = np.unique(self.person * max(len(times), 1) + place.reshape(-1))
        found = np.bincount(pairs % max(len(times), 1), minlength=len(times))
        return dict(zip(times.tolist(), found.tolist(), strict=True))

    def wide(self, series: Series, points: Points) -> Table:
        """(p rows) one row for each person, in the order of their first records; records at other times are left out.

        Raises
        ------
        InputError : a column that is not measured repeatedly varies, or a person has several records at one time
        """
        others = [name for name in self.table.names if name not in (*series.columns, series.time)]
        self._check_constant(others)
        at = np.searchsorted(points, self.times)
        at = np.minimum(at, len(points) - 1)
        chosen = np.flatnonzero(np.asarray(points)[at] == self.times)
        chosen = chosen[np.argsort(self.exact[chosen], kind="stable")]
        cell = self.person[chosen] * len(points) + at[chosen]
        if series.several == "refuse" and len(np.unique(cell)) < len(cell):
            repeated = len(np.unique(self.person[chosen][_repeats(cell)]))
            raise InputError(
                f"series: {repeated} persons have several records at one time",
                hint='several = "first", "last" or "mean" says which stands',
            )
        rows = np.full(len(self.first) * len(points), -1, dtype=np.int64)
        order = chosen if series.several == "last" else chosen[::-1]  # the last that is written stands
        rows[cell if series.several == "last" else cell[::-1]] = order
        table = self.table.select(others).take(self.first)
        columns: dict[str, nw.Series[Any]] = {}
        for name in series.columns:
            source = self.table.series(name)
            if series.several == "mean":
                values = self._means(name, chosen, cell, len(rows))
            for number, label in enumerate(labels(points, self.dates)):
                wide = wide_name(name, label)
                if wide in self.table.names:
                    raise InputError(f"series: the column {wide!r} is there already", hint="rename it")
                if series.several == "mean":
                    columns[wide] = _numbers(values[number :: len(points)], wide, source)
                else:
                    columns[wide] = _taken(source.alias(wide), rows[number :: len(points)])
        return table.replace(columns)

    def _means(self, name: str, chosen: Host, cell: Host, cells: int) -> Host:
        """(cells,) mean of the values of each cell that are not null; NaN without any."""
        column = self.table.arrow(name)
        if family(column.type) != "number":
            raise InputError(f"series: column {name!r}: a mean is for numbers", hint='several = "first" or "last"')
        values = floats(column)[chosen]
        known = ~np.isnan(values)
        counts = np.bincount(cell[known], minlength=cells)
        sums = np.bincount(cell[known], weights=values[known], minlength=cells)
        return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)

    def _check_constant(self, names: list[str]) -> None:
        """Refuse a column that varies between the records of a person."""
        faults = []
        for name, words in column_words(self.table, names, stored=False).items():
            varies = (words.values != words.values[self.first[self.person]]).any(axis=1)
            if words.missing is not None:
                missing = words.missing
                other = missing != missing[self.first[self.person]]
                varies = np.where(missing & ~other, False, varies | other)
            count = len(np.unique(self.person[varies]))
            if count:
                faults.append(f"series: column {name!r} varies between the records of {count} persons")
        if faults:
            raise InputError(
                "\n".join(faults), hint="name it in series.columns, or drop it: role = 'dropped' in the recipe"
            )


def labels(points: Points, dates: bool) -> tuple[str, ...]:
    """The times as they stand in names of columns."""
    if dates:
        return tuple((_EPOCH + timedelta(days=int(point))).isoformat() for point in points)
    return tuple(f"{point:.12g}" for point in points)


def wide_name(column: str, label: str) -> str:
    """The name of a measured column at a time."""
    return f"{column}_{label}"


def chosen_points(counts: dict[float, int], series: Series, least: int) -> Points:
    """The times that become columns; refuses rare ones, unless they are dropped, and too many."""
    common = tuple(sorted(point for point, persons in counts.items() if persons >= least))
    if len(common) < len(counts) and series.rare == "refuse":
        raise InputError(
            f"series: {len(counts) - len(common)} of {len(counts)} times are those of fewer than {least} persons, and"
            " the times become names of columns",
            hint='a wider step puts times together; rare = "drop" leaves their records out',
        )
    if not common:
        raise InputError(f"series: no time has {least} persons", hint="a wider step puts times together")
    if len(common) > MOST:
        raise InputError(
            f"series: {len(common)} times would become columns, {MOST} are allowed",
            hint="a wider step puts times together",
        )
    return common


def _times(table: Table, series: Series) -> tuple[Host, bool]:
    """(n,) float64 the times, and whether they are days since 1970."""
    import pyarrow as pa

    if series.time not in table.names:
        raise InputError(f"series: there is no column {series.time!r}, the time")
    column = plain(table.arrow(series.time))
    holds = family(column.type)
    dated = pa.types.is_date(column.type) or pa.types.is_timestamp(column.type)
    if holds != "number" and not dated:
        raise InputError(f"series: the time {series.time!r} must be a number or a date, got {column.type}")
    empty = int(null_mask(column).sum())
    if empty:
        raise InputError(f"series: the time {series.time!r} is empty in {empty} records")
    values = floats(column)
    if dated:
        values = values / _ticks_per_day(column.type)
        if series.step is None:
            values = np.floor(values)
        elif series.origin == "same" and series.step % 1:
            raise InputError(f"series: a step of dates is whole days, got {series.step:g}")
    return values, dated


def _ticks_per_day(type_: pa.DataType) -> int:
    """Units of a type of dates in a day."""
    import pyarrow as pa

    if pa.types.is_date32(type_):
        return 1
    return 86400 * (10**3 if pa.types.is_date64(type_) else _UNITS[type_.unit])


def _repeats(cell: Host) -> Host:
    """(n,) whether each value occurs more than once."""
    _, place, counts = np.unique(cell, return_inverse=True, return_counts=True)
    return np.asarray(counts[place.reshape(-1)] > 1)


def _taken(source: nw.Series[Any], rows: Host) -> nw.Series[Any]:
    """The values of these rows, null where a row is −1, in the column's own type."""
    import pyarrow as pa

    column = native.to_arrow(source)
    places = arrow_array(np.maximum(rows, 0), null=rows < 0)
    if source.implementation.is_pyarrow():
        taken = column.combine_chunks().take(places) if column.num_chunks != 1 else column.chunk(0).take(places)
        wide: nw.Series[Any] = nw.from_native(pa.chunked_array([taken]), series_only=True, allow_series=True)
        return wide.alias(source.name)
    values: pa.ChunkedArray = plain(column).take(places)
    return native.from_arrow(values.combine_chunks(), source)


def _numbers(values: Host, name: str, like: nw.Series[Any]) -> nw.Series[Any]:
    """Numbers as a column of the kind of dataframe of `like`; NaN is null."""
    return nw.new_series(
        name, [None if np.isnan(value) else value for value in values.tolist()], nw.Float64, backend=like.implementation
    )
