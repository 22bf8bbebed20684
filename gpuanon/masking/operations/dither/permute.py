"""Resampling: the values of a group are drawn again from its own, with or without replacement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima, sort_within
from gpuanon.arrays.rng import Draws
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither.empirical import check_weights, resample, running_weights
from gpuanon.masking.outcomes import Moved
from gpuanon.tables.schema import Kind


def permute(groups: Partition, draws: Draws, weights: Array | None = None) -> Array:
    """(n,) for each row the row of its own group whose values it takes: a permutation of every group.

    Without weights it is uniform over all permutations, and the released rows are the table's rows.

    With weights the members of a group lie twice along a circle as long as their total weight W: as receivers in
    ascending order of row, and as donors in a random order from a random start.  Each has an arc as long as its weight,
    and a receiver takes the donor at a random point of its arc.

    Guarantee : every member takes donor j with probability w_j / W, so the expected weighted distribution is that of
        the table.  The variance of the weight that any set of values receives is at most that of `resample`: it is
        Σ w_i² E[p_i (1 − p_i)], where p_i is the share of the set in the receiver's arc, and the mean of p_i is the
        set's share p of the group; resampling has p (1 − p).
    Equal weights : the arcs coincide (the start is then not drawn), and the result is the unweighted permutation.
    Zero weights  : such members are receivers only; a group whose weights are all 0 counts as unweighted.
    Draws         : two uniform numbers a record, and one for each group from its lowest row.
    Cost          : one sort of the rows; with weights a binary search for each row besides.
    """
    check_weights(weights)
    numbers = draws.uniform(1 if weights is None else 2)
    donors = sort_within(numbers[:, 0], groups)
    if weights is not None:
        starts = draws.child("start").take(groups.order[groups.starts[:-1]]).uniform(1)[:, 0]
        donors = donors[_donor_places(numbers[groups.order, 1], starts, donors, groups, weights)]
    source = namespace(donors).empty(groups.n, dtype=np.int64)
    source[groups.order] = donors
    return source


def _donor_places(u: Array, starts: Array, donors: Array, groups: Partition, weights: Array) -> Array:
    """(n,) for each place of ``groups.order`` the place of `donors` whose arc holds a point of the receiver's arc.

    u      : (n,) where in the receiver's arc the point is, in (0, 1)
    starts : (groups,) where in the circle of the group the donors start, in (0, 1)
    """
    xp, weights = namespace(weights), weights.astype(np.float64, copy=False)
    receiving = running_weights(weights[groups.order], groups)
    giving = running_weights(weights[donors], groups)  # equal to `receiving` where a group starts
    begins = receiving[groups.starts]
    totals = begins[1:] - begins[:-1]
    mixed = segment_minima(weights, groups) < segment_maxima(weights, groups)
    turns = xp.where(mixed, _below(starts, totals), 0)
    points = receiving[:-1] + _below(u, receiving[1:] - receiving[:-1])
    group = groups.part_of_sorted()
    begin = begins[group]
    points = begin + (points - begin + turns[group]) % totals[group]
    return xp.searchsorted(giving, points, side="right") - 1  # never an arc of length 0


def _below(u: Array, lengths: Array) -> Array:
    """Whole numbers from 0 to below `lengths`, at the share `u` of them; 0 for a length of 0."""
    xp = namespace(u)
    return xp.maximum(xp.minimum(xp.floor(u * lengths).astype(np.int64), lengths - 1), 0)


class Permute(Operation):
    """A random permutation of the values inside the group: keeps the distribution exactly.

    With sample weights the weighted distribution is kept, in expectation, and more closely than by resampling.
    """

    claim: ClassVar[type[Claim] | None] = DrawnFromGroup
    by_weight: ClassVar[bool] = True

    use: Literal["permute"] = "permute"

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return True

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        return Moved(permute(groups, records.draws, records.weights))


class Resample(Operation):
    """The values of a random member of the group, with replacement: keeps the distribution in expectation."""

    claim: ClassVar[type[Claim] | None] = DrawnFromGroup
    by_weight: ClassVar[bool] = True

    use: Literal["resample"] = "resample"

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return True

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        return Moved(resample(groups, records.draws, records.weights))
