"""How many records match each record when a null matches every value.

Records are given as distinct patterns of codes with their counts.  Patterns are joined by equal keys on the columns
that two null masks have in common, never pair by pair.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device, to_host
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.arrays.threads import each
from gpuanon.numerics.equal_rows import equal_rows, packed

_ROWS = 1 << 20  # keys that are joined at once, unless there are more patterns


def compatible_counts(patterns: Array, counts: Array) -> Array:
    """(p,) int64 number of records that are compatible with each pattern, itself included.

    Two records are compatible when they are equal on every column that is null in neither.

    Parameters
    ----------
    patterns : (p, c) int64 codes; −1 is a null
    counts   : (p,) int64 records of each pattern

    Notes
    -----
    Cost : O(m · p log p) for m different null masks; memory O(p c).
    """
    masks, members = _null_masks(patterns)
    keys = _Keys.of(patterns, counts, masks, members)
    return _compatible_by_rows(patterns, counts, masks, members) if keys is None else keys.compatible()


def covering_counts(patterns: Array, counts: Array) -> Array:
    """(p,) int64 number of records that have all values of each pattern, itself included, and any elsewhere.

    A pattern is maximal, in the sense that no other has its values and more, where this is its own count.  Parameters
    and cost are those of `compatible_counts`.
    """
    masks, members = _null_masks(patterns)
    keys = _Keys.of(patterns, counts, masks, members)
    return _covering_by_rows(patterns, counts, masks, members) if keys is None else keys.covering()


@dataclass(frozen=True, eq=False, repr=False)
class _Keys:
    """Patterns as sums of one whole number per column, so that their values on some columns are a sum of fewer.

    terms  : for each column (p,) int64, 0 for a null; equal sums mean equal values.  Patterns of a mask are adjacent
    counts : (p,) records of each
    order  : (p,) the pattern at each place
    masks  : (m, c) on the host, True where there is a value
    starts : (m + 1,) on the host, where the patterns of each mask begin
    """

    terms: tuple[Array, ...]
    counts: Array
    order: Array
    masks: Host
    starts: Host

    @classmethod
    def of(cls, patterns: Array, counts: Array, masks: Array, members: Partition) -> _Keys | None:
        """Keys of mixed radix; None where 62 bits do not hold them, and on a device, which sorts rows at once."""
        if on_device(patterns):
            return None
        widths = [int(top) + 2 for top in to_host(patterns.max(axis=0))] if len(patterns) else []
        if not widths or math.prod(widths) > 1 << 62:
            return None
        ordered, stride, terms = patterns[members.order], 1, []
        for j, width in enumerate(widths):
            terms.append((ordered[:, j] + 1) * stride)
            stride *= width
        return cls(tuple(terms), counts[members.order], members.order, to_host(masks), to_host(members.starts))

    def rows(self, mask: int) -> slice:
        """The places of the patterns of a mask."""
        return slice(int(self.starts[mask]), int(self.starts[mask + 1]))

    def at(self, columns: Iterable[int], rows: slice) -> Array:
        """(rows,) keys of the values on these columns."""
        total = namespace(self.counts).zeros(rows.stop - rows.start, dtype=np.int64)
        for j in columns:
            total += self.terms[j][rows]
        return total

    def covering(self) -> Array:
        """(p,) see `covering_counts`: each pattern of a wider mask is looked up by its values on the narrower one."""

        def of_mask(number: int) -> Array:
            own, columns = self.rows(number), np.flatnonzero(self.masks[number]).tolist()
            wanted = self.at(columns, own)
            total = namespace(wanted).zeros(len(wanted), dtype=np.int64)
            order = namespace(wanted).argsort(wanted)
            ascending = wanted[order]
            for at in np.flatnonzero((self.masks >= self.masks[number]).all(axis=1)).tolist():
                if at != number:
                    total += _sums_of(self.at(columns, self.rows(at)), ascending, self.counts[self.rows(at)])
            out = self.counts[own].astype(np.int64)
            out[order] += total
            return out

        return self._in_place(each(of_mask, range(len(self.masks))))

    def compatible(self) -> Array:
        """(p,) see `compatible_counts`: masks that share the same columns with a mask are joined with it at once."""

        def of_mask(number: int) -> Array:
            own = self.rows(number)
            shared = self.masks & self.masks[number]
            sets, which = np.unique(shared, axis=0, return_inverse=True)
            total = namespace(self.counts).zeros(own.stop - own.start, dtype=np.int64)
            for at, columns in enumerate(np.flatnonzero(chosen).tolist() for chosen in sets):
                others = [self.rows(int(mask)) for mask in np.flatnonzero(which.reshape(-1) == at)]
                xp = namespace(self.counts)
                keys = xp.concatenate([self.at(columns, rows) for rows in others])
                total += _matching(self.at(columns, own), keys, xp.concatenate([self.counts[rows] for rows in others]))
            return total

        return self._in_place(each(of_mask, range(len(self.masks))))

    def _in_place(self, found: list[Array]) -> Array:
        """The counts of all masks, in the order of the patterns."""
        xp = namespace(self.counts)
        out = xp.empty(len(self.order), dtype=np.int64)
        out[self.order] = xp.concatenate(found)
        return out


def _matching(wanted: Array, keys: Array, counts: Array) -> Array:
    """(w,) int64 sums of the `counts` of those `keys` that equal each of the `wanted` (w,); the fewer are sorted."""
    xp = namespace(keys)
    if len(keys) > len(wanted):
        ascending, place = xp.unique(wanted, return_inverse=True)
        return _sums_of(keys, ascending, counts)[place.reshape(-1)]
    found = Partition.from_labels(keys)
    sums, ascending = segment_sums(counts, found), keys[found.order[found.starts[:-1]]]
    place = xp.searchsorted(ascending, wanted)
    place[place == len(ascending)] = 0
    return xp.where(ascending[place] == wanted, sums[place], 0)


def _sums_of(keys: Array, ascending: Array, counts: Array) -> Array:
    """(w,) int64 sums of the `counts` of those `keys` that equal each of the distinct `ascending` (w,)."""
    xp = namespace(keys)
    place = xp.searchsorted(ascending, keys)
    place[place == len(ascending)] = 0
    hit = xp.flatnonzero(ascending[place] == keys)
    # Sums of whole numbers below 2^53 are exact in any order.
    return xp.bincount(place[hit], weights=counts[hit], minlength=len(ascending)).astype(np.int64)


def _compatible_by_rows(patterns: Array, counts: Array, masks: Array, members: Partition) -> Array:
    """`compatible_counts` of patterns on a device, or whose keys do not fit into a word."""
    xp = namespace(patterns)
    found = xp.zeros(len(patterns), dtype=np.int64)
    for number in range(len(masks)):
        rows = members.order[members.starts[number] : members.starts[number + 1]]
        shared = _distinct(masks & masks[number])
        projected = xp.where(masks[number], patterns, -1)
        step = max(1, max(_ROWS, len(patterns)) // len(rows))
        total = xp.zeros(len(rows), dtype=np.int64)
        for at in range(0, len(shared), step):
            # A projected pattern is null exactly outside of the columns that it shares, so equal keys share them all.
            keys = xp.where(shared[at : at + step, None], patterns[rows][None], -1)
            flat = keys.reshape(keys.shape[0] * keys.shape[1], keys.shape[2])
            total += _joined(flat, projected, counts).reshape(-1, len(rows)).sum(axis=0)
        found[rows] = total
    return found


def _covering_by_rows(patterns: Array, counts: Array, masks: Array, members: Partition) -> Array:
    """`covering_counts` of patterns on a device, or whose keys do not fit into a word."""
    xp = namespace(patterns)
    pattern_masks = patterns >= 0
    found = xp.zeros(len(patterns), dtype=np.int64)
    for number in range(len(masks)):
        rows = members.order[members.starts[number] : members.starts[number + 1]]
        wider = xp.flatnonzero((pattern_masks >= masks[number]).all(axis=1))
        projected = xp.where(masks[number], patterns[wider], -1)
        found[rows] = _joined(patterns[rows], projected, counts[wider])
    return found


def _null_masks(patterns: Array) -> tuple[Array, Partition]:
    """(m, c) the different masks, True where there is a value, and the patterns of each."""
    values = patterns >= 0
    members = Partition.from_labels(_mask_labels(values))
    return values[members.order[members.starts[:-1]]], members


def _distinct(masks: Array) -> Array:
    """The different rows of `masks` (m, c)."""
    members = Partition.from_labels(_mask_labels(masks))
    return masks[members.order[members.starts[:-1]]]


def _mask_labels(masks: Array) -> Array:
    """(m,) equal for equal rows of bits."""
    if masks.shape[1] == 0:
        return namespace(masks).zeros(len(masks), dtype=np.int64)
    return equal_rows(packed(masks))


def _joined(keys: Array, rows: Array, counts: Array) -> Array:
    """(len(keys),) sums of the `counts` of those `rows` that equal each key."""
    xp = namespace(keys)
    labels = equal_rows(xp.concatenate([rows, keys]))
    none = xp.zeros(len(keys), dtype=np.int64)
    sums = segment_sums(xp.concatenate([counts.astype(np.int64, copy=False), none]), Partition.from_labels(labels))
    return sums[labels[len(rows) :]]
