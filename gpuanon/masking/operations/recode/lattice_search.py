"""The best recoding: the node of a lattice of depths with the least loss that suppresses few enough records.

Nodes are looked at from the most general down.  Each bounds the loss of all nodes below it by the records that are
suppressed there for certain, and the nodes that suppress too many rule out all that lie below them (predictive
tagging).  A node whose bound is not under the best loss so far is not looked at.

References
----------
.. [1] F. Kohlmayer, F. Prasser, C. Eckert, A. Kemper, K. Kuhn (2012), Flash: efficient, stable and optimal
   k-anonymity, PASSAT '12: predictive tagging.
.. [2] K. El Emam et al. (2009), A globally optimal k-anonymity method for the de-identification of health data,
   J. Am. Med. Inform. Assoc. 16(5).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.masking.operations.recode.recoding_loss import Loss, Node, NodeClasses

MOST_NODES = 4_000_000
"""Nodes of a lattice that is searched exactly; a larger one is climbed from many starts."""

_STARTS = 65
_CLIMBS = 200


@dataclass(frozen=True)
class Found:
    """The best node that was found.

    node       : a depth for each column
    loss       : of the node
    suppressed : records that it suppresses
    checked    : nodes that were looked at
    proven     : no node of the lattice has less loss (by more than rounding); False when time ran out first, or the
                 lattice was too large
    """

    node: Node
    loss: float
    suppressed: int
    checked: int
    proven: bool


def search_lattice(
    shape: tuple[int, ...],
    judge: Callable[[Node], NodeClasses],
    loss: Loss,
    counts: Host,
    most_suppressed: int,
    seconds: float = math.inf,
) -> Found | None:
    """The node of least loss that suppresses at most `most_suppressed` records; None when there is none.

    shape  : depths of each column
    judge  : the classes of a node
    counts : (p,) records of the combinations that verdicts speak of

    Of nodes of equal loss the first one that is met stands; the order is fixed.  The search ends after `seconds` with
    the best so far.

    Cost : one call of `judge` for each node that no bound rules out; memory O(nodes) for an exact search.
    """
    search = _Search(shape, judge, loss, counts, most_suppressed, time.monotonic() + seconds)
    return search.exact() if math.prod(shape) <= MOST_NODES else search.climbed()


class _Search:
    """The state of a search."""

    def __init__(
        self,
        shape: tuple[int, ...],
        judge: Callable[[Node], NodeClasses],
        loss: Loss,
        counts: Host,
        most_suppressed: int,
        deadline: float,
    ) -> None:
        self.shape, self.judge, self.loss, self.counts = shape, judge, loss, counts
        self.most_suppressed, self.deadline = most_suppressed, deadline
        self.bounds: Host | None = None
        self.checked = 0
        self.best: tuple[float, Node, int] | None = None

    @property
    def best_loss(self) -> float:
        """Loss of the best node so far."""
        return math.inf if self.best is None else self.best[0]

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self.deadline

    def exact(self) -> Found | None:
        """Look at every node that may be the best."""
        self.bounds = self.loss.lowest()
        general = self._generality()
        by_bound = np.argsort(self.bounds, axis=None, kind="stable")
        spread = by_bound[np.linspace(0, len(by_bound) - 1, min(_STARTS, len(by_bound))).astype(np.int64)]
        self._visit_open(spread[::-1])
        self._climb()
        flat = self.bounds.reshape(-1)
        # From the most general node down; what the first nodes are worth is known, so most are ruled out by now.
        candidates = np.flatnonzero(flat < self.best_loss)
        self._visit_open(candidates[np.argsort(-general[candidates], kind="stable")])
        return self._found(not bool((flat < self.best_loss).any()))

    def climbed(self) -> Found | None:
        """Climb from the lowest nodes of random chains that suppress few enough records."""
        rng = np.random.default_rng(self.shape)
        top = tuple(depths - 1 for depths in self.shape)
        self._visit(top)
        for _ in range(_CLIMBS):
            if self.late:
                break
            steps = rng.permutation(np.repeat(np.arange(len(self.shape)), top))
            low, high = 0, len(steps)
            while low < high and not self.late:  # the lowest node of the chain that suppresses few enough
                middle = (low + high) // 2
                node = tuple(np.bincount(steps[:middle], minlength=len(self.shape)).tolist())
                low, high = (low, middle) if self._visit(node) else (middle + 1, high)
            before, self.best = self.best, None
            self._visit(tuple(np.bincount(steps[:high], minlength=len(self.shape)).tolist()))
            self._climb()
            if before is not None and before[0] <= self.best_loss:
                self.best = before
        return self._found(False)

    def _found(self, proven: bool) -> Found | None:
        return None if self.best is None else Found(self.best[1], self.best[0], self.best[2], self.checked, proven)

    def _generality(self) -> Host:
        """(nodes,) sum over the columns of depth / deepest."""
        total = np.zeros(1)
        for depths in self.shape:
            total = np.add.outer(total, np.arange(depths) / max(depths - 1, 1)).reshape(-1)
        return total

    def _visit_open(self, nodes: Host) -> None:
        """Look at those of the nodes that no bound rules out, one after the other."""
        assert self.bounds is not None
        flat = self.bounds.reshape(-1)
        for number in nodes:
            if flat[number] < self.best_loss:
                if self.late:
                    return
                self._visit(tuple(int(at) for at in np.unravel_index(number, self.shape)))

    def _visit(self, node: Node) -> bool:
        """Look at a node and note what it says of others; whether it suppresses few enough records."""
        verdict = self.judge(node)
        self.checked += 1
        suppressed = int(self.counts[verdict.suppressed].sum())
        allowed = suppressed <= self.most_suppressed
        if allowed:
            loss = self.loss.of(node, verdict)
            if loss < self.best_loss:
                self.best = (loss, node, suppressed)
        if self.bounds is not None:
            below = self.bounds[tuple(slice(0, at + 1) for at in node)]
            if int(self.counts[verdict.inherited].sum()) > self.most_suppressed:
                below[...] = np.inf
            elif len(verdict.inherited):
                np.maximum(below, self.loss.below(node, verdict), out=below)
            above = self.bounds[tuple(slice(at, None) for at in node)]
            np.maximum(above, self.loss.above(verdict), out=above)
            self.bounds[node] = np.inf
        return allowed

    def _climb(self) -> None:
        """Go from the best node to better neighbours, until there is none."""
        while self.best is not None:
            at = self.best[1]
            for node in self._neighbours(at):
                if self.late:
                    return
                if self.bounds is None or self.bounds[node] < self.best_loss:
                    self._visit(node)
            if self.best[1] == at:
                return

    def _neighbours(self, node: Node) -> Iterator[Node]:
        """Nodes that differ by one depth in one column."""
        for column, depths in enumerate(self.shape):
            for depth in (node[column] - 1, node[column] + 1):
                if 0 <= depth < depths:
                    yield (*node[:column], depth, *node[column + 1 :])
