"""Constraints of groups on the sensitive values that they hold: ℓ-diversity and t-closeness.

A group that misses its constraint is united with the group nearest to it, until every group holds.

References
----------
.. [1] A. Machanavajjhala, D. Kifer, J. Gehrke, M. Venkitasubramaniam (2007), l-Diversity, ACM TKDD 1(1).
.. [2] N. Li, T. Li, S. Venkatasubramanian (2007), t-Closeness, ICDE '07.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_means, segment_minima
from gpuanon.errors import GuaranteeError
from gpuanon.numerics.closeness import distinct_values, equal_distance, ordered_distance
from gpuanon.numerics.distance.distance import k_nearest

ROUNDING = 1e-9
"""By which a distance may exceed its bound: sums over thousands of levels are right to about so much."""


@dataclass(frozen=True)
class Constraint:
    """What every group must hold, in each sensitive column.

    diversity : different values, at least, a null not counted; None for no bound
    closeness : distance of the group's distribution from the whole table's, at most; None for no bound
    """

    diversity: int | None = None
    closeness: float | None = None

    @classmethod
    def given(cls, diversity: int | None, closeness: float | None) -> Constraint | None:
        """The constraint, or None where nothing is bounded."""
        return None if diversity is None and closeness is None else cls(diversity, closeness)

    def __str__(self) -> str:
        said = [f"{self.diversity} different values of each sensitive column"] if self.diversity is not None else []
        said += [f"a distance of at most {self.closeness:g}"] if self.closeness is not None else []
        return " and ".join(said)


@dataclass(frozen=True)
class Spread:
    """What every group must hold of the values that it is formed by.

    least   : values of each of `columns` that differ by at least its ε, at least
    columns : table columns, and ε of each in standard deviations of the encoded column
    """

    least: int
    columns: tuple[tuple[str, float], ...]


@dataclass(frozen=True, repr=False)
class Sensitive:
    """The sensitive columns of some rows, and of the whole table.

    codes   : (n, columns) int64 rank of each value among those of its column in the whole table
    table   : for each column (levels,) rows of each value in the whole table
    ordered : for each column whether the order of its values means something
    nulls   : for each column whether the first of its values is a null, which is none of the values that differ
    """

    codes: Array
    table: tuple[Array, ...]
    ordered: tuple[bool, ...]
    nulls: tuple[bool, ...]


def failing(groups: Partition, sensitive: Sensitive, constraint: Constraint, counts: Array | None = None) -> Array:
    """(g,) whether each group misses the constraint in some column.

    counts : (n,) rows that each row stands for; None: itself

    Cost : one sort of n numbers per column.
    """
    xp = namespace(sensitive.codes)
    labels = groups.labels()
    fails = xp.zeros(groups.parts, dtype=bool)
    for at, (table, ordered) in enumerate(zip(sensitive.table, sensitive.ordered, strict=True)):
        values = sensitive.codes[:, at]
        if constraint.diversity is not None:
            missing = values == 0 if sensitive.nulls[at] else None
            fails |= distinct_values(labels, values, missing) < constraint.diversity
        if constraint.closeness is not None:
            distance = (ordered_distance if ordered else equal_distance)(labels, values, table, counts)
            fails |= distance > constraint.closeness + ROUNDING
    return fails


def unite_failing(groups: Partition, X: Array, sensitive: Sensitive, constraint: Constraint) -> Partition:
    """Unite groups that miss the constraint with the nearest groups; see `unite_while`.

    X : (n, d) the rows as points
    """
    return unite_while(groups, X, lambda now: failing(now, sensitive, constraint), str(constraint))


def unite_while(groups: Partition, X: Array, fails: Callable[[Partition], Array], wanted: str) -> Partition:
    """Unite groups that fail with the nearest groups, by the distance of centroids, until none does.

    X      : (n, d) the rows as points
    fails  : (g,) whether each group fails; all rows together must not
    wanted : what was asked for, in words

    In every round each failing group proposes to its nearest group.  A group accepts the nearest proposal only; a group
    that proposes accepts none, except that of two groups that propose to each other the one of lower number accepts.

    Guarantee : every group holds; groups are united whole, so none becomes smaller.  When all rows together fail, that
        is an error.
    Cost      : per round a search of the nearest of g centroids for each group that fails, and sorts of n numbers.
    """
    while True:
        failed = fails(groups)
        if not bool(failed.any()):
            return groups
        if groups.parts == 1:
            raise GuaranteeError(
                f"the constraint does not hold for all {groups.n} records together: {wanted} were asked for",
                hint="lower diversity or epsilon, raise closeness, or mask more rows at once",
            )
        joins = _joins(segment_means(X, groups), failed)
        groups = Partition.from_labels(joins[groups.labels()])


def separated_values(values: Array, groups: Partition, epsilon: float, least: int) -> Array:
    """(g,) how many values of each group differ by at least `epsilon` from one another, counted up to `least`.

    The largest such set is found from the smallest value upwards.

    Cost : `least` passes over the rows.
    """
    xp = namespace(values)
    labels = groups.labels()
    last = segment_minima(values, groups)
    count = xp.ones(groups.parts, dtype=np.int64)
    for _ in range(least - 1):
        ahead = xp.where(values >= last[labels] + epsilon, values, np.inf)
        last = segment_minima(ahead, groups)
        count += xp.isfinite(last)
    return count


def _joins(centres: Array, fails: Array) -> Array:
    """(g,) the group that each joins in this round; itself where it stays."""
    xp = namespace(centres)
    number = xp.arange(len(centres), dtype=np.int64)
    at = xp.flatnonzero(fails)
    distance, index = k_nearest(centres[at], centres, 2)
    itself = index[:, 0] == at
    wish = number.copy()
    wish[at] = xp.where(itself, index[:, 1], index[:, 0])
    far = xp.zeros(len(centres), dtype=distance.dtype)
    far[at] = xp.where(itself, distance[:, 1], distance[:, 0])
    mutual = fails & (wish[wish] == number)
    stays = ~fails | (mutual & (number < wish))
    moving = xp.flatnonzero(~stays & stays[wish])
    if not len(moving):  # equal distances made a ring: the lowest group that fails joins its neighbour
        moving = at[:1]
    moving = moving[xp.argsort(far[moving], kind="stable")]
    moving = moving[xp.argsort(wish[moving], kind="stable")]
    first = xp.ones(len(moving), dtype=bool)
    first[1:] = wish[moving][1:] != wish[moving][:-1]
    joins = number.copy()
    joins[moving[first]] = wish[moving[first]]
    return joins
