"""Minimal sample uniques: the smallest sets of columns on which a record is alone.

A set of columns M is minimal unique for a record that is alone on M and on no proper subset of M [1].

References
----------
.. [1] A. M. Manning, D. J. Haglin, J. A. Keane (2008), A recursive search algorithm for statistical disclosure
       assessment, Data Min. Knowl. Disc. 16, 165–196.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.numerics.equal_rows import equal_rows

ColumnSet = tuple[int, ...]

_COUNTED = 8  # times as many possible classes as rows may be counted by place; more are sorted


def minimal_uniques(codes: Array, size: int) -> Iterator[tuple[ColumnSet, Array]]:
    """For each set of at most `size` columns the rows, ascending, that are minimal unique on it; sets without any are
    left out.

    codes : (n, p) int64, equal where values are equal; negative for a null, which nobody knows: a set is looked at in
            the rows that have values in all of its columns, as in sdcMicro

    Rows that are alone on a subset are alone on every superset, so they are neither candidates there nor companions
    of other rows: they are left out before the superset's classes are counted.

    Cost : O(n) for each of the Σ C(p, s) sets, by counting where few classes are possible, else one sort of n numbers.
           Memory O(n) numbers, and one bit per row and set.
    """
    xp = namespace(codes)
    n, p = codes.shape
    columns = [_dense(codes[:, j]) for j in range(p)]
    missing = [xp.packbits(codes < 0) for codes, _ in columns]
    alone: dict[ColumnSet, Array] = {}  # rows that are alone on a set or on one of its subsets, as bits
    for s in range(1, min(size, p) + 1):
        found: dict[ColumnSet, Array] = {}
        for chosen in combinations(range(p), s):
            known = xp.zeros_like(missing[0])
            for subset in combinations(chosen, s - 1) if s > 1 else ():
                known |= alone[subset]
            left_out = known.copy()
            for j in chosen:
                left_out |= missing[j]
            rows = xp.flatnonzero(xp.unpackbits(~left_out)[:n])
            new = rows[_alone([(columns[j][0][rows], columns[j][1]) for j in chosen])]
            if len(new):
                yield chosen, new
                flags = xp.zeros(n, dtype=bool)
                flags[new] = True
                known |= xp.packbits(flags)
            found[chosen] = known
        alone = found


def _dense(column: Array) -> tuple[Array, int]:
    """Codes from 0 without gaps, −1 for null, and how many there are."""
    xp = namespace(column)
    there = column >= 0
    out = xp.full(len(column), -1, dtype=np.int64)
    if not bool(there.any()):
        return out, 0
    codes = equal_rows(column[there][:, None])
    out[there] = codes
    return out, int(codes.max()) + 1


def _alone(columns: list[tuple[Array, int]]) -> Array:
    """(m,) whether a row's combination of codes occurs once.  Each column: codes from 0, and how many there are."""
    xp = namespace(columns[0][0])
    key, width = columns[0]
    for codes, count in columns[1:]:
        if width * count > 2**62:  # keep the product inside 64 bits
            key = equal_rows(key[:, None])
            width = int(key.max()) + 1 if len(key) else 1
        key, width = key * count + codes, width * count
    if len(key) == 0:
        return xp.zeros(0, dtype=bool)
    if width <= _COUNTED * len(key):
        return xp.bincount(key, minlength=1)[key] == 1
    order = xp.argsort(key, kind="stable")
    sorted_ = key[order]
    same = sorted_[1:] == sorted_[:-1]
    single = xp.ones(len(key), dtype=bool)
    single[1:] &= ~same
    single[:-1] &= ~same
    out = xp.empty(len(key), dtype=bool)
    out[order] = single
    return out
