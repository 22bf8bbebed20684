"""Recoding by search: each column goes to the depth of its hierarchy that costs least, so that every class has k.

References
----------
.. [1] P. Samarati (2001), Protecting respondents' identities in microdata release, IEEE TKDE 13(6).
.. [2] F. Prasser, F. Kohlmayer, K. Kuhn (2016), The importance of context: risk-based de-identification of biomedical
   data, Methods Inf. Med. 55(4): suppressed records are recoded again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.errors import GuaranteeError, ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.constraints import Constraint, Sensitive, failing
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.operations.recode.lattice_search import Found, search_lattice
from gpuanon.masking.operations.recode.recoding_loss import Loss, Metric, Node, NodeClasses, loss_of, recode
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.patterns import Patterns, classes_at, null_last
from gpuanon.tables.schema import Kind, Reading


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


@dataclass(frozen=True, eq=False, repr=False)
class Round:
    """One recoding of the records that no earlier round released.

    found : depths of the columns, and what they cost these records
    small : (g, c) recoded classes that this round does not release
    """

    found: Found
    small: Host


@dataclass(frozen=True, eq=False, repr=False)
class Recoding:
    """What was found for the whole table: one round, or several where records are recoded locally."""

    names: tuple[str, ...]
    rounds: tuple[Round, ...]
    loss: float


def search_recoding(
    table: RecodingTable,
    k: int,
    most_suppressed: int,
    metric: Metric = "loss",
    weights: Mapping[str, float] | None = None,
    local: bool = False,
    seconds: float = 60.0,
) -> Recoding:
    """The recoding of least loss by which each class of released records has k (records or persons).

    most_suppressed : records that may be left out
    weights         : of columns in the loss, by name; 1 for those that are not named
    local           : records that a round suppresses are recoded again by themselves, until none can be released

    Guarantee : the least loss of all depths of the columns, if `Found.proven`.  Local rounds are each the best for the
        records that are left, which need not be the best together.
    """
    began = time.monotonic()
    rounds: list[Round] = []
    rest, left = table, np.arange(len(table.patterns.codes))
    released = np.full(len(left), -1, dtype=np.int64)
    scale = [1.0 if weights is None else weights.get(name, 1.0) for name in table.names]
    while True:
        time_left = seconds - (time.monotonic() - began)
        found = rest.search(k, rest.records if local else most_suppressed, metric, scale, time_left)
        if local and found is not None and most_suppressed < found.suppressed < k:  # too few to be recoded again
            found = rest.search(k, most_suppressed, metric, scale, time_left)
        if found is None or found.suppressed == rest.records:
            break
        fails = rest.judge(found.node, k).suppressed
        rounds.append(Round(found, rest.recoded(found.node, fails)))
        released[np.delete(left, fails)] = len(rounds) - 1
        if not local or found.suppressed < k:
            break
        rest, left = rest.only(fails), left[fails]
    if not rounds or rounds[-1].found.suppressed > most_suppressed:
        raise GuaranteeError(
            f"no depths of the hierarchies give every class {k} records and suppress at most {most_suppressed} of"
            f" {table.records}; nothing was written",
            hint="a larger limit, a smaller k, or hierarchies with a single value at the top",
        )
    loss = rounds[0].found.loss
    if len(rounds) > 1:
        loss = table.loss(metric, k, scale).mixed([one.found.node for one in rounds], released)
    return Recoding(table.names, tuple(rounds), loss)


def rounds_of(codes: Array, ancestors: Sequence[Array], recoding: Recoding) -> Array:
    """(n,) int64 the round that releases each row of `codes` (n, c); −1 for none.

    Cost : one sort of the rows that are left, in each round.
    """
    xp = namespace(codes)
    found = xp.full(len(codes), -1, dtype=np.int64)
    left = xp.arange(len(codes), dtype=np.int64)
    for number, one in enumerate(recoding.rounds):
        seen = _at(codes[left], ancestors, one.found.node)
        small = among(seen, like(one.small, codes))
        found[left[~small]] = number
        left = left[small]
    return found


def among(rows: Array, wanted: Array) -> Array:
    """(n,) whether each of the `rows` (n, c) equals one of the rows `wanted` (g, c)."""
    xp = namespace(rows)
    if len(wanted) == 0 or len(rows) == 0:
        return xp.zeros(len(rows), dtype=bool)
    labels = equal_rows(xp.concatenate([wanted, rows]))
    marked = xp.zeros(int(labels.max()) + 1, dtype=bool)
    marked[labels[: len(wanted)]] = True
    return marked[labels[len(wanted) :]]


def _at(codes: Array, ancestors: Sequence[Array], node: Node) -> Array:
    """(n, c) the codes of rows at the depths of a node."""
    xp = namespace(codes)
    return xp.stack([recode(codes[:, j], ancestors[j], depth) for j, depth in enumerate(node)], axis=1)


def check_search(metric: Metric, weights: Mapping[str, float] | None, local: bool) -> None:
    """Refuse settings of a search that do not go together."""
    if local and metric not in ("loss", "precision"):
        raise ValueError(f"local: metric loss or precision is allowed, got {metric}")
    if weights and metric in ("discernibility", "class-size"):
        raise ValueError(f"weights: metric {metric} looks at the sizes of classes, not at columns; none are allowed")
    if weights and min(weights.values()) <= 0:
        raise ValueError("weights: numbers above 0 are allowed")


class RecodeSearch(Operation):
    """Each column goes to the depth of its hierarchy that loses least; records of classes below k are dropped.

    The search looks at combinations of values, not at records, and is exact unless `seconds` run out: the manifest
    says so.  A null stays a null, which is a value of its own.  Columns are released as text.  With `local` each
    suppressed record is recoded again among its like, so that a column holds values of several depths.
    """

    sees: ClassVar[Sight] = "classes"
    rows: ClassVar[RowEffect] = "dropped"
    learns: ClassVar[bool] = True
    whole_table: ClassVar[bool] = True

    use: Literal["recode-search"] = "recode-search"
    k: int = Field(ge=2, description="records of a class, at least")
    limit: float = Field(default=0.0, ge=0, le=1, description="share of the records that may be suppressed")
    metric: Metric = Field(default="loss", description="what is to be least, as ARX has it")
    weights: dict[str, float] | None = Field(default=None, description="how much a column counts in the loss, by name")
    local: bool = Field(default=False, description="suppressed records are recoded again by themselves")
    seconds: float = Field(default=60.0, gt=0, description="time of the search; then the best so far is taken")
    diversity: int | None = Field(
        default=None, ge=2, description="different values of each sensitive column in a class, at least"
    )
    closeness: float | None = Field(
        default=None, gt=0, le=1, description="distance of a class's sensitive values from the table's, at most"
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        check_search(self.metric, self.weights, self.local)
        return self

    @property
    def constraint(self) -> Constraint | None:
        return Constraint.given(self.diversity, self.closeness)

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        return (EqualRecords(self.k, tuple(sets)),)

    def reading(self, kind: Kind) -> Reading:
        return "level"

    def learn(self, T: Array, groups: Partition, records: Records) -> RecodingTable:
        classes = records.classes
        if classes is None:
            raise ParameterError("recode-search: the rows must be seen as classes", hint='basis = { use = "codes" }')
        unknown = [name for name in self.weights or {} if name not in classes.names]
        if unknown:
            faults = [f"weights: column {name!r} is not among the columns of the mask" for name in unknown]
            raise ParameterError("\n".join(faults))
        beside = [T]
        if records.sensitive is not None:
            beside.append(records.sensitive.codes)
        if records.person_numbers is not None:
            beside.append(records.person_numbers[:, None])
        patterns = Patterns.of(namespace(T).concatenate(beside, axis=1))
        return RecodingTable(
            classes.names,
            (patterns,),
            tuple(to_host(table) for table in classes.ancestors),
            classes.shares,
            () if records.sensitive is None else tuple(to_host(table) for table in records.sensitive.table),
            () if records.sensitive is None else records.sensitive.ordered,
            () if records.sensitive is None else records.sensitive.nulls,
            records.person_numbers is not None,
            self.constraint,
        )

    def conclude(self, summary: RecodingTable) -> Recoding:
        allowed = int(self.limit * summary.records + 1e-9)
        return search_recoding(summary.prepared(), self.k, allowed, self.metric, self.weights, self.local, self.seconds)

    def findings(self, learned: Recoding) -> Mapping[str, Any]:
        rounds = [dict(zip(learned.names, one.found.node, strict=True)) for one in learned.rounds]
        return {
            "levels": rounds[0] if not self.local else rounds,
            "loss": learned.loss,
            "nodes_checked": sum(one.found.checked for one in learned.rounds),
            "search_proven": all(one.found.proven for one in learned.rounds),
        }

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        classes, learned = records.classes, records.learned
        assert classes is not None
        assert isinstance(learned, Recoding)
        number = rounds_of(T, classes.ancestors, learned)
        rows = namespace(T).flatnonzero(number >= 0)
        released, number = T[rows], number[rows]
        nodes = [one.found.node for one in learned.rounds]
        columns = [
            _released(released[:, j], number, classes.ancestors[j], j, [node[j] for node in nodes])
            for j in range(T.shape[1])
        ]
        return Recoded(columns, rows=rows, facts={"rows_suppressed": len(T) - len(rows)})


def _released(codes: Array, number: Array, ancestors: Array, column: int, depths: Sequence[int]) -> NewColumn:
    """One column, whose rows are at the depth of their round."""
    if len(set(depths)) == 1 or len(ancestors) == 0:
        return NewColumn(column, recode(codes, ancestors, depths[0]), depths[0])
    xp = namespace(codes)
    nodes = xp.cumsum(ancestors.max(axis=0) + 1)
    out = xp.full(len(codes), -1, dtype=np.int64)
    for at, depth in enumerate(depths):
        own = recode(codes, ancestors, depth)
        own = xp.where(own < 0, -1, own + (nodes[depth - 1] if depth else 0))
        out = xp.where(number == at, own, out)
    return NewColumn(column, out, None)
