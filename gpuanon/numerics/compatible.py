"""How many records match each record when a null matches every value.

Records are given as distinct patterns of codes with their counts.  Patterns are joined by equal keys on the columns
that two null masks have in common, never pair by pair.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_sums
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
    xp = namespace(patterns)
    masks, members = _null_masks(patterns)
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


def covering_counts(patterns: Array, counts: Array) -> Array:
    """(p,) int64 number of records that have all values of each pattern, itself included, and any elsewhere.

    A pattern is maximal, in the sense that no other has its values and more, where this is its own count.  Parameters
    and cost are those of `compatible_counts`.
    """
    xp = namespace(patterns)
    masks, members = _null_masks(patterns)
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
