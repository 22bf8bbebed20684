"""New rows from the distribution of largest entropy that has the moments of the table."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Changed, Operation, Records, RowEffect
from gpuanon.numerics.maximum_entropy import MaximumEntropy, MomentSums


class LargestEntropy(Operation):
    """New rows; means, products of pairs and powers of columns have the means that they have in the table.

    Values lie inside the range of their column, unless it has about two values; those are decoded to the nearer one.
    Categories are decoded by the largest indicator.  So the moments hold for numbers of many values.
    """

    rows: ClassVar[RowEffect] = "new"
    learns: ClassVar[bool] = True

    use: Literal["maximum-entropy"] = "maximum-entropy"
    degree: int = Field(default=2, ge=2, le=4, description="highest power of a column whose mean is kept")

    def learn(self, T: Array, groups: Partition, records: Records) -> MomentSums:
        _require_one_group(groups)
        return MomentSums.of(T, self.degree)

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        _require_one_group(groups)
        sums = records.learned
        assert isinstance(sums, MomentSums)
        draws = records.draws.child("maximum-entropy")
        values = MaximumEntropy.fit(sums, self.degree, draws).sample(draws, T) if len(T) else T
        return Changed(values, rows=namespace(T).arange(len(T), dtype=np.int64), added=len(T))


def _require_one_group(groups: Partition) -> None:
    """Refuse several groups: summaries of cells are merged, and groups of different cells do not correspond."""
    if groups.parts > 1:
        raise ParameterError(
            f"maximum-entropy: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
        )
