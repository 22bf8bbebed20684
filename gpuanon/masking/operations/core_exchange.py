"""Exchange of values: each column, or all columns together, permuted among the records of a group.

With groups of records that are equal on core columns this is core-variable swapping; with groups of similar records it
is swapping within clusters.  Values are moved and never computed: the values of each column and group are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, shuffle_within
from gpuanon.arrays.rng import Draws
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.tables.schema import Kind


def exchange(codes: Array, groups: Partition, draws: Draws, together: bool = False) -> Array:
    """(n, columns) codes, each column permuted uniformly at random inside each group, or all by one permutation.

    Every table of one column against what defines the groups is kept exactly; with `together`, every table of any
    columns.

    Cost : one sort of n numbers for each permutation.
    """
    out = namespace(codes).empty_like(codes)
    if together:
        return codes[shuffle_within(draws.keys(), groups)]
    for j in range(codes.shape[1]):
        out[:, j] = codes[shuffle_within(draws.child(str(j)).keys(), groups), j]
    return out


class Exchange(Operation):
    """Values are permuted inside each group: column by column, or whole records."""

    sees: ClassVar[Sight] = "classes"

    use: Literal["exchange"] = "exchange"
    together: bool = Field(default=False, description="all columns by one permutation, instead of each by its own")

    def moves_rows(self, kinds: Sequence[Kind | None]) -> bool:
        return self.together

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        codes = exchange(T, groups, records.draws.child("exchange"), self.together)
        return Recoded([NewColumn(j, codes[:, j]) for j in range(codes.shape[1])])
