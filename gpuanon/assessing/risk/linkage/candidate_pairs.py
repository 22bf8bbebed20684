"""Pairs of an original and a released record for probabilistic linkage: candidates, blocks, random pairs.

Pairs agree column by column: by levels, for the EM algorithm, and by the weights of the fitted models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.threads import thread_count
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.sampling import uniform_numbers

_TREE_COLUMNS = 5
_BLOCK = 1e6  # weight of a column of blocking in the search of candidates


@dataclass(frozen=True, eq=False)
class Side:
    """One table as the attack sees it.

    points : (n, f) encoded and standardised, for the search of candidates
    values : (n, d) numbers, NaN for null; codes of categories.  None: they are read when it is known of which rows
    """

    points: Array
    values: Host | None


@dataclass(frozen=True, eq=False)
class Pairs:
    """Original rows, and released rows that may be theirs.

    rows     : (r,) original rows
    index    : (r, c) released rows
    distance : (r, c) squared distances of their points
    inside   : (r, c) whether a pair is in one block, and counted once
    choices  : (r,) number of released rows in the block of each original, whether looked at or not
    """

    rows: Host
    index: Host
    distance: Host
    inside: Host
    choices: Host

    def of(self, which: Any) -> Pairs:
        """The pairs of some of the originals."""
        return Pairs(*(side[which] for side in (self.rows, self.index, self.distance, self.inside, self.choices)))

    def at(self, places: Host, once: Host) -> Pairs:
        """The pairs at these places of each original, (r, p); `once`: which of them count."""
        index, distance, inside = (
            np.take_along_axis(side, places, axis=1) for side in (self.index, self.distance, self.inside)
        )
        return Pairs(self.rows, index, distance, inside & once, self.choices)


class BlockedRecords:
    """Which released rows are in the block of each original: those equal to it on the columns of blocking."""

    def __init__(self, original: Side, release: Side, block: Sequence[bool] | None, weights: Sequence[float] | None):
        self.original, self.release = original, release
        columns = np.flatnonzero(block) if block is not None else np.zeros(0, dtype=np.int64)
        n, m = len(original.points), len(release.points)
        if len(columns):
            sides = [side.values for side in (original, release) if side.values is not None]
            both = np.concatenate([values[:, columns] for values in sides])
            both = np.where(np.isnan(both), np.inf, both)  # two nulls are equal
            label = np.unique(both, axis=0, return_inverse=True)[1].reshape(-1)
            self.order: Host | None = np.argsort(label[n:], kind="stable")
            self.counts = np.bincount(label[n:], minlength=int(label.max()) + 1)
        else:
            label = np.broadcast_to(np.int64(0), n + m)  # one block, in the order of the release; nothing is stored
            self.order, self.counts = None, np.array([m])
        self.before, self.after = label[:n], label[n:]
        self.starts = np.cumsum(self.counts) - self.counts
        self.scale = np.sqrt(np.ones(original.points.shape[1]) if weights is None else np.asarray(weights))

    @cached_property
    def points(self) -> tuple[Host, Host]:
        """The points of both tables, on the host."""
        return to_host(self.original.points), to_host(self.release.points)

    @cached_property
    def _points(self) -> tuple[Host, Host]:
        """The weighted points of both tables, on the host."""
        return self.points if (self.scale == 1).all() else (self.points[0] * self.scale, self.points[1] * self.scale)

    def nearest(self, rows: Host, count: int) -> Pairs:
        """The `count` released rows nearest to each original; those of another block are not inside."""
        A, B = self._points
        if count == len(B) or A.shape[1] > _TREE_COLUMNS:
            distance, index = k_nearest(A[rows], B, count)
        else:
            from scipy.spatial import cKDTree

            tree = cKDTree(B, balanced_tree=False, compact_nodes=False)
            distance, index = tree.query(A[rows], k=np.arange(1, count + 1), workers=thread_count())
            distance = distance**2
        inside = self.before[rows][:, None] == self.after[index]
        return Pairs(rows, index, distance, inside, self.counts[self.before[rows]])

    def random(self, among: Pairs, count: int, link: Host) -> tuple[Pairs, Host]:
        """Pairs of a random original and a random released row of its block, not its own; and which are no candidates.

        The own ones, one in as many as a block has rows, are told by the link and left out: they would be most of the
        pairs that agree closely, which an attacker who knows the population does not take for chance.
        """
        u = uniform_numbers(2 * count, "random pairs of linkage").reshape(2, count)
        some = np.flatnonzero(among.choices > 0)
        at = some[(u[0] * len(some)).astype(np.int64)]
        rows = among.rows[at]
        label = self.before[rows]
        index = self.starts[label] + (u[1] * self.counts[label]).astype(np.int64)
        index = index if self.order is None else self.order[index]
        other = link[index] != rows
        rows, index, label, at = (side[other] if other.any() else side for side in (rows, index, label, at))
        A, B = self._points
        distance = ((A[rows] - B[index]) ** 2).sum(axis=1)
        inside = np.ones((len(rows), 1), dtype=bool)
        beyond = distance > among.distance.max(axis=1)[at]
        return Pairs(rows, index[:, None], distance[:, None], inside, self.counts[label]), beyond


def blocking_weights(features: Sequence[str], block: Sequence[str]) -> list[float] | None:
    """Weights of features with which candidates of the same block come first; None without columns of blocking."""
    return [_BLOCK if name in block else 1.0 for name in features] if block else None


def posterior(weight: Host, pairs: Pairs, share: float) -> tuple[Host, Host]:
    """(r, c) probability that a pair belongs together, and (r,) log((1 − s) + s/N Σ m/u)."""
    top = np.maximum(np.where(pairs.inside, weight, -np.inf).max(axis=1), 0.0)
    odds = np.where(pairs.inside, np.exp(weight - top[:, None]), 0.0) * (share / np.maximum(pairs.choices, 1))[:, None]
    mass = odds.sum(axis=1) + (1 - share) * np.exp(-top)
    return odds / mass[:, None], np.log(mass) + top


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
