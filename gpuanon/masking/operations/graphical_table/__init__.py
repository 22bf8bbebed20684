"""New rows from a decomposable graphical model, found from mutual information.

Each column has a few parents before it, which are linked to each other: they lie in a clique that exists already.  The
graph is then chordal, and the model is the product of the tables of its cliques over those of their separators,

    p(x) = Π p(clique) / Π p(separator) = Π p(column | parents),

without iteration [1]; the table of every clique is that of the records, but for cells of few records, where a column is
drawn by fewer of its parents.

References
----------
.. [1] S. L. Lauritzen (1996), Graphical Models, Oxford, sect. 4.4.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, ClassVar, Literal, TypeAlias

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
from gpuanon.masking.operations.graphical_table.links import Chain, cell_numbers, choose_group, find_chain
from gpuanon.masking.outcomes import Recoded

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
    group: int | Literal["auto"] | None = None,
    bins: int = BINS,
    even: bool = True,
    rules: Sequence[Exclusion] = (),
) -> tuple[Host, int]:
    """(n, c) codes of as many new rows, drawn column by column; and how many could not be drawn as they should.

    A column is drawn from the records whose parents have the same values (see `find_chain`), or fewer parents where
    these are few (see `Contexts`): the table of each named margin has the expectation that it has in the records.
    Numbers are drawn as bins, then inside their bin by themselves.  A row that equals a unique record, or is
    impossible, is drawn again (see `draw_rows`).

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
    if group == "auto":
        group = choose_group(seen, counts, ordered)
    links = find_chain(seen, counts, margins, group)
    chosen = np.arange(n)
    if even and n:
        chosen = np.flatnonzero(draws.child("left out").uniform(1)[:, 0] >= _LEFT_OUT)
        chosen = chosen if len(chosen) else np.arange(n)
    fixed = frozenset().union(*margins)
    chain = [*conditionals(cells, counts, links, chosen, fixed)]
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


LEAST = 15
"""Records of a leaf, at least: a row whose cell has fewer is drawn by fewer parents."""


def conditionals(
    cells: Host, counts: Sequence[int], links: Chain, first: Host, fixed: Collection[int] = ()
) -> list[Conditional]:
    """The columns of a chain, each by the cells of its parents (see `Contexts`); without parents by records `first`.

    fixed : columns whose cells are leaves, however few records they have: those of named margins
    """
    found = []
    for column, parents in links:
        rows = np.arange(len(cells)) if parents else first
        contexts = Contexts(cells[rows], parents, counts, 1 if column in fixed else LEAST)
        found.append(Conditional.of(column, cells[rows[contexts.records], column], contexts.leaves, contexts))
    return found


class Contexts:
    """Leaves by the cells of the parents: of all of them where a cell has `least` records, else of all but the last …

    The leaf of a cell of the first parents has the records that no leaf of more parents has, or all its records where
    these are fewer than `least`.  A cell of few records would make a row of pieces of a few people.

    cells   : (n, c) of the records
    parents : in the order of what they say
    records : (m,) records of the leaves, some in several; leaves : (m,) the leaf of each, from 0
    """

    def __init__(self, cells: Host, parents: Sequence[int], counts: Sequence[int], least: int) -> None:
        self.counts = counts
        self.levels: list[tuple[Sequence[int], Host, Host]] = []  # parents, their cells that are leaves, the leaves
        chosen: list[Host] = []
        labels: list[Host] = []
        waiting, leaves = np.ones(len(cells), dtype=bool), 0
        for used in range(len(parents), -1, -1):
            place, most = cell_numbers(cells.T, parents[:used], counts)
            if most > _MOST:
                raise ParameterError("margins: more cells than can be numbered", hint="margins of fewer columns")
            known, which, held = np.unique(place, return_inverse=True, return_counts=True)
            which = which.reshape(-1)
            alone = np.bincount(which[waiting], minlength=len(known)) >= least
            leaf = alone | (held >= least) | (used == 0)
            number = np.where(leaf, leaves + np.cumsum(leaf) - 1, -1)
            inside = np.flatnonzero(leaf[which] & (waiting | ~alone[which]))
            chosen.append(inside)
            labels.append(number[which[inside]])
            waiting &= ~leaf[which]
            self.levels.append((parents[:used], known[leaf], number[leaf]))
            leaves += int(leaf.sum())
        self.records, self.leaves = np.concatenate(chosen), np.concatenate(labels)

    def __call__(self, rows: Sequence[Host]) -> Host:
        """(m,) the leaf of new rows, by the most parents for which there is one."""
        found = np.full(len(rows[0]), -1, dtype=np.int64)
        for parents, known, number in self.levels:
            rest = np.flatnonzero(found < 0)
            if len(rest) and len(known):
                place = cell_numbers([column[rest] for column in rows], parents, self.counts)[0]
                at = np.minimum(np.searchsorted(known, place), len(known) - 1)
                found[rest] = np.where(known[at] == place, number[at], -1)
        return found


def _inside(column: int, values: Host, cells: Host, parent: int) -> Conditional:
    """A value given its bin."""
    return Conditional.of(column, values, cells, lambda rows: rows[parent])


Group: TypeAlias = Annotated[
    str | Literal[False],
    Field(
        description='a column that all others depend on, such as a region: its tables with each are kept; "auto": a'
        " column of common categories of which the others say little, if there is one; false: none"
    ),
]


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
    group: Group = "auto"
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

    def _places(self, classes: ClassInfo) -> tuple[list[frozenset[int]], int | Literal["auto"] | None]:
        """The margins and the group column as positions of columns."""
        names = classes.names
        named = self.group if self.group != "auto" else False
        asked = {name for margin in self.margins for name in margin} | ({named} if named else set())
        unknown = sorted(asked - set(names))
        if unknown:
            raise ParameterError(f"margins, group: not among the masked columns: {', '.join(map(repr, unknown))}")
        margins = [frozenset(names.index(name) for name in margin) for margin in self.margins]
        return margins, "auto" if self.group == "auto" else names.index(named) if named else None
