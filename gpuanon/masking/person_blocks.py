"""Persons with several records: groups are formed of persons, and every record follows its person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Backend, Host, namespace
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Groups
from gpuanon.numerics.metric import Metric

_GRID = 1 << 24
"""Steps per unit of the grid on which rows of a person are added up; encoded columns have a deviation of about 1."""


@dataclass(frozen=True, repr=False)
class People:
    """Whose rows they are.

    index : (n,) int64 the person of each row, numbered from 0 in the order of their first rows
    first : (p,) int64 the first row of each person
    numbers : (n,) int64 person number of each row, the same in all cells
    """

    index: Array
    first: Array
    numbers: Array

    @classmethod
    def of(cls, persons: Host, backend: Backend) -> People:
        """From person numbers (n,); the order is that of the rows, so that persons of one row each change nothing."""
        _, first, place = np.unique(persons, return_index=True, return_inverse=True)
        order = np.argsort(first, kind="stable")
        rank = np.empty(len(order), dtype=np.int64)
        rank[order] = np.arange(len(order))
        index = backend.upload(rank[place.reshape(-1)])
        return cls(index, backend.upload(first[order].astype(np.int64)), backend.upload(persons))

    def points(self, X: Array, metric: Metric) -> Array:
        """(p, d) mean row of each person; under Gower's metric a category, which has no mean, is that of the first.

        Sums are of whole numbers, so that ties fall alike on host and device; a person's only row stays as it is.
        """
        xp = namespace(X)
        own = Partition.from_labels(self.index)
        sums = segment_sums(xp.rint(X * _GRID).astype(np.int64), own)
        means = (sums / (own.sizes[:, None] * _GRID)).astype(X.dtype)
        means = xp.where(own.sizes[:, None] == 1, X[self.first], means)
        if metric.categorical is not None:
            flags = xp.asarray(np.asarray(metric.categorical, dtype=bool))
            means = xp.where(flags[None, :], X[self.first], means)
        return xp.ascontiguousarray(means)

    def expanded(self, groups: Partition) -> Partition:
        """The partition of the rows that follows from one of the persons."""
        return Partition.from_labels(groups.labels()[self.index])

    def form(self, groups: Groups, X: Array, draws: Draws, metric: Metric) -> Partition:
        """Groups of persons; the draws of a person are those of the first record."""
        return self.expanded(groups.form(self.points(X, metric), draws.take(self.first), metric))


def persons_per_part(groups: Partition, persons: Array | None) -> Array:
    """(g,) different persons in each part; rows where `persons` (n,), numbered from 0, is None.

    Cost : one sort of n numbers.
    """
    if persons is None:
        return groups.sizes
    xp = namespace(persons)
    pairs = xp.unique(groups.labels() * (persons.max() + 1) + persons) if len(persons) else persons
    return xp.bincount(pairs // (persons.max() + 1), minlength=groups.parts) if len(persons) else groups.sizes
