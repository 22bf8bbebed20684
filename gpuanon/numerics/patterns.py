"""Distinct combinations of codes with their counts: what a search over recodings has to know of a table.

Recoding works on combinations, not on records: a table of millions of records often has some ten thousand of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.numerics.equal_rows import equal_rows

_ROOM = 1 << 62  # keys stay below this


@dataclass(frozen=True, eq=False, repr=False)
class Patterns:
    """Combinations of codes, on the host; those of several cells are merged.

    codes  : (p, c) int64, distinct; −1 is a null
    counts : (p,) int64 records of each
    """

    codes: Host
    counts: Host

    @classmethod
    def of(cls, codes: Array, counts: Array | None = None) -> Patterns:
        """Count equal rows of `codes` (n, c), on the device where they are; `counts` (n,) stand for so many each.

        Cost : see `equal_rows`, and one sort of n numbers.
        """
        xp = namespace(codes)
        found = Partition.from_labels(equal_rows(codes))
        sizes = found.sizes if counts is None else segment_sums(counts, found)
        first = codes[found.order[found.starts[:-1]]]
        whole = to_host(xp.concatenate([first, sizes[:, None]], axis=1))
        return cls(np.ascontiguousarray(whole[:, :-1]), np.ascontiguousarray(whole[:, -1]))

    @classmethod
    def merged(cls, pieces: Sequence[Patterns]) -> Patterns:
        """The combinations of all pieces."""
        if len(pieces) == 1:
            return pieces[0]
        codes = np.concatenate([piece.codes for piece in pieces])
        return cls.of(codes, np.concatenate([piece.counts for piece in pieces]))

    @property
    def records(self) -> int:
        """Records of all combinations together."""
        return int(self.counts.sum())


def null_last(ancestors: Host) -> Host:
    """(values + 1, depths) `ancestors` with a line for a null, which is a value of its own at every depth.

    The code of a null, −1, picks the last line.
    """
    own = ancestors.max(axis=0, initial=-1)[None] + 1
    return np.concatenate([ancestors, own])


def classes_at(columns: Sequence[Host], widths: Sequence[int]) -> tuple[Host, int]:
    """(p,) int64 class of each combination, and how many numbers there are: equal on all `columns` (p,), from 0.

    widths : for each column a number that its codes, from 0, stay below

    Keys have mixed radix; before they would pass 62 bits, those so far are numbered anew.  Numbers without a
    combination occur where few keys are possible.
    """
    key, room = np.zeros(len(columns[0]) if columns else 0, dtype=np.int64), 1
    for codes, width in zip(columns, widths, strict=True):
        if width <= 1:
            continue
        if room > _ROOM // width:
            key, room = _numbered(key)
        key = key * width
        key += codes
        room *= width
    return (key, room) if room <= 4 * len(key) + 1024 else _numbered(key)


def _numbered(key: Host) -> tuple[Host, int]:
    """Distinct keys numbered from 0."""
    order = np.argsort(key)
    ordered = key[order]
    new = np.concatenate([[False], ordered[1:] != ordered[:-1]]) if len(key) else np.zeros(0, bool)
    number = np.empty(len(key), dtype=np.int64)
    number[order] = np.cumsum(new)
    return number, int(new.sum()) + 1
