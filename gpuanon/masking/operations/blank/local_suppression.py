"""Local suppression: which cells are blanked so that the values that are left are shared by k records.

A record counts for another if it has all values that the other is left with.  A blanked record does not count for one
that keeps its values: otherwise k − 1 records without any value would make a whole table anonymous.

References
----------
.. [1] A. G. de Waal, L. Willenborg (1998), Optimal local suppression in microdata, J. Off. Stat. 14.  The fewest cells
   are hard to find: an integer programme for small tables, a greedy search with a descent for others.
.. [2] A. Meyerson, R. Williams (2004), On the complexity of optimal k-anonymity, PODS '04.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import GuaranteeError
from gpuanon.masking.operations.blank.local_suppression_programme import Lines, all_sets, least_cost_lines
from gpuanon.numerics.compatible import covering_counts
from gpuanon.numerics.patterns import classes_at

_ALL_SUBSETS = 10  # columns of which every subset is tried
_WORK = 4_000_000  # patterns × sets × starts, about
_MOST_STARTS = 48
_PROGRAMME_COLUMNS = 7  # 3^c numbers for each pattern are a lot beyond
_VARIABLES = 2500  # of a programme that is solved for all patterns at once
_WINDOW = 800  # of one that is solved for some
_WINDOWS = 32  # of patterns that are solved again
_NODES = 100


def kept_cells(patterns: Host, counts: Host, k: int, weights: Sequence[float] | None = None) -> Lines:
    """Cells that are left, so that the values left of each record are shared by at least k records.

    Parameters
    ----------
    patterns : (p, c) int64 codes, distinct; −1 is a null
    counts   : (p,) records of each
    weights  : (c,) importance of the columns, above 0; 1 for each where None

    A small table is solved as an integer programme, in which records of one pattern may keep different cells.  Of a
    larger one, patterns are blanked at the heaviest set of columns that k records share: sets of columns are tried
    from the heaviest down, and a group of patterns that are equal there takes it as soon as it has k records, with
    those that keep more.  Then groups take back what they can.  Tables of medium size are tried in several orders of
    the sets, and some patterns at a time are solved again as a programme, beside the others.

    Guarantee : `covering_counts` of what is left is at least k.  A table of fewer than k records is refused.
    Cost      : 2^c passes over the patterns for c ≤ 10 columns; of more, sets that leave out at most two, and single
        columns.  Programmes are for at most 7 columns and a few thousand variables.
    """
    if int(counts.sum()) < k:
        raise GuaranteeError(f"the table has {int(counts.sum())} records, fewer than k = {k}", hint="a smaller k")
    scale = np.ones(patterns.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    certain = _certain(patterns, counts, k)
    free, beside = np.flatnonzero(~certain), Lines.whole(counts, patterns >= 0).take(np.flatnonzero(certain))
    if len(free) == 0:
        return beside
    solvable = patterns.shape[1] <= _PROGRAMME_COLUMNS
    if solvable and len(free) <= _VARIABLES:
        found = least_cost_lines(patterns, counts, free, beside, k, scale, _NODES, _VARIABLES)
        if found is not None:
            return beside.joined(found)
    search = _Blanking(patterns, counts, k, scale)
    work = max(1, len(patterns)) * len(_subsets(patterns.shape[1]))
    lines = Lines.whole(counts, search.best(max(1, min(_MOST_STARTS, _WORK // work))))
    return _improved(lines, patterns, counts, free, k, scale) if solvable else lines


def _certain(patterns: Host, counts: Host, k: int) -> Host:
    """(p,) patterns that keep everything in some best solution: k records have their values, of such patterns alone."""
    certain = counts >= k
    nulls = (patterns < 0).any(axis=1)
    while nulls.any():
        covered = covering_counts(patterns, np.where(certain, counts, 0)) >= k
        if not (covered & ~certain).any():
            break
        certain |= covered
    return certain


def _improved(lines: Lines, patterns: Host, counts: Host, free: Host, k: int, weights: Host) -> Lines:
    """Lines of less cost: windows of patterns that share values are solved again, beside all others.

    As many windows are tried as go over the free patterns twice, and 32 at most.
    """
    sets = 1 << patterns.shape[1]
    size = max(8, 2 * _WINDOW // sets)
    windows = min(_WINDOWS, -(-2 * len(free) // size))
    if len(free) > size * _WINDOWS:  # they would not reach most of the patterns
        return lines
    rng = np.random.default_rng(len(patterns))
    order, at = free, len(free)
    for _ in range(windows):
        if at >= len(order):  # neighbours in another order of the columns
            columns = rng.permutation(patterns.shape[1])
            order, at = free[np.lexsort(patterns[free][:, columns].T)], 0
        window = np.sort(order[at : at + size])
        at += size
        own = np.isin(lines.of, window)
        others, cost = lines.take(np.flatnonzero(~own)), lines.take(np.flatnonzero(own)).cost(patterns, weights)
        found = least_cost_lines(patterns, counts, window, others, k, weights, _NODES, 4 * _WINDOW)
        if found is not None and found.cost(patterns, weights) < cost:
            lines = others.joined(found)
    return lines


def randomly_kept(patterns: Host, counts: Host, k: int, order: Host) -> Host:
    """(p, c) bool: cells that are left when each pattern loses cells in a random order until k records share the rest.

    order : (p, c) random numbers: a pattern loses the cell of its smallest number first

    Other patterns may have counted on a cell that is blanked, so all are counted again, until all have enough.

    Cost : that of `covering_counts` in every round, of which there are about c.
    """
    if int(counts.sum()) < k:
        raise GuaranteeError(f"the table has {int(counts.sum())} records, fewer than k = {k}", hint="a smaller k")
    keep = patterns >= 0
    while True:
        few = np.flatnonzero(_left_counts(np.where(keep, patterns, -1), counts) < k)
        if len(few) == 0:
            return keep
        keep[few, np.where(keep[few], order[few], np.inf).argmin(axis=1)] = False


class _Blanking:
    """One table of patterns."""

    def __init__(self, patterns: Host, counts: Host, k: int, weights: Host) -> None:
        self.patterns, self.counts, self.k, self.weights = patterns, counts, k, weights
        self.there = patterns >= 0
        self.widths = [int(top) + 2 for top in patterns.max(axis=0)]
        self.columns = [np.ascontiguousarray(patterns[:, j] + 1) for j in range(patterns.shape[1])]
        self.enough = covering_counts(patterns, counts) >= k

    def best(self, starts: int) -> Host:
        """The cheapest of several runs; the first one takes the sets by weight alone."""
        rng = np.random.default_rng(len(self.patterns))
        sets = _subsets(self.patterns.shape[1])
        heavy = sets @ self.weights
        found, cost = None, np.inf
        for start in range(starts):
            noise = rng.random(len(sets)) * (0 if start == 0 else self.weights.max() * rng.choice([0.01, 0.5, 1.5]))
            order = np.argsort(-(heavy + noise), kind="stable")
            order = np.concatenate([order[sets[order].any(axis=1)], np.flatnonzero(~sets.any(axis=1))])
            keep = self._run(sets[order])
            spent = float(((self.there & ~keep) @ self.weights) @ self.counts)
            if spent < cost:
                found, cost = keep, spent
        assert found is not None
        return found

    def _run(self, sets: Host) -> Host:
        """Blank every pattern that has not enough, and mend what that broke, until all have enough."""
        keep = self.there.copy()
        settled = self.enough.copy()
        while True:
            keep[~settled] = False
            self._settle(keep, settled, sets)
            self._lift(keep, sets)
            left = np.where(keep, self.patterns, -1)
            settled = _left_counts(left, self.counts) >= self.k
            if settled.all():
                return keep

    def _settle(self, keep: Host, settled: Host, sets: Host) -> None:
        """Give every pattern that is not settled the first set of columns that k records share; changes both."""
        open_ = ~settled
        for columns in sets:
            if not open_.any():
                return
            able = open_ & (self.there >= columns).all(axis=1)
            chosen = self._shared(able, ~open_ & (keep >= columns).all(axis=1), columns)
            keep[chosen] = columns
            open_[chosen] = False

    def _lift(self, keep: Host, sets: Host) -> None:
        """Take back cells: groups that k records share with more columns keep those; nobody loses by it."""
        blanked = (keep != self.there).any(axis=1)
        for columns in sets:
            fewer = (keep <= columns).all(axis=1) & (keep != columns).any(axis=1)
            able = blanked & fewer & (self.there >= columns).all(axis=1)
            if able.any():
                keep[self._shared(able, (keep >= columns).all(axis=1), columns)] = columns

    def _shared(self, able: Host, others: Host, columns: Host) -> Host:
        """Those of the patterns `able` whose values on `columns` are those of k records, of `able` and `others`."""
        rows = np.flatnonzero(able)
        if len(rows) == 0:
            return rows
        at = np.flatnonzero(columns)
        both = np.concatenate([rows, np.flatnonzero(others)])
        if len(at) == 0:
            return rows if self.counts[both].sum() >= self.k else rows[:0]
        labels, numbers = classes_at([self.columns[j][both] for j in at], [self.widths[j] for j in at])
        sizes = np.bincount(labels, weights=self.counts[both], minlength=numbers)
        return rows[sizes[labels[: len(rows)]] >= self.k]


def _left_counts(left: Host, counts: Host) -> Host:
    """(p,) records that have all values of each line of `left` (p, c), in which lines may be equal."""
    columns = [left[:, j] + 1 for j in range(left.shape[1])]
    labels, _ = classes_at(columns, [int(column.max()) + 1 for column in columns])
    _, first, place = np.unique(labels, return_index=True, return_inverse=True)
    sums = np.bincount(place.reshape(-1), weights=counts).astype(np.int64)
    return np.asarray(covering_counts(left[first], sums)[place.reshape(-1)])


def _subsets(c: int) -> Host:
    """(sets, c) bool: sets of columns that may be left, the empty one too."""
    if c <= _ALL_SUBSETS:
        return all_sets(c)
    sizes = [0, 1, c - 2, c - 1, c]
    chosen = [columns for size in sizes for columns in itertools.combinations(range(c), size)]
    out = np.zeros((len(chosen), c), dtype=bool)
    for row, columns in enumerate(chosen):
        out[row, list(columns)] = True
    return out
