"""A column that is to be drawn: what models of it are fitted to, and how drawn values are smoothed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.normal_quantile import normal_quantile

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
