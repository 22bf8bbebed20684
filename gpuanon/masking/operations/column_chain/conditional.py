"""One column given those before it: records divided into leaves, from which its value is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition, sort_within


@dataclass(frozen=True, eq=False, repr=False)
class Conditional:
    """The distribution of a column given others: in each leaf that of the records there.

    column  : its place among the columns that are drawn
    codes   : (n,) of the column in the records, −1 for a null
    members : the records of each leaf, ascending by their code
    find    : the leaf (m,) of new rows, whose columns so far it is given; those not yet drawn are empty
    """

    column: int
    codes: Host
    members: Partition
    find: Callable[[Sequence[Host]], Host]

    @classmethod
    def of(cls, column: int, codes: Host, leaves: Host, find: Callable[[Sequence[Host]], Host]) -> Conditional:
        """By the leaf (n,) of each record, from 0; no leaf is empty."""
        order = np.lexsort((codes, leaves))
        starts = np.searchsorted(leaves[order], np.arange(int(leaves.max(initial=-1)) + 2))
        return cls(column, codes, Partition(order, starts), find)

    def draw(self, leaves: Host, u: Host, even: bool) -> Host:
        """(m,) codes of records of these leaves; `u` (m,) uniform numbers, `even` as in `pick_records`."""
        picks = pick_records(leaves, self.members.sizes, u, even)
        return np.asarray(self.codes[self.members.order[self.members.starts[leaves] + picks]])

    def kept_without_one(self, leaves: Host, drawn: Host) -> Host:
        """(m,) how much less likely each drawn code is when one of the records that have it is left out of its leaf.

        With c of s records: [(c − 1) / (s − 1)] / [c / s], and 0 in a leaf of one record.
        """
        key = self._key(leaves, drawn)
        c = np.searchsorted(self._keys, key, side="right") - np.searchsorted(self._keys, key, side="left")
        s = self.members.sizes[leaves]
        c = np.maximum(c, 1)
        return np.asarray((c - 1) * s / (np.maximum(s - 1, 1) * c))

    @cached_property
    def _keys(self) -> Host:
        """(n,) a number for the leaf and the code of each record, ascending."""
        return np.sort(self._key(self.members.part_of_sorted(), self.codes[self.members.order]))

    def _key(self, leaves: Host, codes: Host) -> Host:
        return np.asarray(leaves * (int(self.codes.max(initial=0)) + 2) + codes + 1)


def whole_table(rows: Sequence[Host]) -> Host:
    """(m,) the one leaf of a column that depends on none."""
    return np.zeros(len(rows[0]), dtype=np.int64)


def pick_records(leaves: Host, sizes: Host, u: Host, even: bool) -> Host:
    """(m,) which of the records of its leaf, from 0, each new row draws; `sizes` are those of the leaves.

    even : draw the records of a leaf equally often, to one, in random order: as likely as otherwise, and with less
           sampling error.  Copies then vary less than independent samples
    """
    if not even:
        return np.asarray((u * sizes[leaves]).astype(np.int64))
    # Systematic sampling: the rows of a leaf, in random order, take its records at equal steps from a random start.
    parts = Partition.from_labels(leaves)
    part = parts.part_of_sorted()
    order = sort_within(u, parts)
    start = u[parts.order[parts.starts[:-1]]]  # of the lowest row, whose place in the order matters little
    step = (np.arange(len(u)) - parts.starts[part] + start[part]) / parts.sizes[part]
    out = np.empty(len(u), dtype=np.int64)
    out[order] = (step * sizes[leaves[order]]).astype(np.int64)
    return out
