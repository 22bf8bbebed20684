"""Interval: each record is released with the range, or the set, of the values of its group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_minima
from gpuanon.errors import ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.contract import Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import NewColumn, Recoded
from gpuanon.tables.schema import Kind, Reading

_ABOVE_ALL = np.iinfo(np.int32).max


def bounds(codes: Array, groups: Partition) -> tuple[Array, Array]:
    """(g, columns) int64 smallest and largest code of each group, nulls (−1) left out.

    Where all values of a group are null, both are −1.  Codes are below 2³¹.
    """
    xp = namespace(codes)
    narrow = codes.astype(np.int32)  # what a device can reduce
    high = segment_maxima(narrow, groups).astype(np.int64)
    low = segment_minima(xp.where(narrow < 0, _ABOVE_ALL, narrow), groups).astype(np.int64)
    return xp.where(high < 0, -1, low), high


def member_sets(codes: Array, groups: Partition, values: int) -> Array:
    """(g, values + 1) bool: which codes (n,) each group holds; the last column stands for a null.

    Memory : groups × values.
    """
    xp = namespace(codes)
    members = xp.zeros((groups.parts, values + 1), dtype=bool)
    members[groups.labels(), xp.where(codes < 0, values, codes)] = True
    return members


class GroupInterval(Operation):
    """The range of the group's values for numbers, dates and ordered levels; their set for categories.

    A range covers the values that are there.  It does not say whether a record's own value is missing: only a group
    without any value has null bounds.  A set says whether a value of the group is missing: the last column of
    `NewColumn.members` stands for a null.

    A label is random text, a function of the key, the run and the released values of the class: an intruder learns
    nothing from it that the values do not say, neither an order nor which classes were neighbours.  Groups that are
    released with the same values are one class, and have one label.
    """

    sees: ClassVar[Sight] = "classes"

    use: Literal["interval"] = "interval"
    form: Literal["columns", "column"] = Field(
        default="columns",
        description="columns: NAME_low and NAME_high; column: one column NAME of intervals, which a CSV cannot hold",
    )
    label: str | None = Field(
        default=None, min_length=1, description="name of a further column: random text, the same in a class"
    )

    @property
    def class_label(self) -> str | None:
        return self.label

    def claims(self, k: int | None, sets: Sequence[tuple[str, ...]]) -> tuple[Claim, ...]:
        if k is None:
            return ()
        label = () if self.label is None else (self.label,)
        return (EqualRecords(k, tuple((*columns, *label) for columns in sets)),)

    def reading(self, kind: Kind) -> Reading:
        if kind == "categorical":
            return "set"
        return "interval" if self.form == "columns" else "interval-column"

    def apply(self, T: Array, groups: Partition, records: Records) -> Recoded:
        classes, labels = records.classes, groups.labels()
        if classes is None:
            raise ParameterError("interval: the rows must be seen as classes", hint='basis = { use = "codes" }')
        low, high = bounds(T, groups)
        columns = []
        for j, ordered in enumerate(classes.ordered):
            if ordered:
                columns += [NewColumn(j, low[labels, j]), NewColumn(j, high[labels, j])]
            else:
                members = member_sets(T[:, j], groups, len(classes.ancestors[j]))
                columns.append(NewColumn(j, labels, members=members))
        return Recoded(columns)
