"""Quantile bins of continuous columns inside blocks, and sampling inside a bin."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, sort_within
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.masking.operations.dither.empirical import quantile_place, running_weights, runs


def bin_codes(X: Array, blocks: Partition, bins: int) -> Array:
    """(n, d) int64 bin of each value inside its block, ascending with the value.

    A column with at most `bins` distinct values in a block keeps each value as a bin of its own; otherwise a value
    goes to the bin that the share of lower values in the block gives.  Equal values share a bin.
    """
    xp = namespace(X)
    codes = xp.empty(X.shape, dtype=np.int64)
    part = blocks.part_of_sorted()
    begin, sizes = blocks.starts[:-1][part], blocks.sizes[part]

    def work(j: int) -> None:
        order = sort_within(X[:, j], blocks)
        starts, run = runs(_new_values(X[order, j], part))
        rank = run - run[begin]
        distinct = run[blocks.starts[1:] - 1] - run[blocks.starts[:-1]] + 1
        by_share = (starts[run] - begin) * bins // sizes
        codes[order, j] = xp.where((distinct <= bins)[part], rank, by_share)

    each(work, range(X.shape[1]))
    return codes


def sample_inside(
    X: Array, codes: Array, source: Array, blocks: Partition, draws: Draws, weights: Array | None = None
) -> Array:
    """(n, d) values drawn, column by column, inside the bins that row ``source[i]`` lies in.

    One of the bin's values is drawn in proportion to `weights`, then a point between the midpoints to its
    neighbours in the bin; a bin of one value gives that value.

    Draws : 2 d uniform numbers per record.
    """
    xp = namespace(X)
    n, d = X.shape
    part = blocks.part_of_sorted()
    chance = draws.uniform(2 * d)
    sampled = xp.empty_like(X)
    place_of = xp.empty(n, dtype=np.int64)
    for j in range(d):
        order = sort_within(X[:, j], blocks)
        place_of[order] = xp.arange(n, dtype=np.int64)
        values = X[order, j]
        starts, run = runs(_new_values(codes[order, j], part))
        own = run[place_of[source]]
        low, high = starts[own], starts[own + 1]
        running = None if weights is None else running_weights(weights[order], blocks)
        place = quantile_place(chance[:, 2 * j], low, high, running)
        left = 0.5 * (values[xp.maximum(place - 1, low)] + values[place])
        right = 0.5 * (values[xp.minimum(place + 1, high - 1)] + values[place])
        sampled[:, j] = left + chance[:, 2 * j + 1] * (right - left)
    return sampled


def _new_values(ordered: Array, part: Array) -> Array:
    """(n,) True where a value or a part differs from the place before."""
    xp = namespace(ordered)
    new = xp.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]) | (part[1:] != part[:-1])
    return new
