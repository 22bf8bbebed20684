"""Local suppression as an integer programme: the least cost of blanked cells for some patterns, beside fixed lines.

A *line* is a set of records with one pattern that keep the same cells.  x[p, S] records of pattern p keep the columns
S; y[S, v] says whether any record is left with exactly the values v on S:

    minimise    Σ x[p, S] · weight of the cells that are blanked
    subject to  Σ_S x[p, S] = records of p
                x[p, S] ≤ records of p · y[S, values of p on S]
                Σ x[q, U] over U ⊇ S, q = v on S, and the fixed lines that keep v  ≥  k · y[S, v]

References
----------
.. [1] A. G. de Waal, L. Willenborg (1998), Optimal local suppression in microdata, J. Off. Stat. 14.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.numerics.patterns import classes_at

_GAP = 1e-3  # share of the cost by which a programme may stop above the minimum


@dataclass(frozen=True, eq=False, repr=False)
class Lines:
    """Records with equal patterns that keep the same cells.

    of     : (l,) the pattern of each line, ascending; several lines of a pattern share its records
    counts : (l,) records
    keep   : (l, c) bool
    """

    of: Host
    counts: Host
    keep: Host

    @classmethod
    def whole(cls, counts: Host, keep: Host) -> Lines:
        """One line for each pattern."""
        return cls(np.arange(len(counts)), counts, keep)

    def take(self, chosen: Host) -> Lines:
        """Some of the lines."""
        return Lines(self.of[chosen], self.counts[chosen], self.keep[chosen])

    def joined(self, other: Lines) -> Lines:
        """The lines of both, by pattern."""
        of = np.concatenate([self.of, other.of])
        order = np.argsort(of, kind="stable")
        counts, keep = np.concatenate([self.counts, other.counts]), np.concatenate([self.keep, other.keep])
        return Lines(of[order], counts[order], keep[order])

    def cost(self, patterns: Host, weights: Host) -> float:
        """Weight of the cells that are blanked."""
        return float((((patterns[self.of] >= 0) & ~self.keep) @ weights) @ self.counts)


def all_sets(c: int) -> Host:
    """(2^c, c) bool: all sets of columns; the empty one is the last."""
    return np.array(list(itertools.product([True, False], repeat=c)), dtype=bool).reshape(-1, c)


def least_cost_lines(
    patterns: Host, counts: Host, free: Host, beside: Lines, k: int, weights: Host, nodes: int, most: int
) -> Lines | None:
    """Lines of the patterns `free` (f,) of least cost, where the lines `beside` stay and must have k records as well.

    Parameters
    ----------
    patterns : (p, c) int64 codes, distinct; −1 is a null
    counts   : (p,) records of each
    nodes    : of the branch and bound, at most: what is found until then is returned, so that the result does not
               depend on the speed of a machine
    most     : variables of the programme; None is returned for a larger one, and where no solution was found

    Cost : 2^c passes over the patterns, 3^c numbers for each free one, and the programme.
    """
    found = _Candidates.of(patterns, counts, free, beside, k)
    return None if len(found.rows) > most else found.solve(counts[free], k, weights, nodes)


@dataclass(frozen=True, eq=False, repr=False)
class _Candidates:
    """What each free pattern may keep.

    rows, at : (v,) free pattern and set of each variable
    classes  : (f, sets) number of the class, −1 where the pattern cannot keep the set
    fixed    : (classes,) records beside that have the values of the class
    required : (classes,) whether a line beside is left with just these values
    """

    free: Host
    there: Host
    sets: Host
    rows: Host
    at: Host
    classes: Host
    fixed: Host
    required: Host

    @classmethod
    def of(cls, patterns: Host, counts: Host, free: Host, beside: Lines, k: int) -> _Candidates:
        """Classes that k records could have; sets that are part of a set that k records beside have are left out."""
        c = patterns.shape[1]
        sets, own = all_sets(c), patterns[free]
        left = np.where(beside.keep, patterns[beside.of], -1)
        classes = np.full((len(free), len(sets)), -1, dtype=np.int64)
        fixed: list[Host] = []
        required: list[Host] = []
        numbered = 0
        both = np.concatenate([own, left]) + 1
        widths = [int(both[:, j].max(initial=0)) + 1 for j in range(c)]
        amounts = np.concatenate([counts[free], beside.counts])
        for number, chosen in enumerate(sets):
            able = np.flatnonzero((both[:, chosen] > 0).all(axis=1))
            columns = [both[able, j] for j in np.flatnonzero(chosen)]
            labels, size = (
                classes_at(columns, [widths[j] for j in np.flatnonzero(chosen)]) if columns else (able * 0, 1)
            )
            ours = able < len(free)
            possible = np.bincount(labels, amounts[able], size) >= k
            around = np.bincount(labels[~ours], amounts[able[~ours]], size)
            asked = np.zeros(size, dtype=bool)
            asked[labels[~ours][(left[able[~ours] - len(free)] < 0)[:, ~chosen].all(axis=1)]] = True
            used = np.zeros(size, dtype=bool)
            used[labels[ours]] = True
            used &= possible
            numbers = np.full(size, -1)
            numbers[used] = numbered + np.arange(int(used.sum()))
            numbered += int(used.sum())
            classes[able[ours], number] = numbers[labels[ours]]
            fixed.append(around[used])
            required.append((asked & (around < k))[used])
        whole, needed = np.concatenate(fixed), np.concatenate(required)
        inside = (sets[:, None] >= sets[None]).all(axis=2) & ~np.eye(len(sets), dtype=bool)
        safe = (classes >= 0) & (whole[classes] >= k)
        dominated = (safe.astype(np.float64) @ inside) > 0
        rows, at = np.nonzero((classes >= 0) & ~dominated)
        return cls(free, own >= 0, sets, rows, at, classes, whole, needed)

    def solve(self, counts: Host, k: int, weights: Host, nodes: int) -> Lines | None:
        """The lines of least cost."""
        from scipy.optimize import Bounds, LinearConstraint, milp

        v, cost = len(self.rows), ((self.there[self.rows] & ~self.sets[self.at]) @ weights)
        matrix, low, high, open_ = self._constraints(counts, k)
        size = v + len(open_)
        lower = np.concatenate([np.zeros(v), self.required[open_]])
        upper = np.concatenate([counts[self.rows], np.ones(len(open_))])
        found = milp(
            np.concatenate([cost, np.zeros(len(open_))]),
            constraints=LinearConstraint(matrix, low, high),
            integrality=np.ones(size),
            bounds=Bounds(lower, upper),
            options={"node_limit": nodes, "mip_rel_gap": _GAP},
        )
        if found.x is None:
            return None
        amounts = np.rint(found.x[:v]).astype(np.int64)
        chosen = np.flatnonzero(amounts)
        return Lines(self.free[self.rows[chosen]], amounts[chosen], self.sets[self.at[chosen]])

    def _constraints(self, counts: Host, k: int) -> tuple[Any, Host, Host, Host]:
        """Matrix, lower and upper bounds; and the classes that have a y, whose columns follow those of x."""
        from scipy.sparse import csr_matrix

        v, f = len(self.rows), len(self.free)
        open_ = np.flatnonzero(self.fixed < k)
        y = np.full(len(self.fixed) + 1, -1)  # the last for −1
        y[open_] = np.arange(len(open_))
        variable = np.full((f, len(self.sets)), -1)
        variable[self.rows, self.at] = np.arange(v)
        own = y[self.classes[self.rows, self.at]]
        bound = np.flatnonzero(own >= 0)
        # For every pair of sets S ⊆ U: who keeps U counts for the class on S.
        part, whole = np.nonzero((self.sets[:, None] <= self.sets[None]).all(axis=2))
        used, asked = variable[:, whole], y[self.classes[:, part]]
        there = (used >= 0) & (asked >= 0)
        count = len(open_)
        need = (k - self.fixed[open_]).astype(np.float64)
        ones, at = np.ones(v), np.arange(len(bound))
        rows = [self.rows, f + at, f + at, f + len(bound) + asked[there], f + len(bound) + np.arange(count)]
        columns = [np.arange(v), bound, v + own[bound], used[there], v + np.arange(count)]
        records = counts[self.rows[bound]].astype(np.float64)
        data = [ones, np.ones(len(bound)), -records, np.ones(int(there.sum())), -need]
        matrix = csr_matrix(
            (np.concatenate(data), (np.concatenate(rows), np.concatenate(columns))),
            shape=(f + len(bound) + count, v + count),
        )
        low = np.concatenate([counts, np.full(len(bound), -np.inf), np.zeros(count)])
        high = np.concatenate([counts, np.zeros(len(bound)), np.full(count, np.inf)])
        return matrix, low, high, open_
