"""How far pairs of an original and a released record agree, column by column: levels for EM, and weights of pairs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Host

TOLERANCES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.45, 0.65, 0.9, 1.2, 1.6, 2.1, 3.0)
"""Levels of agreement of numbers: the difference is at most this, in standard deviations of the original."""

EQUAL = 1e-9
"""Numbers this close, in standard deviations, are equal."""


class Agreement:
    """Levels of agreement of pairs of rows."""

    def __init__(
        self, before: Host, after: Host, categorical: Host, tolerances: Sequence[float], held: Host | None = None
    ) -> None:
        """`held`: ascending, the released rows that `after` has; None: all of them."""
        self.before, self.after, self.categorical = before, after, categorical
        self.place_of: Host | None = None  # of the held rows in `after`, by row: a search for each pair takes longer
        if held is not None:
            self.place_of = np.zeros(int(held.max(initial=-1)) + 1, dtype=np.int32 if len(held) < 1 << 31 else np.int64)
            self.place_of[held] = np.arange(len(held))
        self.tolerances = np.maximum(np.asarray(tolerances, dtype=np.float64), EQUAL)
        self.columns = [np.ascontiguousarray(column) for column in after.T]
        self.sizes = [2 if flag else len(tolerances) + 1 for flag in categorical]
        there = ~np.isnan(before)
        count = np.maximum(there.sum(axis=0), 1)
        mean = np.where(there, before, 0).sum(axis=0) / count
        spread = np.sqrt((np.where(there, before - mean, 0) ** 2).sum(axis=0) / count)
        self.scale = np.where(spread > 0, spread, 1.0)
        self.nulls: Host = np.asarray(np.isnan(before).any(axis=0) | np.isnan(after).any(axis=0))
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])
        # Middles of the levels; equality is a level by itself, and beyond the last tolerance nothing is between.
        middles = (self.tolerances[1:] + self.tolerances[:-1]) / 2
        first = EQUAL if self.tolerances[0] == EQUAL else self.tolerances[0] / 2
        self.middles = np.concatenate([[first], middles, [self.tolerances[-1]]])

    def levels(self, rows: Host, index: Host) -> Host:
        """(rows, c, d) level of each pair of an original row and a candidate."""
        out, index = np.empty((*index.shape, len(self.sizes)), dtype=np.int8), self._places(index)
        for j, size in enumerate(self.sizes):
            apart = self._apart(rows, index, j)
            found = (apart > 0) if self.categorical[j] else np.searchsorted(self.tolerances, apart, side="left")
            out[:, :, j] = np.minimum(found, size - 1)
        return out

    def scores(self, rows: Host, index: Host, weights: Host) -> Host:
        """(rows, c) weight of each pair: of its levels, for numbers interpolated between the levels' middles."""
        out, index = np.zeros(index.shape), self._places(index)
        for j, size in enumerate(self.sizes):
            apart = self._apart(rows, index, j)
            weight = weights[self.starts[j] : self.starts[j] + size]
            if self.categorical[j]:
                out += np.where(apart > 0, weight[1], weight[0])
                continue
            between = np.interp(apart, self.middles[1:], weight[1:]) if self.middles[0] == EQUAL else None
            found = np.interp(apart, self.middles, weight) if between is None else between
            out += np.where(apart <= EQUAL, weight[0], np.where(apart > self.tolerances[-1], weight[-1], found))
        return np.round(out, 9)  # sums in another order tie

    def _places(self, index: Host) -> Host:
        """Where the released rows `index` stand in `after`."""
        return index if self.place_of is None else self.place_of[index]

    def _apart(self, rows: Host, index: Host, j: int) -> Host:
        """(rows, c) difference of each pair in standard deviations; a null and a value: infinite."""
        x, y = self.before[rows, j][:, None], self.columns[j][index]
        if not self.nulls[j]:
            apart = x - y
            np.abs(apart, out=apart)
            apart /= self.scale[j]
            return np.asarray(apart)
        neither, either = np.isnan(x) & np.isnan(y), np.isnan(x) | np.isnan(y)
        return np.where(neither, 0.0, np.where(either, np.inf, np.abs(x - y) / self.scale[j]))
