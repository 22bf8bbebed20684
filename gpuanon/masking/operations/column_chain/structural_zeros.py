"""Pairs of values that cannot stand in one row, as far as the records make that sure.

Of each pair of columns, what never occurs together although chance would have put it together often:
a value with a value; any other value with a value (one determines the other); a value with the smallest, or the
largest, values of an ordered column.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.threads import each

Exclusion: TypeAlias = tuple[int, int, Host]
"""Columns i and j, and which codes exclude each other: (codes of i + 1, codes of j + 1) bool, null first."""

SURE = 12.0
"""Records that independent columns would be expected to have there, at least: none is there with a chance of e⁻¹²."""
_LEVELS = 400
"""Values of the smaller column of a pair, at most; of two columns with more, nothing is said."""
_CELLS = 1 << 20
"""Cells of the table of a pair, at most."""


@dataclass(frozen=True, eq=False, repr=False)
class StructuralZeros:
    """Codes of two columns that exclude each other, for pairs of columns."""

    tables: tuple[Exclusion, ...]

    def with_rules(self, rules: Sequence[Exclusion]) -> StructuralZeros:
        """These and others."""
        return StructuralZeros((*self.tables, *rules))

    @classmethod
    def of(cls, codes: Host, ordered: Sequence[bool]) -> StructuralZeros:
        """Those of records with these codes (n, c), −1 for a null.

        Cost : one pass over the records for each pair of columns.
        """
        counts = [int(codes[:, j].max(initial=-1)) + 2 for j in range(codes.shape[1])]
        pairs = [
            (i, j)
            for i, j in combinations(range(codes.shape[1]), 2)
            if min(counts[i], counts[j]) <= _LEVELS and counts[i] * counts[j] <= _CELLS
        ]

        def find(pair: tuple[int, int]) -> Exclusion:
            i, j = pair
            cells = np.bincount((codes[:, i] + 1) * counts[j] + codes[:, j] + 1, minlength=counts[i] * counts[j])
            return i, j, zeros_of_pair(cells.reshape(counts[i], counts[j]), ordered[i], ordered[j])

        return cls(tuple(found for found in each(find, pairs) if found[2].any()))

    def contradicts(self, codes: Host, column: int, others: Collection[int]) -> Host:
        """(m,) whether the code of a column in the rows (m, c) excludes that of one of the others."""
        found = np.zeros(len(codes), dtype=bool)
        for i, j, table in self.tables:
            if (i == column and j in others) or (j == column and i in others):
                found |= table[codes[:, i] + 1, codes[:, j] + 1]
        return found


def zeros_of_pair(counts: Host, rows_ordered: bool, columns_ordered: bool) -> Host:
    """(a, b) whether two values exclude each other, by the counts (a, b) of the records; the first of each is null."""
    n = max(1, int(counts.sum()))
    out = _single(counts, n) | _single_others(counts, n) | _single_others(counts.T, n).T
    if columns_ordered:
        out |= _beyond(counts, n)
    if rows_ordered:
        out |= _beyond(counts.T, n).T
    return np.asarray(out & (counts == 0))


def _single(counts: Host, n: int) -> Host:
    """A value and a value."""
    return np.asarray((counts == 0) & (np.outer(counts.sum(axis=1), counts.sum(axis=0)) >= SURE * n))


def _single_others(counts: Host, n: int) -> Host:
    """A value of the rows (or all others of them), and every value of the columns but one."""
    held, by = counts.sum(axis=1), counts.sum(axis=0)
    apart = np.zeros(counts.shape, dtype=bool)
    # Row a has column b only: then it excludes all others.
    sure = (counts == held[:, None]) & (held > 0)[:, None] & (held[:, None] * (n - by) >= SURE * n)
    alone = sure.any(axis=1)
    apart[alone] = ~sure[alone]
    # All rows but a have column b only.
    rest = (by - counts == (n - held)[:, None]) & ((n - held)[:, None] * (n - by) >= SURE * n)
    for a in np.flatnonzero(rest.any(axis=1)):  # one at most, or two: all but it share a single value
        others = np.arange(len(counts)) != a
        apart[np.ix_(others, ~rest[a])] = True
    return apart


def _beyond(counts: Host, n: int) -> Host:
    """A value of the rows, or all others of them, and the first or last values of the columns; null is apart."""
    known = counts[:, 1:]
    out = np.zeros(counts.shape, dtype=bool)
    for table in (known, known.sum(axis=0) - known):
        held = table.sum(axis=1)
        for flip in (slice(None), slice(None, None, -1)):
            seen = np.cumsum(table[:, flip], axis=1)
            chance = np.cumsum(known.sum(axis=0)[flip]) / n
            # The values before the first that occurs: excluded if as many records as would be there by chance are sure.
            empty = seen == 0
            reach = np.where(empty, chance, 0.0).max(axis=1, initial=0.0)
            found = (empty & (reach * held >= SURE)[:, None])[:, flip]
            if table is known:
                out[:, 1:] |= found
            else:
                for a in np.flatnonzero(found.any(axis=1)):
                    others = np.arange(len(counts)) != a
                    out[np.ix_(others, np.r_[False, found[a]])] = True
    return out
