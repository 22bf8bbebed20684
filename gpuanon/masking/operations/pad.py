"""Synthetic rows: rows are added to classes that are too small.

References
----------
.. [1] A. Fried, K. Vamvourellis, synthetic rows for k-anonymity: minimum numbers of rows with nulls as values and as
   wildcards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.masking.claims import Claim, EqualRecords
from gpuanon.masking.contract import Moved, Operation, Records, RowEffect, Sight
from gpuanon.masking.people import persons_per_part
from gpuanon.numerics.compatible import covering_counts
from gpuanon.numerics.equal_rows import equal_rows


def pad(codes: Array, groups: Partition, k: int, persons: Array | None = None) -> Array:
    """(m,) the row beside which each added row is made, so that no class of `codes` (n, columns) has fewer than k rows.

    A class is a set of equal rows of one group; a null is a value.  A class of s < k rows receives k − s rows, the
    fewest that will do; the j-th is made beside member ``j mod s``.  Classes follow each other as `equal_rows` numbers
    them.

    persons : (n,) whose rows they are, numbered from 0: then persons are counted, and an added row is one of its own

    Cost : one sort of n numbers; memory O(n + m).
    """
    found = Partition.from_labels(equal_rows(codes, groups.labels()))
    return _parents(found, namespace(codes).maximum(k - persons_per_part(found, persons), 0))


def pad_maximal(codes: Array, k: int) -> Array:
    """`pad` when a null matches every value: afterwards at least k rows have all values of each row.

    Rows are added only to maximal classes: those whose values no other class has together with more.  A class that is
    not maximal is covered by one that is.  This is the minimum if only combinations that occur may be added [1].

    Cost : that of `covering_counts`.
    """
    xp = namespace(codes)
    found = Partition.from_labels(equal_rows(codes))
    covering = covering_counts(codes[found.order[found.starts[:-1]]], found.sizes)
    return _parents(found, xp.where(covering == found.sizes, xp.maximum(k - found.sizes, 0), 0))


def _parents(classes: Partition, missing: Array) -> Array:
    """(m,) members of the classes, in turn, as many as are `missing` (g,) from each."""
    xp = namespace(missing)
    ends = xp.cumsum(missing)
    number = xp.arange(int(ends[-1]) if len(ends) else 0, dtype=np.int64)
    owner = xp.searchsorted(ends, number, side="right")
    nth = number - (ends - missing)[owner]
    return classes.order[classes.starts[owner] + nth % classes.sizes[owner]]


class Pad(Operation):
    """Rows are added to classes with fewer than k records, equal to them on the columns of the mask.

    With wildcards rows are added to maximal classes only: at least k released rows then have all values of each.
    """

    sees: ClassVar[Sight] = "classes"
    rows: ClassVar[RowEffect] = "added"

    use: Literal["pad"] = "pad"
    k: int = Field(ge=2, description="records of a class, at least")
    fill: Literal["marginal"] = Field(
        default="marginal", description="other columns of an added row: marginal = the value of a random row, by column"
    )

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        return (EqualRecords(self.k, tuple(sets)),)

    def apply(self, T: Array, groups: Partition, records: Records) -> Moved:
        xp = namespace(T)
        wildcard = records.classes is not None and records.classes.wildcard
        parents = pad_maximal(T, self.k) if wildcard else pad(T, groups, self.k, records.persons)
        source = xp.concatenate([xp.arange(len(T), dtype=np.int64), parents])
        return Moved(source, rows=source, added=len(parents), facts={"rows_synthetic": len(parents)})
