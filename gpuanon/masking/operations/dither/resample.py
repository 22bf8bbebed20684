"""Resampling with replacement: a record receives the values of a random member of its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from gpuanon.arrays.backend import Array
from gpuanon.arrays.partition import Partition
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.drawn_claims import DrawnFromGroup
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.dither.resampling import resample
from gpuanon.masking.outcomes import Moved
from gpuanon.tables.schema import Kind


class Resample(Operation):
    """The values of a random member of the group, with replacement: keeps the distribution in expectation."""

    claim: ClassVar[type[Claim] | None] = DrawnFromGroup

    use: Literal["resample"] = "resample"

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return True

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        return Moved(resample(groups, records.draws, records.weights))
