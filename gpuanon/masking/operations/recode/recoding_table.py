"""The combinations of a table's values with their hierarchies: what a search for a recoding is made on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition
from gpuanon.masking.constraints import Constraint, Sensitive, failing
from gpuanon.masking.operations.recode.lattice_search import Found, search_lattice
from gpuanon.masking.operations.recode.recoding_loss import Loss, Metric, Node, NodeClasses, loss_of
from gpuanon.numerics.patterns import Patterns, classes_at, null_last


@dataclass(frozen=True, eq=False, repr=False)
class RecodingTable:
    """Combinations of values, and the hierarchies that recode them; those of several cells are merged.

    names      : of the columns that are recoded
    pieces     : combinations of their codes, of sensitive codes, and of person numbers, in this order
    ancestors  : for each column (values, depths)
    shares     : for each column (values, depths) share of the leaves
    sensitive  : for each sensitive column (levels,) rows of each value in the whole table
    ordered    : for each sensitive column whether the order of its values means something
    nulls      : for each sensitive column whether the first of its values is a null
    persons    : whether person numbers are there; k counts them then
    constraint : on the sensitive values of each class, or None
    """

    names: tuple[str, ...]
    pieces: tuple[Patterns, ...]
    ancestors: tuple[Host, ...]
    shares: tuple[Host, ...]
    sensitive: tuple[Host, ...] = ()
    ordered: tuple[bool, ...] = ()
    nulls: tuple[bool, ...] = ()
    persons: bool = False
    constraint: Constraint | None = None
    own: tuple[Host, ...] = ()
    """For each column (depths, p) the code of each combination at each depth; made by `prepared`."""

    def merge(self, other: RecodingTable) -> RecodingTable:
        """The table of both; equal combinations are put together by `prepared`."""
        return replace(self, pieces=self.pieces + other.pieces)

    def prepared(self) -> RecodingTable:
        """Equal combinations as one, nulls as a value, and every code at every depth; called once."""
        ancestors = tuple(null_last(table) for table in self.ancestors)
        shares = tuple(np.concatenate([table, _least(table)]) for table in self.shares)
        return replace(self, pieces=(Patterns.merged(self.pieces),), ancestors=ancestors, shares=shares)._filled()

    def _filled(self) -> RecodingTable:
        codes = self.pieces[0].codes
        own = tuple(np.ascontiguousarray(table[codes[:, j]].T) for j, table in enumerate(self.ancestors))
        return replace(self, own=own)

    @property
    def patterns(self) -> Patterns:
        """All combinations."""
        return self.pieces[0]

    @property
    def records(self) -> int:
        """Records of the table."""
        return sum(piece.records for piece in self.pieces)

    @property
    def shape(self) -> Node:
        """Depths of each column."""
        return tuple(table.shape[1] for table in self.ancestors)

    def search(self, k: int, most: int, metric: Metric, weights: Sequence[float], seconds: float) -> Found | None:
        """The best depths for these records, of which at most `most` are suppressed."""
        loss, counts = self.loss(metric, k, weights), self.patterns.counts
        return search_lattice(self.shape, lambda node: self.judge(node, k), loss, counts, most, seconds)

    def loss(self, metric: Metric, k: int, weights: Sequence[float]) -> Loss:
        """The loss metric on these records."""
        codes = self.patterns.codes[:, : len(self.names)]
        return loss_of(metric, codes, self.patterns.counts, self.ancestors, self.shares, k, weights)

    def judge(self, node: Node, k: int) -> NodeClasses:
        """The classes at these depths, and those that are too small or miss the constraint."""
        labels, numbers = self._classes(node)
        counts = self.patterns.counts
        sizes = np.bincount(labels, weights=counts, minlength=numbers)
        units = self._persons(labels, numbers) if self.persons else sizes
        fails = units < k
        inherited = fails
        if self.constraint is not None:
            diverse = Constraint.given(self.constraint.diversity, None)
            inherited = fails | self._misses(labels, numbers, diverse)
            fails = inherited | self._misses(labels, numbers, Constraint.given(None, self.constraint.closeness))
        there = sizes > 0
        suppressed = np.flatnonzero(fails[labels])
        same = fails is inherited
        return NodeClasses(
            sizes[there], fails[there], suppressed, suppressed if same else np.flatnonzero(inherited[labels])
        )

    def _classes(self, node: Node) -> tuple[Host, int]:
        """(p,) class of each combination at these depths, and how many numbers there are."""
        columns = [self.own[j][depth] for j, depth in enumerate(node)]
        widths = [int(table[:, depth].max()) + 1 for table, depth in zip(self.ancestors, node, strict=True)]
        return classes_at(columns, widths)

    def _persons(self, labels: Host, numbers: int) -> Host:
        """(numbers,) different persons of each class."""
        who = np.unique(self.patterns.codes[:, -1], return_inverse=True)[1].reshape(-1)
        pairs = np.unique(labels * (int(who.max(initial=0)) + 1) + who)
        return np.bincount(pairs // (int(who.max(initial=0)) + 1), minlength=numbers)

    def _misses(self, labels: Host, numbers: int, constraint: Constraint | None) -> Host:
        """(numbers,) whether each class misses the constraint."""
        out = np.zeros(numbers, dtype=bool)
        if constraint is not None:
            at = len(self.names)
            values = self.patterns.codes[:, at : at + len(self.sensitive)]
            groups = Partition.from_labels(labels)
            sensitive = Sensitive(values, self.sensitive, self.ordered, self.nulls or (False,) * len(self.ordered))
            out[labels[groups.order[groups.starts[:-1]]]] = failing(groups, sensitive, constraint, self.patterns.counts)
        return out

    def suppressed(self, node: Node, k: int) -> Host:
        """(s,) combinations that these depths suppress."""
        return self.judge(node, k).suppressed

    def recoded(self, node: Node, at: Host) -> Host:
        """(g, c) distinct codes, at these depths, of the combinations `at`; −1 for a null."""
        codes = np.stack([self.own[j][depth][at] for j, depth in enumerate(node)], axis=1)
        null = self.patterns.codes[at, : len(self.names)] < 0
        return np.unique(np.where(null, -1, codes), axis=0)

    def only(self, at: Host) -> RecodingTable:
        """The table of the combinations `at` alone."""
        patterns = Patterns(self.patterns.codes[at], self.patterns.counts[at])
        return replace(self, pieces=(patterns,))._filled()


def _least(shares: Host) -> Host:
    """(1, depths) share of a null: that of one leaf."""
    return np.full((1, shares.shape[1]), shares[:, 0].min(initial=1.0))
