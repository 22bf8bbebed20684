"""The links of a decomposable graphical model, found from mutual information.

Each column has a few parents before it, which are linked to each other: they lie in a clique that exists already.  The
graph is then chordal.

References
----------
.. [1] C. Chow, C. Liu (1968), Approximating discrete probability distributions with dependence trees, IEEE Trans.
   Inf. Theory 14(3).
.. [2] F. M. Malvestuto (1991), Approximating discrete probability distributions with decomposable models, IEEE Trans.
   Syst. Man Cybern. 21(5).
.. [3] H. Akaike (1974), A new look at the statistical model identification, IEEE Trans. Autom. Control 19(6).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host

Chain: TypeAlias = list[tuple[int, tuple[int, ...]]]
"""Columns in the order in which they are drawn, each with its parents, which come before it."""

PARENTS = 3
"""Of a column, at most, a group column among them; named margins may ask for more."""
CELL = 5
"""Records of a cell of a clique's table, on average and at least."""


class Entropies:
    """Entropies of sets of columns, each counted once.

    codes  : (n, c) from 0
    counts : (c,) values of each column
    """

    def __init__(self, codes: Host, counts: Sequence[int]) -> None:
        self.codes, self.counts = codes, counts
        self._found: dict[frozenset[int], tuple[float, int]] = {}

    def of(self, columns: frozenset[int]) -> tuple[float, int]:
        """Entropy in nats of the records' shares, and the number of cells that have records."""
        if columns not in self._found:
            held = _cell_counts(self.codes, sorted(columns), self.counts)
            share = held / len(self.codes)
            self._found[columns] = (float(-(share * np.log(share)).sum()), len(held))
        return self._found[columns]

    def information(self, column: int, parents: frozenset[int]) -> float:
        """Mutual information of a column and its parents, less a record's share for each free cell [3].

        −∞ where the cells of both together have fewer than `CELL` records on average.
        """
        (own, a), (given, b), (both, cells) = (
            self.of(columns) for columns in (frozenset((column,)), parents, parents | {column})
        )
        if len(parents) > 1 and cells * CELL > len(self.codes):
            return -np.inf
        return own + given - both - (cells - a - b + 1) / max(1, len(self.codes))

    def ranked(self, column: int, parents: frozenset[int], common: frozenset[int]) -> tuple[int, ...]:
        """The parents, the common one first, then each the one that says most beside those before it."""
        out = list(common)
        while len(out) < len(parents):
            out.append(max(sorted(parents - set(out)), key=lambda j: self._certainty(column, frozenset((*out, j)))))
        return tuple(out)

    def _certainty(self, column: int, parents: frozenset[int]) -> float:
        """Less the entropy of a column given its parents."""
        return self.of(parents)[0] - self.of(parents | {column})[0]


def _cell_counts(codes: Host, columns: Sequence[int], counts: Sequence[int]) -> Host:
    """Records of each cell that has any."""
    place, cells = cell_numbers(codes.T, columns, counts)
    if cells <= 4 * len(codes) + 1024:
        held = np.bincount(place, minlength=1)
        return np.asarray(held[held > 0])
    return np.asarray(np.unique(place, return_counts=True)[1])


def cell_numbers(columns: Sequence[Host] | Host, chosen: Sequence[int], counts: Sequence[int]) -> tuple[Host, int]:
    """(n,) a number for the values of the chosen columns together, and how many there may be."""
    place, cells = np.zeros(len(columns[0]), dtype=np.int64), 1
    for at in chosen:
        place = place * counts[at] + columns[at]
        cells *= counts[at]
    return place, cells


def find_chain(
    codes: Host,
    counts: Sequence[int],
    margins: Sequence[frozenset[int]] = (),
    group: int | None = None,
) -> Chain:
    """A chain of all columns, such that each margin lies in a clique, and `group` in all of them.

    The columns of the margins come first, in a perfect order of their graph, which is made chordal.  Then the column
    that a pair of linked columns, or one column, says most about is added until none is left: a tree [1] with the most
    useful triples [2].  Ties go to the lowest column.

    codes : (n, c) from 0 to below `counts`

    Cost : O(n) for each of about 2 c² sets of columns.
    """
    found = Entropies(codes, counts)
    common = frozenset() if group is None else frozenset((group,))
    chain: Chain = [] if group is None else [(group, ())]
    cliques: list[frozenset[int]] = [common] if common else []
    for column, parents in perfect_order([margin | common for margin in margins]):
        if column != group:
            wanted = frozenset(parents) | common
            chain.append((column, found.ranked(column, wanted, common)))
            cliques.append(wanted | {column})
    remaining = [j for j in range(codes.shape[1]) if all(j != column for column, _ in chain)]
    if not chain and remaining:
        pairs = [sum(found.information(j, frozenset((i,))) for i in remaining if i != j) for j in remaining]
        first = remaining.pop(int(np.argmax(pairs)))
        chain.append((first, ()))
        cliques.append(frozenset((first,)))
    while remaining:
        separators = _separators(cliques, common)
        best = max(
            ((found.information(j, s), -j, s) for j in remaining for s in separators if s),
            key=lambda choice: (choice[0], choice[1], -len(choice[2]), sorted(choice[2])),
        )
        gain, column, chosen = best[0], -best[1], best[2]
        if gain <= 0:
            chosen = common
        chain.append((column, found.ranked(column, chosen, common)))
        cliques.append(chosen | {column})
        remaining.remove(column)
    return chain


def _separators(cliques: Sequence[frozenset[int]], common: frozenset[int]) -> list[frozenset[int]]:
    """Subsets of the cliques that a column may have as parents: with the common one, and `PARENTS` of all at most."""
    found = {
        frozenset(chosen) | common
        for clique in cliques
        for size in range(PARENTS + 1 - len(common))
        for chosen in combinations(sorted(clique - common), size)
    }
    return sorted(found, key=lambda s: (len(s), sorted(s)))


def perfect_order(margins: Sequence[frozenset[int]]) -> Chain:
    """The columns of the margins, each after its parents, which are linked: the graph of the margins made chordal.

    Columns are eliminated by the fewest links that this adds (minimum fill), the lowest first.
    """
    links: dict[int, set[int]] = {column: set() for margin in margins for column in margin}
    for margin in margins:
        for column in margin:
            links[column] |= margin - {column}
    order: Chain = []
    while links:

        def fill(column: int) -> tuple[int, int]:
            pairs = combinations(sorted(links[column]), 2)
            return sum(b not in links[a] for a, b in pairs), column

        column = min(links, key=fill)
        beside = links.pop(column)
        for one in beside:
            links[one] |= beside - {one}
            links[one].discard(column)
        order.append((column, tuple(sorted(beside))))
    return order[::-1]


_COMMON = 0.25
"""Records of each level of a stratum, at least, as a share of what it would have if all were equally common."""
_EXPLAINED = 0.1
"""Share of the entropy of a stratum that another column explains, at most."""

_ROUNDING = 1e-9
"""Of an entropy."""


def choose_group(codes: Host, counts: Sequence[int], ordered: Sequence[bool]) -> int | None:
    """The stratum that is to be a common parent of all other columns; None where there is no stratum.

    A stratum is a column of categories that are all common, and of which no other column says much: a region, or sex.
    It says little of each of the others: links that are chosen one by one leave it out, and the tables inside the
    strata are then wrong.  Columns that determine each other are one.  Of several strata it is the one of which the
    others say least, as a share of its entropy; ties go to the lowest.

    Cost : O(n) for each pair of columns.
    """
    found = Entropies(codes, counts)
    columns = range(codes.shape[1])

    def is_common(column: int) -> bool:
        held = np.bincount(codes[:, column], minlength=1)
        return not ordered[column] and len(held) > 1 and held.min() * len(held) >= _COMMON * len(codes)

    def explained(column: int) -> float:
        """Largest share of the entropy that another column explains."""
        shares = [0.0]
        for other in columns:
            own, its, both = (found.of(frozenset(which))[0] for which in ((column,), (other,), (column, other)))
            one_to_one = both - own < _ROUNDING and both - its < _ROUNDING
            shares.append(0.0 if one_to_one else (own + its - both) / own)
        return max(shares)

    strata = {column: explained(column) for column in columns if is_common(column)}
    best = min(strata, key=lambda column: strata[column], default=None)
    return best if best is not None and strata[best] <= _EXPLAINED else None
