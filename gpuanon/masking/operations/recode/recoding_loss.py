"""What a recoding costs: the loss metrics of the ARX tool, with bounds that a search over a lattice can cut by.

A node of the lattice is a depth for each column.  Records of classes that are too small at a node are suppressed
there, and count as wholly generalised.  Two things hold for every metric here, and make an exact search short:

- a record that is suppressed at a node is suppressed at every finer node too, if what makes a class too small is
  inherited by its parts (fewer than k records, fewer than ℓ values);
- generalising more never costs less, suppression apart.

So a node that was looked at bounds the loss of all nodes below it, and of those above it.

References
----------
.. [1] V. Iyengar (2002), Transforming data to satisfy privacy constraints, KDD '02: loss.
.. [2] L. Sweeney (2002), Achieving k-anonymity privacy protection using generalization and suppression: precision.
.. [3] R. Bayardo, R. Agrawal (2005), Data privacy through optimal k-anonymization, ICDE '05: discernibility.
.. [4] K. LeFevre, D. DeWitt, R. Ramakrishnan (2006), Mondrian, ICDE '06: average class size.
.. [5] A. De Waal, L. Willenborg (1999), Information loss through global recoding and local suppression: entropy.
.. [6] F. Prasser, J. Eicher, H. Spengler, R. Bild, K. Kuhn (2020), Flexible data anonymization using ARX.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal, Protocol, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace

Node: TypeAlias = tuple[int, ...]
Metric: TypeAlias = Literal["loss", "precision", "entropy", "discernibility", "class-size"]


@dataclass(frozen=True, eq=False, repr=False)
class NodeClasses:
    """The classes of a node.

    sizes      : (g,) records of each class
    fails      : (g,) whether it is suppressed
    suppressed : (s,) combinations of classes that are suppressed
    inherited  : (i,) those of them that are suppressed at every finer node too
    """

    sizes: Host
    fails: Host
    suppressed: Host
    inherited: Host


class Loss(Protocol):
    """A loss metric on one table."""

    def lowest(self) -> Host:
        """(depths of each column …) a lower bound for every node."""

    def of(self, node: Node, verdict: NodeClasses) -> float:
        """The loss of a node."""

    def below(self, node: Node, verdict: NodeClasses) -> Host | float:
        """A lower bound for every node whose depths are at most those of `node`: one, or one for each."""

    def above(self, verdict: NodeClasses) -> float:
        """A lower bound for every node whose depths are at least those of the node."""

    def mixed(self, nodes: Sequence[Node], which: Host) -> float:
        """The loss where combination i is at the node ``nodes[which[i]]``, and suppressed where that is −1."""


@dataclass(frozen=True, eq=False, repr=False)
class ColumnLoss:
    """A loss that is computed column by column.

    base      : for each column (depths,) its loss where nothing is suppressed
    suppress  : for each column what suppressing the combinations (s,) adds to it, (depths,)
    term      : from the loss of a column to its term
    whole     : from the sum of all terms to the loss
    rows      : for each column (p, depths) loss of each combination, where losses are means of these; else None
    """

    base: Sequence[Host]
    suppress: Sequence[Callable[[Host], Host]]
    term: Callable[[Host], Host]
    whole: Callable[[Host], Host]
    counts: Host
    weights: Host
    rows: Sequence[Host] | None = None

    def _outer(self, columns: Sequence[Host]) -> Host:
        """The loss of every node of a box, from (depths,) losses of each column."""
        total = np.zeros(1)
        for losses in columns:
            total = np.add.outer(total, self.term(losses)).reshape(-1)
        return np.asarray(self.whole(total)).reshape([len(losses) for losses in columns])

    def lowest(self) -> Host:
        return self._outer(self.base)

    def of(self, node: Node, verdict: NodeClasses) -> float:
        added = [add(verdict.suppressed) for add in self.suppress]
        one = [(base + extra)[at : at + 1] for base, extra, at in zip(self.base, added, node, strict=True)]
        return float(self._outer(one).reshape(()))

    def below(self, node: Node, verdict: NodeClasses) -> Host:
        added = [add(verdict.inherited) for add in self.suppress]
        return self._outer([(base + extra)[: at + 1] for base, extra, at in zip(self.base, added, node, strict=True)])

    def above(self, verdict: NodeClasses) -> float:
        return -np.inf  # what `lowest` says already

    def mixed(self, nodes: Sequence[Node], which: Host) -> float:
        if self.rows is None:
            raise NotImplementedError
        losses = []
        for column, rows in enumerate(self.rows):
            depths = np.array([node[column] for node in nodes])[which]
            lost = np.where(which < 0, 1.0, rows[np.arange(len(which)), depths])
            losses.append(np.atleast_1d(self.counts @ lost / self.counts.sum()))
        return float(self._outer([w * v for w, v in zip(self.weights, losses, strict=True)]).reshape(()))


@dataclass(frozen=True, eq=False, repr=False)
class SizeLoss:
    """A loss of class sizes.

    discernibility : Σ s² over classes that are released, and n for each record that is suppressed [3]
    class-size     : n / number of classes, all suppressed records as one more [4]
    """

    counts: Host
    shape: tuple[int, ...]
    k: int
    metric: Literal["discernibility", "class-size"]
    records: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "records", int(self.counts.sum()))

    def lowest(self) -> Host:
        return np.zeros(self.shape)

    def of(self, node: Node, verdict: NodeClasses) -> float:
        kept = verdict.sizes[~verdict.fails].astype(float)
        suppressed = self.records - kept.sum()
        if self.metric == "discernibility":
            return float((kept**2).sum() + self.records * suppressed)
        return float(self.records / (len(kept) + (suppressed > 0)))

    def below(self, node: Node, verdict: NodeClasses) -> float:
        gone = float(self.counts[verdict.inherited].sum())
        if self.metric == "discernibility":  # classes that are released have at least k records
            return self.records * gone + self.k * (self.records - gone)
        return self.records / ((self.records - gone) / self.k + 1)

    def mixed(self, nodes: Sequence[Node], which: Host) -> float:
        raise NotImplementedError

    def above(self, verdict: NodeClasses) -> float:
        if self.metric == "discernibility":
            return float((verdict.sizes.astype(float) ** 2).sum())
        return self.records / len(verdict.sizes)


def loss_of(
    metric: Metric,
    codes: Host,
    counts: Host,
    ancestors: Sequence[Host],
    shares: Sequence[Host],
    k: int,
    weights: Sequence[float] | None = None,
) -> Loss:
    """The loss metric `metric` on a table of combinations.

    codes     : (p, c) combinations; −1 picks the last line of the arrays below
    counts    : (p,) records of each
    ancestors : for each column (values + 1, depths) the code of each value's ancestor at each depth
    shares    : for each column (values + 1, depths) share of the hierarchy's leaves below that ancestor
    weights   : for each column how much it counts; they are divided by the largest

    With v_j the loss of column j, 0 to 1, w_j its weight and c columns:

    loss      : v_j = (s − 1/m) / (1 − 1/m), s the mean over records of the share of the m leaves that a record's value
                stands for, 1 where it is suppressed; Π (1 + w_j v_j)^(1/c) − 1
    precision : v_j = mean of depth / deepest, 1 where suppressed; Σ w_j v_j / c
    entropy   : Σ w_j e_j, e_j the bits Σ log₂(records of the ancestor / records of the value), and, for suppressed
                records, the entropy of their ancestors times their number
    """
    shape = tuple(table.shape[1] for table in ancestors)
    if metric in ("discernibility", "class-size"):
        return SizeLoss(counts, shape, k, metric)
    scale = np.ones(len(shape)) if weights is None else np.asarray(weights, dtype=float) / max(weights)
    base: list[Host] = []
    suppress: list[Callable[[Host], Host]] = []
    rows: list[Host] = []
    for j, depths in enumerate(shape):
        if metric == "entropy":
            lost, add = _entropy(codes[:, j], counts, ancestors[j])
        else:
            rows.append(_domain_shares(codes[:, j], shares[j]) if metric == "loss" else _depth_shares(codes, depths))
            lost, add = _shares_lost(rows[-1], counts)
        base.append(scale[j] * lost)
        suppress.append(partial(_scaled, add, scale[j]))
    columns = len(shape)
    if metric == "loss":
        return ColumnLoss(base, suppress, lambda v: np.log1p(v) / columns, np.expm1, counts, scale, rows)
    if metric == "precision":
        return ColumnLoss(base, suppress, lambda v: v / columns, lambda total: total, counts, scale, rows)
    return ColumnLoss(base, suppress, lambda v: v, lambda total: total, counts, scale)


def _scaled(add: Callable[[Host], Host], weight: float, at: Host) -> Host:
    """What suppressing adds to a column, times its weight."""
    return weight * add(at)


def _domain_shares(codes: Host, shares: Host) -> Host:
    """(p, depths) share of the domain that each value stands for, from 0 for one leaf to 1 for all."""
    least = shares[:, 0].min()
    return (shares[codes] - least) / (1 - least) if least < 1 else np.zeros((len(codes), shares.shape[1]))


def _depth_shares(codes: Host, depths: int) -> Host:
    """(p, depths) depth / deepest."""
    return np.broadcast_to(np.arange(depths) / max(depths - 1, 1), (len(codes), depths))


def _shares_lost(rows: Host, counts: Host) -> tuple[Host, Callable[[Host], Host]]:
    """(depths,) mean of `rows` (p, depths), and what it gains where combinations count as 1."""
    records = counts.sum()
    missing = (1 - rows) * (counts / records)[:, None]
    return counts @ rows / records, lambda at: missing[at].sum(axis=0)


def _entropy(codes: Host, counts: Host, ancestors: Host) -> tuple[Host, Callable[[Host], Host]]:
    """(depths,) bits that recoding takes from a column, and the bits of the ancestors of suppressed combinations."""
    own, depths = ancestors[codes], ancestors.shape[1]

    def bits(at: Host, depth: int) -> float:
        """Σ c log₂(c) over the ancestors at this depth of the combinations `at`."""
        sums = np.bincount(own[at, depth], weights=counts[at])
        sums = sums[sums > 0]
        return float((sums * np.log2(sums)).sum())

    everything = np.arange(len(codes))
    base = np.array([bits(everything, depth) for depth in range(depths)])

    def suppressed(at: Host) -> Host:
        records = counts[at].sum()
        if records == 0:
            return np.zeros(depths)
        return np.array([records * np.log2(records) - bits(at, depth) for depth in range(depths)])

    return base - base[0], suppressed


def recode(codes: Array, ancestors: Array, depth: int) -> Array:
    """(n,) the code, at `depth`, of the ancestor of each of the `codes` (n,); nulls (−1) stay null.

    ancestors : (values, depths) the code of each value's ancestor at each depth
    """
    xp = namespace(codes)
    if len(ancestors) == 0:
        return codes
    return xp.where(codes < 0, -1, ancestors[xp.maximum(codes, 0), depth])
