"""A release without intervals, as boxes of no width: its moments merge over pieces, and no value is held."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.intervals.interval_statistics import Range, rounded_outward
from gpuanon.errors import InputError
from gpuanon.numerics import exact_sum
from gpuanon.tables.class_counts import ClassCounts, GrowingCounts
from gpuanon.tables.row_bits import row_bits
from gpuanon.tables.table import Table

if TYPE_CHECKING:
    from gpuanon.assessing.intervals.ranges_of_statistics import ReleasedBoxes


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
    def over(cls, pieces: Iterable[ReleasedBoxes]) -> PlainValues | None:
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
