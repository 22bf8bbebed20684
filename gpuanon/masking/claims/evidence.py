"""What claims are judged by: what a mask did to the rows of a cell, and counts that merge over cells."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from gpuanon.arrays.backend import HOST, Array, Backend, Host, namespace


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
