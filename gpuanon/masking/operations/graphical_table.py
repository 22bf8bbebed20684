"""New rows from a decomposable graphical model, found from mutual information.

Each column has a few parents before it, which are linked to each other: they lie in a clique that exists already.  The
graph is then chordal, and the model is the product of the tables of its cliques over those of their separators,

    p(x) = Π p(clique) / Π p(separator) = Π p(column | parents),

exactly and without iteration [2]; the table of every clique is that of the records.

References
----------
.. [1] C. Chow, C. Liu (1968), Approximating discrete probability distributions with dependence trees, IEEE Trans.
   Inf. Theory 14(3).
.. [2] S. L. Lauritzen (1996), Graphical Models, Oxford, sect. 4.4.
.. [3] F. M. Malvestuto (1991), Approximating discrete probability distributions with decomposable models, IEEE Trans.
   Syst. Man Cybern. 21(5).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import ClassVar, Literal, TypeAlias

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.column_chain.conditional import Conditional
from gpuanon.masking.operations.column_chain.drawing import draw_rows
from gpuanon.masking.operations.column_chain.pooled_table import RARE, PooledTable, Rare
from gpuanon.masking.operations.column_chain.rules import (
    Exclusion,
    Rules,
    StructuralZeros,
    check_rules,
    exclusions,
)
from gpuanon.masking.outcomes import Recoded

Chain: TypeAlias = list[tuple[int, tuple[int, ...]]]
"""Columns in the order in which they are drawn, each with its parents, which come before it."""

PARENTS = 3
"""Of a column, at most, beside those that named margins and a group column ask for."""
CELL = 2
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
        """Mutual information of a column and its parents, less a record's share for each free cell (Akaike 1974).

        −∞ where the cells of both together have fewer than `CELL` records on average.
        """
        (own, a), (given, b), (both, cells) = (
            self.of(columns) for columns in (frozenset((column,)), parents, parents | {column})
        )
        if len(parents) > 1 and cells * CELL > len(self.codes):
            return -np.inf
        return own + given - both - (cells - a - b + 1) / max(1, len(self.codes))


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
    codes: Host, counts: Sequence[int], margins: Sequence[frozenset[int]] = (), group: int | None = None
) -> Chain:
    """A chain of all columns, such that each margin lies in a clique, and `group` in all of them.

    The columns of the margins come first, in a perfect order of their graph, which is made chordal.  Then the column
    that a pair of linked columns, or one column, says most about is added until none is left: a tree [1] with the most
    useful triples [3].  Ties go to the lowest column.

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
            chain.append((column, tuple(sorted(wanted))))
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
        chain.append((column, tuple(sorted(chosen))))
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


BINS = 20
"""Of a number with more values."""
_LOOKED_AT = 200_000
"""Records from which the links are found, at most."""
_LEFT_OUT = 0.1
"""Share of the records that even draws of a first column leave out: its counts are then not those of the table."""
_MOST = 1 << 62
"""Cells of a clique, at most: they are numbered, not held."""


def binned(codes: Host, ordered: Sequence[bool], bins: int) -> Host:
    """(n, c) codes from 0: of at most `bins` bins of equal counts for ordered columns of more values.

    Equal values share a bin; a null is a bin of its own, and so is each value of the other columns.
    """
    out = np.empty_like(codes)
    for j, has_order in enumerate(ordered):
        values, place, counts = np.unique(codes[:, j], return_inverse=True, return_counts=True)
        label = np.arange(len(values))
        if has_order and len(values) > bins + 1:
            known = np.where(values >= 0, counts, 0)
            label = ((np.cumsum(known) - 0.5 * known) * bins / max(1, int(known.sum()))).astype(np.int64)
            label = np.where(values >= 0, label + 1, 0)
            label = np.unique(label, return_inverse=True)[1].reshape(-1)
        out[:, j] = label[place.reshape(-1)]
    return out


def graphical_rows(
    codes: Host,
    ordered: Sequence[bool],
    draws: Draws,
    margins: Sequence[frozenset[int]] = (),
    group: int | None = None,
    bins: int = BINS,
    even: bool = True,
    rules: Sequence[Exclusion] = (),
) -> tuple[Host, int]:
    """(n, c) codes of as many new rows, drawn column by column; and how many could not be drawn as they should.

    A column is drawn from the records whose parents have the same values (see `find_chain`): the table of each clique,
    so of each margin, has the expectation that it has in the records.  Numbers are drawn as bins, then inside their
    bin by themselves.  A row that equals a unique record, or is impossible, is drawn again (see `draw_rows`).

    Cost : that of `find_chain`, and one sort of the records for each column.
    """
    n, c = codes.shape
    cells = binned(codes, ordered, bins)
    wide = [j for j in range(c) if len(np.unique(codes[:, j])) > len(np.unique(cells[:, j]))]
    whole = np.column_stack([cells, *(codes[:, j] for j in wide)])
    counts = [int(cells[:, j].max(initial=0)) + 1 for j in range(c)]
    seen = cells
    if n > _LOOKED_AT:
        seen = cells[np.sort(np.argsort(draws.child("seen").keys(), kind="stable")[:_LOOKED_AT])]
    links = find_chain(seen, counts, margins, group)
    chosen = np.arange(n)
    if even and n:
        chosen = np.flatnonzero(draws.child("left out").uniform(1)[:, 0] >= _LEFT_OUT)
        chosen = chosen if len(chosen) else np.arange(n)
    chain = [*conditionals(cells, counts, links, chosen)]
    chain += [_inside(c + at, codes[:, j], cells[:, j], j) for at, j in enumerate(wide)]
    zeros = StructuralZeros.of(whole, [*ordered, *(True for _ in wide)])
    zeros = zeros.with_rules([_on_cells(rule, codes, wide) for rule in rules])
    made, left = draw_rows(chain, np.empty((n, 0), dtype=np.int64), whole, draws, even, zeros)
    values = [made[:, c] if j in wide else np.unique(codes[:, j])[made[:, j]] for j in range(c)]
    for at, j in enumerate(wide):
        values[j] = made[:, c + at]
    return np.column_stack(values), left


def _on_cells(rule: Exclusion, codes: Host, wide: Sequence[int]) -> Exclusion:
    """A rule on the codes of two columns, as one on the columns of the chain: cells, then the values of wide ones."""
    places: list[int] = []
    lines: list[Host] = []
    for j in rule[:2]:
        places.append(codes.shape[1] + wide.index(j) if j in wide else j)
        # Cells are numbered from 0 in the order of the values that occur, null among them; none of them is −1.
        lines.append(np.arange(rule[2].shape[len(lines)]) if j in wide else np.r_[0, np.unique(codes[:, j]) + 1])
    return places[0], places[1], rule[2][np.ix_(*lines)]


def conditionals(cells: Host, counts: Sequence[int], links: Chain, first: Host) -> list[Conditional]:
    """The columns of a chain, each by the cells of its parents; columns without any by the records `first`."""
    found = []
    for column, parents in links:
        rows = np.arange(len(cells)) if parents else first
        place, most = cell_numbers(cells[rows].T, parents, counts)
        if most > _MOST:
            raise ParameterError("margins: a set of columns has more cells than can be numbered", hint="fewer columns")
        known, leaves = np.unique(place, return_inverse=True)
        found.append(Conditional.of(column, cells[rows, column], leaves.reshape(-1), _Lookup(known, parents, counts)))
    return found


class _Lookup:
    """The leaf of new rows by the cell of their parents, which some record has."""

    def __init__(self, known: Host, parents: Sequence[int], counts: Sequence[int]) -> None:
        self.known, self.parents, self.counts = known, parents, counts

    def __call__(self, rows: Sequence[Host]) -> Host:
        return np.searchsorted(self.known, cell_numbers(rows, self.parents, self.counts)[0])


def _inside(column: int, values: Host, cells: Host, parent: int) -> Conditional:
    """A value given its bin."""
    return Conditional.of(column, values, cells, lambda rows: rows[parent])


class TableSample(Operation):
    """New rows from tables of a few columns each, linked by those they share; numbers in bins.

    Trees of cells are found and drawn from on the CPU.
    """

    sees: ClassVar[Sight] = "classes"
    rows: ClassVar[RowEffect] = "new"
    host_only: ClassVar[bool] = True

    use: Literal["table-sample"] = "table-sample"
    margins: tuple[tuple[str, ...], ...] = Field(
        default=(), description="sets of columns whose tables are kept, up to the draw, beside those that are found"
    )
    group: str | None = Field(default=None, description="a column that all others depend on")
    bins: int = Field(default=BINS, ge=2, description="of equal counts, of an ordered column with more values")
    even: bool = Field(default=True, description="draw the records of a cell equally often, with less error")
    rare: Rare = RARE
    rules: Rules = ()

    def apply(self, T: Host, groups: Partition, records: Records) -> Recoded:
        if groups.parts > 1 or records.classes is None:
            raise ParameterError("table-sample: one group of all rows, seen as classes, is needed")
        draws = records.draws.child("table")
        margins, group = self._places(records.classes)
        pooled = PooledTable.of(T, records.classes, self.rare, draws)
        rules = exclusions(self.rules, records.classes, pooled)
        codes, left = graphical_rows(pooled.codes, pooled.ordered, draws, margins, group, self.bins, self.even, rules)
        check_rules(codes, rules)
        columns = pooled.released(codes, records.draws.child("place"))
        rows = np.arange(len(T), dtype=np.int64)
        return Recoded(columns, rows=rows, added=len(T), facts={"rows_not_redrawn": left})

    def _places(self, classes: ClassInfo) -> tuple[list[frozenset[int]], int | None]:
        """The margins and the group column as positions of columns."""
        names = classes.names
        asked = {name for margin in self.margins for name in margin} | ({self.group} if self.group else set())
        unknown = sorted(asked - set(names))
        if unknown:
            raise ParameterError(f"margins, group: not among the masked columns: {', '.join(map(repr, unknown))}")
        margins = [frozenset(names.index(name) for name in margin) for margin in self.margins]
        return margins, None if self.group is None else names.index(self.group)
