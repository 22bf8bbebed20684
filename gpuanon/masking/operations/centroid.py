"""Every record is released with its group's centre (microaggregation), or with the range or set of its values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_means, segment_minima, sort_within
from gpuanon.errors import ParameterError
from gpuanon.masking.claims import Claim
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.contract import Gives, Operation, Sight
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed, NewColumn, Recoded
from gpuanon.tables.schema import Kind, Reading


def centroid(X: Array, groups: Partition) -> Array:
    """(n, d) mean row of each record's group.

    On indicator columns the mean is the share of each category, so that decoding by the largest share
    gives the mode; ties go to the lowest category code.

    Guarantee : records of one group are equal to the bit.
    """
    return groups.spread(segment_means(X, groups))


def median(X: Array, groups: Partition) -> Array:
    """(n, d) median of each column over each record's group (mean of the two middle values)."""
    xp = namespace(X)
    low = groups.starts[:-1] + (groups.sizes - 1) // 2
    high = groups.starts[:-1] + groups.sizes // 2
    centres = xp.empty((groups.parts, X.shape[1]), dtype=X.dtype)
    for j in range(X.shape[1]):
        ordered = X[:, j][sort_within(X[:, j], groups)]
        centres[:, j] = 0.5 * (ordered[low] + ordered[high])
    return groups.spread(centres)


def midpoint(X: Array, groups: Partition) -> Array:
    """(n, d) middle of the range of each column over each record's group."""
    low, high = segment_minima(X, groups), segment_maxima(X, groups)
    return groups.spread(0.5 * low + 0.5 * high)


CENTRES = {"median": median, "midpoint": midpoint}


class Centroid(Operation):
    """The centre of the group: mean (or median, or middle of the range) of numbers, mode of categories."""

    claim: ClassVar[type[Claim] | None] = EqualRecords
    by_column: ClassVar[bool] = True
    gives: ClassVar[Gives] = "centres"

    use: Literal["centroid"] = "centroid"
    centre: Literal["mean", "median", "midpoint"] = "mean"

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        centres = centroid(T, groups)
        if self.centre != "mean":
            centre = CENTRES[self.centre]
            for j, categorical in enumerate(records.categorical or (False,) * T.shape[1]):
                if not categorical:
                    centres[:, j : j + 1] = centre(T[:, j : j + 1], groups)
        return Changed(centres)


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
