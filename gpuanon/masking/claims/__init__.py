"""What a release promises: one class for each promise, and the evidence by which it is judged.

A claim states something of the released rows, checks it, and can fail.  `check` looks at the rows of one cell as they
go into a mask and come out of it; evidence of all cells is merged; `conclude` judges the whole, with the sizes of the
classes that were counted on what is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, TypeAlias

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Backend, Host, namespace
from gpuanon.errors import GuaranteeError
from gpuanon.tables.rows import ADDED, Rows
from gpuanon.tables.schema import Unit


@dataclass(frozen=True, repr=False)
class Trace:
    """What a mask did to the rows of one cell.

    groups   : number of groups; of all columns together where each has groups of its own
    smallest : rows of the smallest group, or persons where there are any
    labels   : (n,) the group of each row; None where each column has groups of its own
    rows     : (m,) the row that each released row stands for, or beside which it was made
    source   : (m,) the row whose values each released row received; None when values were computed
    weights  : (n,) sample weights of the rows, or None
    minima   : what the operation reports besides, of which the smallest stands
    persons  : (n,) whose rows they are, or None
    backend  : where values are to be compared
    """

    groups: int
    smallest: int
    rows: Host
    labels: Host | None = None
    source: Host | None = None
    weights: Host | None = None
    minima: Mapping[str, int] = field(default_factory=dict)
    persons: Host | None = None
    backend: Backend = HOST

    def of_more(self, n: int, chosen: Host, persons: Host | None) -> Trace:
        """The same where these rows are the rows `chosen` of n, and the others are in no group (label −1)."""
        labels, weights = None, None
        if self.labels is not None:
            labels = np.full(n, -1, dtype=np.int64)
            labels[chosen] = self.labels
        if self.weights is not None:
            weights = np.zeros(n)
            weights[chosen] = self.weights
        source = None if self.source is None else chosen[self.source]
        return replace(self, rows=chosen[self.rows], labels=labels, source=source, weights=weights, persons=persons)

    @property
    def smallest_drawn(self) -> int:
        """Members of the smallest group from whom values can be drawn: those of a weight above 0."""
        if self.weights is None or self.labels is None:
            return self.smallest
        drawn = np.flatnonzero(self.weights > 0)
        if self.persons is not None:  # each person of a group once
            _, first = np.unique(np.stack([self.labels, self.persons])[:, drawn], axis=1, return_index=True)
            drawn = drawn[first]
        counts = np.bincount(self.labels[drawn], minlength=int(self.labels.max(initial=-1)) + 1)
        return int(counts.min(initial=len(self.labels)))

    @property
    def torn(self) -> int:
        """Persons whose rows are in several groups."""
        if self.persons is None or self.labels is None:
            return 0
        pairs = np.unique(np.stack([self.persons, self.labels]), axis=1)
        return int((np.unique(pairs[0], return_counts=True)[1] > 1).sum())


@dataclass(frozen=True)
class Evidence:
    """Counts of one cell, or of several that were merged.

    sums   : counts that add up
    minima : counts of which the smallest stands
    maxima : figures of which the largest stands
    """

    sums: Mapping[str, int] = field(default_factory=dict)
    minima: Mapping[str, int] = field(default_factory=dict)
    maxima: Mapping[str, float] = field(default_factory=dict)

    def merge(self, other: Evidence) -> Evidence:
        """The evidence of both."""
        return Evidence(
            {name: value + other.sums[name] for name, value in self.sums.items()},
            {name: min(value, other.minima[name]) for name, value in self.minima.items()},
            {name: max(value, other.maxima[name]) for name, value in self.maxima.items()},
        )


def distinct_count(ascending: Array) -> int:
    """How many different numbers there are in `ascending` (n,)."""
    return int(namespace(ascending).count_nonzero(ascending[1:] != ascending[:-1])) + (len(ascending) > 0)


def all_among(ascending: Array, allowed: Array) -> bool:
    """Whether every number of `ascending` (n,) is in `allowed` (m,), which ascends too."""
    if len(ascending) == 0 or len(allowed) == 0:
        return len(ascending) == 0
    xp = namespace(ascending)
    place = xp.minimum(xp.searchsorted(allowed, ascending), len(allowed) - 1)
    return bool((allowed[place] == ascending).all())


def occurs_once(ascending: Array) -> Array:
    """(n,) whether a number of `ascending` (n,) is there only once."""
    new = namespace(ascending).ones(len(ascending) + 1, dtype=bool)
    new[1:-1] = ascending[1:] != ascending[:-1]
    return new[:-1] & new[1:]


Figure: TypeAlias = "int | float | str | bool | list[Figure] | dict[str, Figure] | None"


ColumnSet: TypeAlias = tuple[str, ...]


@dataclass(frozen=True)
class Counted:
    """Classes that are to be counted on what is written.

    columns  : on which the records of a class are equal
    wildcard : whether a null matches every value, so that a record counts for every class that it is compatible with
    covered  : with wildcards: a record counts only for those whose values it has, all of them
    unit     : what is counted.  A written file does not say whose its records are: persons are counted in the store
    """

    columns: ColumnSet
    wildcard: bool = False
    unit: Unit = "record"
    covered: bool = False

    @property
    def of_records(self) -> Counted:
        """The same classes, counted in records."""
        return replace(self, unit="record")


@dataclass(frozen=True)
class Guarantee:
    """A statement about the release, and the figures it was verified with.

    verified : True, or None where nothing is promised
    """

    statement: str
    k: int | None
    verified: bool | None
    figures: dict[str, Figure] = field(default_factory=dict)

    def to_json(self) -> dict[str, Figure]:
        return {"statement": self.statement, "k": self.k, "verified": self.verified, **self.figures}


@dataclass(frozen=True)
class Claim:
    """A promise about the released columns.

    k    : that it speaks of
    sets : released columns that share their groups: one set, or one per column
    unit : what k counts
    """

    needs_labels: ClassVar[bool] = False

    k: int
    sets: tuple[ColumnSet, ...]
    unit: Unit = "record"

    @property
    def units(self) -> str:
        """What k counts, in words."""
        return f"{self.unit}s"

    @property
    def statement(self) -> str:
        """The promise in words."""
        raise NotImplementedError

    @property
    def counted(self) -> tuple[Counted, ...]:
        """The classes that are to be counted on what is written."""
        return ()

    def with_wildcards(self) -> Claim:
        """The same claim where a null matches every value."""
        return self

    @property
    def columns(self) -> ColumnSet:
        """All columns that it speaks of."""
        return tuple(name for columns in self.sets for name in columns)

    def lasts(self, changed: Collection[str]) -> bool:
        """Whether it speaks of the release, though later masks change these columns."""
        return not any(name in changed for name in self.columns)

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        """Check what can be checked in one cell; refuse by `GuaranteeError`."""
        return Evidence({"groups": trace.groups}, {"smallest_group": trace.smallest})

    def conclude(self, evidence: Evidence, smallest: Mapping[Counted, int]) -> Guarantee:
        """Judge the whole release.

        evidence : merged, of all cells
        smallest : rows of the smallest class of each of `counted`, as written
        """
        return Guarantee(self.statement, self.k, True, {"groups": evidence.sums["groups"], **evidence.minima})


@dataclass(frozen=True)
class RowsAccounted:
    """Every record is released once, or not at all, or stands for nothing: as the operation declares.

    effect : see `gpuanon.masking.contract.RowEffect`
    """

    effect: str

    def check(self, before: Rows, trace: Trace, after: Rows) -> Evidence:
        """Compare the record numbers before and after, of one cell."""
        kept = after.records
        if self.effect == "kept" and np.array_equal(kept, before.records) and bool((kept[1:] > kept[:-1]).all()):
            return Evidence({"rows_in": len(before), "rows_out": len(after)})  # nothing moved, and no number twice
        if self.effect == "new":
            kept = kept[kept < ADDED]
        elif self.effect == "added":  # rows that an earlier mask added are kept as well
            kept = kept[(kept < ADDED) | np.isin(kept, before.records)]
        kept = np.sort(kept)
        require(distinct_count(kept) == len(kept), "a record was released twice")
        if self.effect == "new":
            require(len(kept) == 0, "a released row stands for a record, and none should")
        else:
            there = all_among(kept, np.sort(before.records))
            require(there, "a released row stands for a record that is not there")
        if self.effect in ("kept", "added"):
            require(len(kept) == len(before), f"{len(before)} rows went in and {len(kept)} of them came out")
        if self.effect == "kept":
            require(len(after) == len(before), f"{len(before)} rows went in and {len(after)} came out")
        return Evidence({"rows_in": len(before), "rows_out": len(after)})


def no_promise(columns: Sequence[str]) -> Guarantee:
    """The guarantee of a mask that claims nothing."""
    names = ", ".join(columns)
    return Guarantee(f"no formal guarantee on {names}: the measured risk is the evidence", None, None)


def require(kept: bool, fault: str) -> None:
    """Refuse the release unless `kept`."""
    if not kept:
        raise GuaranteeError(f"the guarantee does not hold: {fault}; nothing was written")
