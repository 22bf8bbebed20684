"""Resampling with replacement: a record receives the values of a random member of its group."""

from __future__ import annotations

from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither.resampling import resample
from gpuanon.masking.outcomes import Moved


class Resample(Operation):
    """The values of a random member of the group, with replacement: keeps the distribution in expectation."""

    claim: ClassVar[type[Claim] | None] = DrawnFromGroup
    by_weight: ClassVar[bool] = True

    use: Literal["resample"] = "resample"

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        return Moved(resample(groups, records.draws, records.weights))
