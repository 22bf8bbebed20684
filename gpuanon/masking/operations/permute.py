"""Resampling without replacement: the values of a group are permuted among its members."""

from __future__ import annotations

from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition, shuffle_within
from gpuanon.arrays.rng import Draws
from gpuanon.masking.claims import Claim, DrawnFromGroup
from gpuanon.masking.contract import Moved, Operation, Records


def permute(groups: Partition, draws: Draws) -> Array:
    """(n,) for each row the row of its own group whose values it takes: a uniform permutation of every group.

    Guarantee : the released rows are the table's rows, so the empirical distribution is kept exactly.
    Weights   : they stay with their records and play no part, so it is the *unweighted* distribution that is kept;
        `resample` keeps the weighted one.
    """
    return shuffle_within(draws.uniform(1)[:, 0], groups)


class Permute(Operation):
    """A random permutation of the values inside the group: keeps the (unweighted) distribution exactly."""

    claim: ClassVar[type[Claim] | None] = DrawnFromGroup

    use: Literal["permute"] = "permute"

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        return Moved(permute(groups, records.draws))
