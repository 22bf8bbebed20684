"""Draws from the records of the nearest classes.

The literature [1]_ draws from the records of the class itself.  A class that needs rows has fewer than k: its added
rows would repeat the values of these few records and so disclose them.  Donors are therefore records of the nearest
other classes, each of them once.

References
----------
.. [1] O. Angiuli, J. Waldo (2016), Statistical tradeoffs between generalization and suppression in the
   de-identification of large-scale data sets, COMPSAC.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.normal_quantile import normal_quantile
from gpuanon.arrays.partition import Partition
from gpuanon.errors import GuaranteeError
from gpuanon.numerics.equal_rows import equal_rows

NOISE = 0.025
"""Deviation of the noise that hides a mean, as a share of the column's range (0.025 for a grade from 0 to 1)."""


@dataclass(frozen=True, repr=False)
class ClassDonors:
    """The records from which rows that are added to classes receive values.

    order : (d,) rows that may give values, in ascending order of their codes, columns from left to right
    low   : (m,) places in `order` where those of the added row's own class begin, which are left out
    own   : (m,) how many these are
    first : (m,) the place of the first donor, the own class left out
    width : number of donors, the same for all
    nth   : (m,) added rows of the same class before this one
    """

    order: Host
    low: Host
    own: Host
    first: Host
    width: int
    nth: Host

    @classmethod
    def of(cls, codes: Host, parents: Host, k: int, persons: Host | None = None) -> ClassDonors:
        """The 2 k nearest records of other classes, in the order of their codes, or all that there are.

        codes   : (n, columns) of the rows of a cell; equal codes are a class
        parents : (m,) rows beside which rows are added, those of a class one after the other
        persons : (n,) whose rows they are: then one row of each person, the first, may give values

        Refuses fewer than k donors.  Cost : sorts of the classes by each column, and of the rows.
        """
        classes = Partition.from_labels(equal_rows(codes))
        rank = np.empty(classes.parts, dtype=np.int64)
        rank[np.lexsort(codes[classes.order[classes.starts[:-1]]].T[::-1])] = np.arange(classes.parts)
        places = rank[classes.labels()]
        allowed = np.arange(len(codes)) if persons is None else np.sort(np.unique(persons, return_index=True)[1])
        order = allowed[np.argsort(places[allowed], kind="stable")]
        ends = np.searchsorted(places[order], np.arange(classes.parts + 1))
        wanted = places[parents]
        low, own = ends[wanted], ends[wanted + 1] - ends[wanted]
        others = len(order) - own
        if len(parents) and int(others.min()) < k:
            raise GuaranteeError(
                f"synthetic-rows: a class has fewer than k = {k} records of other classes beside it, from which its"
                " added rows could be filled; nothing was written",
                hint='fill = "tree", or mask more rows at once',
            )
        width = min(2 * k, int(others.min(initial=2 * k)))
        new = np.ones(len(parents), dtype=bool)
        new[1:] = wanted[1:] != wanted[:-1]
        begins = np.flatnonzero(new)
        nth = np.arange(len(parents)) - np.repeat(begins, np.diff(np.append(begins, len(parents))))
        return cls(order, low, own, np.clip(low - width // 2, 0, others - width), width, nth)

    def rows(self, u: Host) -> Host:
        """(m,) for each added row a donor, by `u` (m,): no donor twice for up to `width` added rows of a class."""
        start = (u[np.arange(len(u)) - self.nth] * self.width).astype(np.int64)
        return self._at((start + self.nth) % self.width)

    def means(self, values: Host, u: Host) -> Host:
        """(m,) the mean of `values` (n,) of all donors of each added row, and normal noise.

        NaN where the donor that `rows` draws has no value, so that as many are missing.
        """
        known = ~np.isnan(values)
        if not known.any():
            return np.full(len(u), np.nan)
        total, count = np.zeros(len(u)), np.zeros(len(u))
        for place in range(self.width):
            given = values[self._at(np.full(len(u), place))]
            count += ~np.isnan(given)
            total += np.nan_to_num(given)
        means = np.divide(total, count, out=np.full(len(u), np.nan), where=known[self.rows(u)])
        low, high = values[known].min(), values[known].max()
        return np.asarray(np.clip(means + NOISE * (high - low) * normal_quantile(u), low, high))

    def _at(self, place: Host) -> Host:
        """(m,) the rows at these places among the donors of each added row."""
        at = self.first + place
        return np.asarray(self.order[at + np.where(at >= self.low, self.own, 0)])
