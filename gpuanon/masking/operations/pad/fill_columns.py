"""Columns as the models of a fill see them: predictors as a matrix, and the response whose values are drawn.

References
----------
.. [1] D. Micci-Barreca (2001), A preprocessing scheme for high-cardinality categorical attributes, SIGKDD Explor. 3(1):
   a level is encoded by its mean response, shrunk to the overall mean by empirical Bayes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.normal_quantile import normal_quantile

_POOLED = 30  # levels of fewer rows are encoded together


def level_index(codes: Host, levels: int) -> Host:
    """(n,) int64 code of each level; `levels` for a null, `levels` + 1 for a level that is not known."""
    index = np.where(np.isnan(codes), levels, codes).astype(np.int64)
    return np.where((index < 0) | (index > levels), levels + 1, index)


def shrunk_means(index: Host, Y: Host, size: int, pooled: int = _POOLED) -> Host:
    """(size, o) mean of `Y` (n, o) for each level, shrunk to the overall mean 0.

    Levels of fewer than `pooled` rows, and those without any, share one mean.  A mean of n rows is multiplied by
    n / (n + κ), where κ = σ²/τ² is the ratio of the variance within levels to that between them, estimated by the
    method of moments: the less levels differ beyond chance, and the fewer rows a level has, the nearer it comes to the
    mean of all.
    """
    counts = np.bincount(index, minlength=size)
    small = counts < pooled
    merged = np.where(small, size, np.arange(size))[index]
    n = np.bincount(merged, minlength=size + 1).astype(np.float64)
    there = n > 0
    found = np.zeros((size + 1, Y.shape[1]))
    for at in range(Y.shape[1]):
        means = np.divide(np.bincount(merged, Y[:, at], size + 1), n, out=np.zeros(size + 1), where=there)
        groups, rows = int(there.sum()), len(Y)
        within = float(((Y[:, at] - means[merged]) ** 2).sum()) / max(rows - groups, 1)
        between = float((n * (means - Y[:, at].mean()) ** 2).sum()) - (groups - 1) * within
        scale = rows - float((n**2).sum()) / rows
        tau = max(between / scale, 0.0) if scale > 0 else 0.0
        if tau > 0:
            np.divide(means * n, n + within / tau, out=found[:, at], where=there)
    return found[np.where(small, size, np.arange(size))]


@dataclass(frozen=True, eq=False, repr=False)
class _Numbers:
    """A column of numbers: nulls filled by the median and marked by an indicator; logarithms of long tails, if linear.

    shift : added before the logarithm; None for none
    """

    fill: float
    null: bool
    center: float
    scale: float
    shift: float | None

    @classmethod
    def fit(cls, values: Host, linear: bool) -> _Numbers:
        known = values[~np.isnan(values)]
        if not len(known):
            return cls(0.0, False, 0.0, 1.0, None)
        fill, shift = float(np.median(known)), None
        if linear and known.min() >= 0 and known.max() > 10 * max(float(np.mean(known)), 1e-9):
            shift = 1.0 if known.max() > 1 else float(np.mean(known)) or 1.0
        scaled = known if shift is None else np.log(known + shift)
        spread = float(scaled.std())
        return cls(fill, len(known) < len(values), float(scaled.mean()), spread if spread > 0 else 1.0, shift)

    def encode(self, values: Host) -> list[Host]:
        null = np.isnan(values)
        filled = np.where(null, self.fill, values)
        if self.shift is not None:
            filled = np.log(np.maximum(filled, 0) + self.shift)
        columns = [(filled - self.center) / self.scale]
        return [*columns, null.astype(np.float64)] if self.null else columns


@dataclass(frozen=True, eq=False, repr=False)
class _Levels:
    """A column of levels: the shrunk mean response of each level, one column for each output of the response."""

    levels: int
    means: Host

    @classmethod
    def fit(cls, codes: Host, levels: int, Y: Host) -> _Levels:
        index = level_index(codes, levels)
        means = shrunk_means(index, Y, levels + 2)
        return cls(levels, means[:, means.any(axis=0)])

    def encode(self, codes: Host) -> list[Host]:
        return list(self.means[level_index(codes, self.levels)].T)


@dataclass(frozen=True, eq=False, repr=False)
class Predictors:
    """How known columns become a matrix, for one response."""

    columns: tuple[_Numbers | _Levels, ...]

    @classmethod
    def fit(cls, X: Host, levels: Sequence[int], Y: Host, linear: bool = False) -> Predictors:
        """Fit to known columns and outputs of a response.

        Parameters
        ----------
        X      : (n, c) numbers, or codes of levels; NaN is a null
        levels : for each column the number of its levels, 0 for numbers
        Y      : (n, o) outputs of the response, each with mean 0
        linear : whether the model is linear in its predictors, so that long tails want a logarithm
        """
        return cls(
            tuple(
                _Levels.fit(X[:, at], count, Y) if count else _Numbers.fit(X[:, at], linear)
                for at, count in enumerate(levels)
            )
        )

    def matrix(self, X: Host) -> Host:
        """(m, p) float32, finite."""
        columns = [column for at, coder in enumerate(self.columns) for column in coder.encode(X[:, at])]
        if not columns:
            return np.zeros((len(X), 1), dtype=np.float32)
        return np.column_stack([column.astype(np.float32) for column in columns])


_ATOM = 0.02  # share of the rows from which a single number counts as a point mass
_LEVELS = 8  # most frequent levels that have an output of their own
_SEVERAL = 5  # frequent numbers that show a lattice
_DECIMALS = 6
_RARE = 3  # a number that occurs so often at most is smoothed when it is drawn


@dataclass(frozen=True, eq=False, repr=False)
class Response:
    """A column of the rows that models are fitted to.

    values : (n,) numbers, or codes of levels from 0; NaN is a null
    levels : number of levels; 0 for numbers
    """

    values: Host
    levels: int = 0

    @cached_property
    def null(self) -> Host:
        """(n,) whether there is no value."""
        return np.isnan(self.values)

    @cached_property
    def distinct(self) -> tuple[Host, Host]:
        """The different values, ascending, and the rows of each; nulls left out."""
        found = np.unique(self.values[~self.null], return_counts=True)
        return found[0], found[1]

    @cached_property
    def atoms(self) -> Host:
        """Numbers that are point masses: each has a share of the rows of its own, most frequent first."""
        values, counts = self.distinct
        order = np.argsort(-counts, kind="stable")
        share = counts[order] / max(len(self.values), 1)
        # Of a column of few different values all would be; a value is a mass beside a spread of others.
        chosen = (share > _ATOM) & (share > 5 * np.median(counts) / max(len(self.values), 1) if len(counts) else False)
        return values[order][chosen][:4]

    def outputs(self) -> Host:
        """(n, o) what a model is to predict, each with mean 0 and deviation 1.

        Numbers: the value, its normal score (so that a long tail does not hide the rest), one indicator for each point
        mass and one for nulls.  Levels: an indicator for each of the most frequent and for nulls.
        """
        columns: list[Host] = []
        known = ~self.null
        if self.levels:
            values, counts = self.distinct
            frequent = values[np.argsort(-counts, kind="stable")[:_LEVELS]]
            columns += [(self.values == level).astype(np.float64) for level in frequent]
        elif known.any():
            columns += [self._filled(self.values), self._filled(self._scores())]
            columns += [(self.values == atom).astype(np.float64) for atom in self.atoms]
        if self.null.any():
            columns.append(self.null.astype(np.float64))
        if not columns:
            return np.zeros((len(self.values), 1))
        Y = np.column_stack(columns)
        spread = Y.std(axis=0)
        kept = spread > 1e-12 * np.maximum(np.abs(Y).max(axis=0), 1e-300) if len(Y) else spread > 0
        if not kept.any():
            return np.zeros((len(Y), 1))
        return np.asarray((Y[:, kept] - Y[:, kept].mean(axis=0)) / spread[kept])

    def _scores(self) -> Host:
        """(n,) normal score of the mid-rank of each value."""
        values, counts = self.distinct
        shares = (np.cumsum(counts) - counts / 2) / counts.sum()
        place = np.searchsorted(values, np.where(self.null, values[0], self.values))
        return np.asarray(normal_quantile(shares)[place])

    def _filled(self, values: Host) -> Host:
        """The mean in place of nulls."""
        return np.where(self.null, values[~self.null].mean(), values)

    def smoothed(self, drawn: Host, u: Host) -> Host:
        """(m,) drawn values, rare numbers moved at random as far as halfway to their neighbours.

        A copy of a number that one record alone has would tell which row was made: every made row would have a twin,
        and a record without one would be known to be real.  Point masses and lattices of frequent values stay.

        u : (m,) uniform random numbers
        """
        if self.levels or not len(self.distinct[0]):
            return drawn
        values, counts = self.distinct
        place = np.clip(np.searchsorted(values, drawn), 0, len(values) - 1)
        rare = (counts[place] <= _RARE) & (values[place] == drawn)
        middle = np.concatenate([values[:1], (values[1:] + values[:-1]) / 2, values[-1:]])
        low, high = middle[place], middle[place + 1]
        moved = low + u * (high - low)
        if self.lattice is not None:
            base, step = self.lattice
            moved = np.clip(base + np.rint((moved - base) / step) * step, values[0], values[-1])
        return np.where(rare, moved, drawn)

    @cached_property
    def lattice(self) -> tuple[float, float] | None:
        """Origin and step of the lattice that numbers lie on (multiples of 5, two decimals …); None for no lattice.

        Of frequent numbers if most rows have one, so that a few odd records do not hide it; else of all.
        """
        values, counts = self.distinct
        frequent = counts > _RARE
        if frequent.sum() >= _SEVERAL and counts[frequent].sum() >= counts.sum() / 2:
            values = values[frequent]
        for decimals in range(_DECIMALS + 1):
            scaled = values * 10.0**decimals
            whole = np.rint(scaled)
            # Short decimals that were stored in 32 bits are near to whole numbers, not equal.
            near = np.abs(scaled - whole) <= np.minimum(0.01, 2e-7 * np.abs(scaled) + 1e-9)
            if near.all() and len(whole) > 1 and np.abs(whole).max() < 2**53:
                step = int(np.gcd.reduce((whole - whole[0]).astype(np.int64)))
                return float(whole[0]) / 10.0**decimals, step / 10.0**decimals
        return None

    def nearest(self, drawn: Host, among: Host | None = None) -> Host:
        """(m,) the value that occurs and is nearest to each drawn number; NaN stays."""
        values = self.distinct[0] if among is None else among
        if not len(values):
            return np.full(len(drawn), np.nan)
        place = np.searchsorted((values[1:] + values[:-1]) / 2, drawn)
        return np.where(np.isnan(drawn), np.nan, values[place])
