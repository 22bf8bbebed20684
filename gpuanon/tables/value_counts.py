"""How often each value occurs: exact for few distinct values, a bounded sketch for many, mergeable either way.

Values are truncated to the most leading bits that leave at most `LIMIT` distinct ones.  Truncations are nested and
the number of distinct values falls with every bit, so the result depends on the values only, not on the order or the
partitioning of the rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host

LIMIT = 1 << 16
_BITS = 64


@dataclass(frozen=True, eq=False, repr=False)
class ValueCounts:
    """Distinct values, ascending, and their counts.

    keys   : (m,) uint64, ordered as the values are, lowest `cut` bits zero
    counts : (m,) int64
    cut    : number of truncated bits; 0 means exact
    """

    keys: Host
    counts: Host
    cut: int = 0

    @classmethod
    def of(cls, values: Host) -> ValueCounts:
        """Count finite float64 `values` (n,)."""
        keys, counts = np.unique(_to_keys(values), return_counts=True)
        return _bounded(keys, counts.astype(np.int64), 0)

    def merge(self, other: ValueCounts) -> ValueCounts:
        """The counts of both sets of values together."""
        cut = max(self.cut, other.cut)
        keys = np.concatenate([_cut(self.keys, cut), _cut(other.keys, cut)])
        return _bounded(*_gather(keys, np.concatenate([self.counts, other.counts])), cut)

    @property
    def values(self) -> Host:
        """(m,) the values: themselves when exact, the lower end of each bin otherwise."""
        return _to_values(self.keys)


def _to_keys(values: Host) -> Host:
    """Map float64 to uint64 so that order is kept (the bits of negative numbers are inverted)."""
    bits = (np.ascontiguousarray(values, dtype=np.float64) + 0.0).view(np.uint64)  # + 0.0: −0 becomes 0
    return np.where(bits >> np.uint64(63), ~bits, bits | np.uint64(1 << 63))


def _to_values(keys: Host) -> Host:
    """The inverse of `_to_keys`."""
    return np.where(keys >> np.uint64(63), keys & np.uint64((1 << 63) - 1), ~keys).view(np.float64)


def _cut(keys: Host, bits: int) -> Host:
    """Set the lowest `bits` bits to zero."""
    return keys & np.uint64((1 << _BITS) - (1 << bits))


def _gather(keys: Host, counts: Host) -> tuple[Host, Host]:
    """Merge equal keys."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    starts = np.flatnonzero(np.concatenate([np.ones(min(1, len(keys)), dtype=bool), keys[1:] != keys[:-1]]))
    return keys[starts], np.add.reduceat(counts, starts) if len(starts) else counts


def _bounded(keys: Host, counts: Host, cut: int) -> ValueCounts:
    """Truncate the fewest bits, at least `cut`, that leave at most `LIMIT` distinct keys; `keys` are sorted."""
    if len(keys) <= LIMIT:
        return ValueCounts(keys, counts, cut)
    # Neighbours become equal once the highest bit in which they differ is truncated.
    differing = np.ceil(np.log2((keys[1:] ^ keys[:-1]).astype(np.float64) + 1)).astype(np.int64)
    distinct = len(keys) - np.cumsum(np.bincount(differing, minlength=_BITS + 1))
    low = max(cut, int(np.argmax(distinct <= LIMIT)) - 1)  # - 1: rounding of log2 may overshoot by one
    while True:
        shorter = _gather(_cut(keys, low), counts)
        if len(shorter[0]) <= LIMIT:
            return ValueCounts(*shorter, low)
        low += 1
