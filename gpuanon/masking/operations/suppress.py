"""Suppression: rows of classes that are too small are not released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.errors import ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords, FewDropped
from gpuanon.masking.constraints import Constraint, failing
from gpuanon.masking.contract import Operation, RowEffect, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Moved
from gpuanon.masking.person_blocks import persons_per_part
from gpuanon.numerics.compatible import compatible_counts
from gpuanon.numerics.equal_rows import equal_rows


def suppress(codes: Array, groups: Partition, k: int, persons: Array | None = None) -> Array:
    """(m,) ascending rows that share their `codes` (n, columns) with at least k − 1 other rows of their group.

    persons : (n,) whose rows they are, numbered from 0: then a combination of codes needs k persons, not k rows

    Guarantee : each combination of codes that is left is shared by at least k rows, or persons.
    Cost      : one sort of n numbers.
    """
    found = Partition.from_labels(equal_rows(codes, groups.labels()))
    return namespace(codes).flatnonzero(persons_per_part(found, persons)[found.labels()] >= k)


def suppress_incompatible(codes: Array, k: int) -> Array:
    """(m,) ascending rows that are left when those with fewer than k compatible rows are dropped, until none has.

    A null matches every value.  Dropping a row lowers the counts of others, so the rows are counted again; what is
    left is the largest set of rows in which each has k compatible ones, whatever the order of dropping.

    Cost : that of `compatible_counts` for every round.
    """
    xp = namespace(codes)
    found = Partition.from_labels(equal_rows(codes))
    patterns, counts = codes[found.order[found.starts[:-1]]], found.sizes
    left = xp.arange(len(patterns), dtype=np.int64)
    while len(left):
        enough = compatible_counts(patterns[left], counts[left]) >= k
        if bool(enough.all()):
            break
        left = left[enough]
    kept = xp.zeros(len(patterns), dtype=bool)
    kept[left] = True
    return xp.flatnonzero(kept[found.labels()])


class Suppress(Operation):
    """Rows of classes with fewer than k records are dropped; with wildcards, rows with fewer than k compatible ones."""

    sees: ClassVar[Sight] = "classes"
    rows: ClassVar[RowEffect] = "dropped"

    use: Literal["suppress"] = "suppress"
    k: int = Field(ge=2, description="records of a class, at least")
    diversity: int | None = Field(
        default=None, ge=2, description="different values of each sensitive column in a class, at least"
    )
    closeness: float | None = Field(
        default=None, gt=0, le=1, description="distance of a class's sensitive values from the table's, at most"
    )

    limit: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="share of the records that may be dropped; a release that drops more is refused",
    )

    @property
    def constraint(self) -> Constraint | None:
        return Constraint.given(self.diversity, self.closeness)

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        few = () if self.limit is None else (FewDropped(self.k, tuple(sets), most=self.limit),)
        return (EqualRecords(self.k, tuple(sets)), *few)

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        wildcard = records.classes is not None and records.classes.wildcard
        kept = suppress_incompatible(T, self.k) if wildcard else suppress(T, groups, self.k, records.persons)
        if self.constraint is not None:
            if wildcard:
                raise ParameterError('diversity, closeness: classes need nulls as a value, nulls = "category"')
            assert records.sensitive is not None
            found = Partition.from_labels(equal_rows(T, groups.labels()))
            fails = failing(found, records.sensitive, self.constraint)
            kept = kept[~fails[found.labels()[kept]]]
        return Moved(kept, rows=kept, facts={"rows_suppressed": len(T) - len(kept)})
