"""Guaranteed ranges of statistics from a release of boxes alone.

A release without intervals is one of boxes without width: its moments merge over pieces, and no value is held.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.evidence import EvidenceSource, MissingEvidence, TableMoments
from gpuanon.assessing.figures import By, ByPair, Measured, strict
from gpuanon.assessing.intervals.interval_statistics import IntervalBoxes, Range, regression, rounded_outward
from gpuanon.assessing.measure import FROM_0, Measure, Weights
from gpuanon.errors import InputError
from gpuanon.numerics import exact_sum
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.class_counts import ClassCounts, GrowingCounts
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.statistics import Statistic, expand
from gpuanon.tables.table import Table
from gpuanon.tables.values import family, floats, value_type

DEFAULT = ("mean", "variance", "sd", "covariance", "correlation")

_HOW = {
    "mean": "exact",
    "variance": "convex minimisation over the mean; the lower end is exact",
    "sd": "convex minimisation over the mean; the lower end is exact",
    "covariance": "cells of the means, with a rigorous remainder",
    "correlation": "bisection of the correlation",
}


@dataclass(frozen=True, eq=False, repr=False)
class ReleasedBoxes:
    """The boxes of a release; those of several pieces are merged.

    names     : columns
    low, high : (g, d) ends, NaN where null
    counts    : (g,) records
    """

    names: tuple[str, ...]
    low: Host
    high: Host
    counts: Host

    @classmethod
    def of(cls, table: Table) -> ReleasedBoxes:
        """Equal boxes of the table once; see `each`."""
        return cls.each(table)._counted()

    @classmethod
    def each(cls, table: Table) -> ReleasedBoxes:
        """One per record: columns NAME_low and NAME_high of numbers or times; other numbers are boxes of no width."""
        names = box_columns(table) + tuple(
            name for name in table.names if not _is_end(name, table.names) and _is_number(table, name)
        )
        ends: list[Host] = []
        for end in ("_low", "_high"):
            if end == "_high" and set(names) <= set(table.names):  # no column is an interval
                ends.append(ends[0])
                continue
            columns = [table.arrow(name if name in table.names else f"{name}{end}") for name in names]
            ends.append(
                np.stack([floats(column) for column in columns], axis=1) if names else np.empty((table.n_rows, 0))
            )
        return cls(names, ends[0], ends[1], np.ones(table.n_rows, dtype=np.int64))

    @classmethod
    def over(cls, pieces: Iterable[Table]) -> ReleasedBoxes:
        """Of all pieces together; a box is merged about as often as their number doubles."""
        total: list[ReleasedBoxes] = []
        waiting: list[ReleasedBoxes] = []
        for piece in pieces:
            waiting.append(cls.of(piece))
            if sum(len(one.counts) for one in waiting) > sum(len(one.counts) for one in total):
                total, waiting = [cls.merged([*total, *waiting])], []
        return cls.merged([*total, *waiting])

    @classmethod
    def merged(cls, boxes: Sequence[ReleasedBoxes]) -> ReleasedBoxes:
        """The boxes of all."""
        if len(boxes) == 1:
            return boxes[0]
        low, high, counts = (
            np.concatenate([getattr(one, name) for one in boxes]) for name in ("low", "high", "counts")
        )
        return cls(boxes[0].names, low, high, counts)._counted()

    def _counted(self) -> ReleasedBoxes:
        """Equal boxes once, with the number of their records."""
        if not self.names or not len(self.counts):
            return self
        labels = equal_rows(np.hstack([self.low, self.high]))
        _, first, place = np.unique(labels, return_index=True, return_inverse=True)
        counts = np.zeros(len(first), dtype=np.int64)
        np.add.at(counts, place.reshape(-1), self.counts)
        return ReleasedBoxes(self.names, self.low[first], self.high[first], counts)

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.counts.sum())

    def chosen(self, columns: Sequence[str]) -> IntervalBoxes:
        """The boxes of these columns, of the records that have a value in all of them."""
        places = [self.names.index(name) for name in columns]
        low, high = self.low[:, places], self.high[:, places]
        known = ~(np.isnan(low) | np.isnan(high)).any(axis=1)
        return IntervalBoxes.of(low[known], high[known], self.counts[known])

    exact = False

    @property
    def boxes(self) -> int:
        """Number of different boxes."""
        return len(self.counts)

    def mean(self, name: str) -> Range:
        """Range of the mean of a column."""
        return self.chosen([name]).mean(0)

    def covariance(self, first: str, second: str) -> Range:
        """Range of the covariance of two columns, or of the variance of one."""
        if first == second:
            return self.chosen([first]).variance(0)
        return self.chosen([first, second]).covariance(0, 1)


@dataclass(frozen=True)
class Bounded:
    """One statistic, and the range that holds for every table in the boxes.

    name    : such as ``mean(age)``; of a regression with the coefficient's name
    records : that it is computed from
    how     : which method gave the range
    """

    name: str
    low: float
    high: float
    records: int
    how: str

    def to_json(self) -> dict[str, Any]:
        """Infinite ends are None."""
        return {
            "statistic": self.name,
            "low": strict(self.low),
            "high": strict(self.high),
            "records": self.records,
            "how": self.how,
        }


def box_columns(table: Table) -> tuple[str, ...]:
    """The columns that were released as two, NAME_low and NAME_high, of numbers or times."""
    there = set(table.names)
    names = [name.removesuffix("_low") for name in table.names if name.endswith("_low")]
    return tuple(
        name for name in names if f"{name}_high" in there and name not in there and _is_number(table, f"{name}_low")
    )


def bounded(boxes: ReleasedBoxes, statistics: Sequence[str], columns: Sequence[str]) -> list[Bounded]:
    """The ranges of the statistics; those that name no columns are over `columns`."""
    wanted: list[Statistic] = []
    for text in statistics:
        named = Statistic.parse(text)
        wanted += expand([text], boxes.names if named.columns else columns)
    found: list[Bounded] = []
    for statistic in dict.fromkeys(wanted):
        found += _bounded(boxes.chosen(statistic.columns), statistic)
    return found


def _bounded(boxes: IntervalBoxes, statistic: Statistic) -> list[Bounded]:
    if statistic.kind == "regression":
        ranges, how = regression(boxes, 0, list(range(1, len(statistic.columns))))
        names = ["constant", *statistic.columns[1:]]
        return [
            Bounded(f"{statistic}: {name}", *ends, boxes.rows, how) for name, ends in zip(names, ranges, strict=True)
        ]
    one = {"mean": boxes.mean, "variance": boxes.variance, "sd": boxes.deviation}
    two = {"covariance": boxes.covariance, "correlation": boxes.correlation}
    ends = one[statistic.kind](0) if statistic.kind in one else two[statistic.kind](0, 1)
    return [Bounded(str(statistic), *ends, boxes.rows, _HOW[statistic.kind])]


def evidence(source: EvidenceSource) -> tuple[ReleasedBoxes | PlainValues, tuple[str, ...], TableMoments]:
    """The boxes of the release, their columns, and the moments of these in the original."""
    before, after = (next(iter(source.table_pieces(side))) for side in ("original", "release"))
    names = box_columns(after) or tuple(
        name for name in after.names if name in before.names and _is_number(after, name) and _is_number(before, name)
    )
    if not names:
        raise MissingEvidence("needs numeric columns, released as intervals NAME_low and NAME_high or as they are")
    plain = PlainValues.over(map(ReleasedBoxes.each, source.table_pieces("release")))
    boxes = ReleasedBoxes.over(source.table_pieces("release")) if plain is None else plain

    def pieces() -> Iterable[Host]:
        for table in source.table_pieces("original"):
            matrix = np.stack([floats(table.arrow(name)) for name in names], axis=1)
            yield matrix[~np.isnan(matrix).any(axis=1)]

    try:
        return boxes, names, TableMoments.over(pieces())
    except TypeError as error:  # nothing to reduce
        raise InputError("interval_statistics: every original record misses a value") from error


def interval_statistics(found: tuple[ReleasedBoxes | PlainValues, tuple[str, ...], TableMoments]) -> Measured:
    """Mean width of the ranges of covariances (variances of one column), in the original's standard deviations.

    By column: the width of the mean's range.  `outside` counts the original's means and covariances that are not in
    their ranges: none unless records were left out, or values are missing.  A release without intervals is taken at its
    word: ranges have no width, and hold for the original only if nothing was changed.
    """
    boxes, names, truth = found
    deviation = np.sqrt(np.where(truth.varies, truth.variance, np.nan))
    outside, by_column, by_pair = 0, {}, {}
    for j, name in enumerate(names):
        low, high = boxes.mean(name)
        by_column[name] = _ratio(high - low, deviation[j])
        slack = 1e-9 * max(abs(low), abs(high))
        outside += not low - slack <= truth.mean[j] <= high + slack
    pairs = [(i, j) for i in range(len(names)) for j in range(i)] or [(0, 0)]
    for i, j in pairs:
        low, high = boxes.covariance(names[j], names[i])
        by_pair[names[j], names[i]] = _ratio(high - low, deviation[i] * deviation[j])
        slack = 1e-9 * (truth.products[i, i] * truth.products[j, j]) ** 0.5 / truth.rows  # moments are rounded
        outside += not low - slack <= truth.products[i, j] / truth.rows <= high + slack
    known = [width for width in by_pair.values() if width is not None]
    if not known:
        raise InputError("interval_statistics: not defined, every column of the original is constant")
    note = None
    if boxes.exact:
        note = "no box has a width: released values are taken as exact"
    elif outside:
        note = "ranges hold for the released records that have values; statistics of all original records may differ"
    details = {"outside": outside, "records": boxes.rows, "boxes": boxes.boxes}
    parts = (ByPair(by_pair), By("column", by_column))
    return Measured(float(np.mean(known)), details, note, parts=parts)


def _ratio(width: float, unit: float) -> float | None:
    return None if np.isnan(unit) or unit == 0 else float(width / unit)


def _is_number(table: Table, name: str) -> bool:
    return family(value_type(table.arrow(name).type)) in ("number", "time")


def _is_end(name: str, names: Sequence[str]) -> bool:
    """Whether a column is one of the two ends of another."""
    return any(
        name.endswith(own) and name.removesuffix(own) + other in names
        for own, other in (("_low", "_high"), ("_high", "_low"))
    )


__all__ = ["DEFAULT", "Bounded", "Range", "ReleasedBoxes", "bounded", "box_columns", "evidence", "interval_statistics"]


def _interval_statistics(source: EvidenceSource) -> Measured:
    return interval_statistics(source.collect(evidence))


INTERVAL_STATISTICS = Measure(
    name="interval_statistics", label="how exactly statistics can be known from intervals",
    sentence="From released intervals a typical covariance is known up to a range this wide, in standard deviations.",
    summary="mean width of the guaranteed range of a covariance, in standard deviations",
    family="utility", range=FROM_0, usual="0 for a release without intervals",
    unit="pair of columns", function=interval_statistics, compute=_interval_statistics, arrays=None,
    weights=Weights("ignored", "its ranges hold for the statistics of the records in the boxes"),
    nulls="records without a value in the columns of a statistic are left out of it", scaling="merged",
    host="exact sums over ends of intervals, which only releases of intervals have",
    source="Xiang and Kreinovich 2013", long=0.4,
)  # fmt: skip


@dataclass(frozen=True, eq=False, repr=False)
class PairMoments:
    """Of each two columns, over the rows that have a value in both; those of several pieces are merged.

    rows     : (d, d) such rows
    mean     : (d, d) of the first column, over them
    products : (d, d) sums of products about these means
    """

    rows: Host
    mean: Host
    products: Host

    @classmethod
    def of(cls, values: Host) -> PairMoments:
        """Of `values` (n, d), NaN where null."""
        known = (~np.isnan(values)).astype(np.float64)
        count = np.maximum(known.sum(axis=0), 1)
        middle = np.where(known > 0, values, 0.0).sum(axis=0) / count
        apart = np.where(known > 0, values - middle, 0.0)  # about a near point, so that a large mean costs no digits
        rows, sums = known.T @ known, apart.T @ known
        mean = sums / np.maximum(rows, 1)
        return cls(rows, middle[:, None] + mean, apart.T @ apart - rows * mean * mean.T)

    def merge(self, other: PairMoments) -> PairMoments:
        """Of the rows of both (Chan, Golub and LeVeque 1983)."""
        rows, shift = self.rows + other.rows, other.mean - self.mean
        share = other.rows / np.maximum(rows, 1)
        return PairMoments(
            rows,
            np.where(self.rows > 0, self.mean + shift * share, other.mean),
            self.products + other.products + shift * shift.T * (self.rows * share),
        )


@dataclass(frozen=True, eq=False, repr=False)
class PlainValues:
    """What the ranges of no width take from a release; see `ReleasedBoxes`.

    names : columns
    rows  : number of records
    boxes : number of different ones
    sums  : of each column, exact
    pairs : of each two columns
    """

    names: tuple[str, ...]
    rows: int
    boxes: int
    sums: tuple[exact_sum.ExactMoments, ...]
    pairs: PairMoments
    exact = True

    @classmethod
    def over(cls, pieces: Iterable[Any]) -> PlainValues | None:
        """Of all pieces, each given with its records one by one; None if a box has a width.

        Memory : 24 bytes per different record, to count them, and half of that again while counts are merged.
        """
        growing, rows, sums, pairs = GrowingCounts(), 0, [], []
        for piece in pieces:
            low, high = piece.low, piece.high
            if not ((low == high) | (np.isnan(low) & np.isnan(high))).all():
                return None
            if not np.isfinite(low[~np.isnan(low)]).all():
                raise InputError("interval statistics need finite ends")
            names, rows = piece.names, rows + len(low)
            growing.add(ClassCounts.of(row_bits(_table(low), [str(at) for at in range(low.shape[1])])))
            sums.append([exact_sum.ExactMoments.of(column[~np.isnan(column)]) for column in low.T])
            pairs.append(PairMoments.of(low))
        exact = tuple(reduce(exact_sum.ExactMoments.merge, column) for column in zip(*sums, strict=True))
        boxes = len(growing.merged().sizes)
        return cls(names, rows, boxes, exact, reduce(PairMoments.merge, pairs))

    def mean(self, name: str) -> Range:
        """Range of the mean of a column."""
        found = self.sums[self.names.index(name)]
        if not found.count:
            raise InputError("interval statistics need at least one record")
        return rounded_outward(found.total, found.count)

    def covariance(self, first: str, second: str) -> Range:
        """Range of the covariance of two columns, or of one with itself: nothing is to be searched."""
        at = self.names.index(first), self.names.index(second)
        if not self.pairs.rows[at]:
            raise InputError("interval statistics need at least one record")
        value = float(self.pairs.products[at] / self.pairs.rows[at])
        return value, value


def _table(values: Host) -> Table:
    """Columns of numbers as a table, named by their places."""
    import pyarrow as pa

    return Table.of(pa.table({str(at): column for at, column in enumerate(values.T)}))
