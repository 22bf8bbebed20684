"""Cells of contingency tables: columns in bins, and how many records, or people, each cell holds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device, to_host
from gpuanon.arrays.partition import Partition, segment_sums
from gpuanon.arrays.threads import each
from gpuanon.assessing.weighting import quantiles
from gpuanon.errors import ParameterError

Counted: TypeAlias = Sequence[tuple[tuple[int, ...], Host, Host]]
"""What `tables` gives, in a list."""
CellWeights: TypeAlias = tuple[Array, Array] | None
"""People that each row of original and release stands for."""

_DENSE = 1 << 22  # possible cells that are counted in an array


def binned(original: Array, release: Array, bins: int = 10, weights: Array | None = None) -> tuple[Array, Array]:
    """Codes of numeric columns: bins of equal counts in the original, missing values a bin of their own.

    weights : people that each row of the original stands for, by whom bins are equal; None for 1 each
    """
    if bins < 1:
        raise ParameterError(f"bins: 1 or more are allowed, got {bins}")
    xp = namespace(original)
    codes = [xp.empty(table.shape, dtype=np.int32) for table in (original, release)]

    def fill(j: int) -> None:
        there = ~xp.isnan(original[:, j])
        there = there if weights is None else there & (weights > 0)
        known, own = original[:, j][there], None if weights is None else weights[there]
        cuts = xp.unique(quantiles(known, xp.arange(1, bins) / bins, own)) if len(known) else xp.empty(0)
        for table, out in zip((original, release), codes, strict=True):
            column = xp.ascontiguousarray(table[:, j])
            out[:, j] = xp.where(xp.isnan(column), bins, xp.searchsorted(cuts, column, side="left"))

    each(fill, range(original.shape[1]))
    return codes[0], codes[1]


def tables(
    original: Array, release: Array, ways: int, weights: CellWeights = None
) -> Iterator[tuple[tuple[int, ...], Host, Host]]:
    """Each set of `ways` columns, with the counts of its occupied cells in original and release, or sums of weights."""
    coded = [_dense(original[:, j], release[:, j]) for j in range(original.shape[1])]
    for columns in combinations(range(original.shape[1]), min(ways, original.shape[1])):
        before, after, levels = coded[columns[0]]
        for j in columns[1:]:
            next_before, next_after, next_levels = coded[j]
            before, after = before * next_levels + next_before, after * next_levels + next_after
            levels *= next_levels
            if levels > _DENSE:
                before, after, levels = _dense(before, after)
        sides = zip((before, after), weights or (None, None), strict=True)
        counts = [counts_of(cells, levels, own) for cells, own in sides]
        occupied = (counts[0] > 0) | (counts[1] > 0)
        yield columns, counts[0][occupied].astype(float), counts[1][occupied].astype(float)


def counts_of(cells: Array, levels: int, weights: Array | None) -> Host:
    """(levels,) rows in each cell, or the sum of their weights; on a device in an order that repeats."""
    if weights is None or not on_device(cells):
        return np.asarray(to_host(namespace(cells).bincount(cells, weights=weights, minlength=levels)))
    rows, out = Partition.from_labels(cells), np.zeros(levels)
    out[to_host(cells[rows.order[rows.starts[:-1]]])] = to_host(segment_sums(weights, rows))
    return out


def _dense(before: Array, after: Array) -> tuple[Array, Array, int]:
    """Codes from 0 up, the same in both."""
    places, levels = dense(namespace(before).concatenate([before, after]))
    return places[: len(before)], places[len(before) :], levels


def dense(codes: Array) -> tuple[Array, int]:
    """Codes from 0 up in the same order, and how many there are: by counting where their range is small."""
    xp = namespace(codes)
    low, high = (int(codes.min()), int(codes.max())) if len(codes) and codes.dtype.kind in "iu" else (0, _DENSE)
    if high - low >= min(_DENSE, 4 * len(codes)):
        levels, places = xp.unique(codes, return_inverse=True)
        return places.reshape(-1), len(levels)
    moved = codes - low
    number = xp.cumsum(xp.bincount(moved, minlength=high - low + 1) > 0) - 1
    return number[moved], int(number[-1]) + 1
