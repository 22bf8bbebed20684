"""Cell dither: noise that stays inside the cells of a group's own values (section 3.2.1 of [1]).

Space is cut into rectangular cells, one round each combination of observed values.  A record draws a cell of its
group, a point inside the cell, and Rosenblatt's transformation takes the point to the distribution of the table.

.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition, segment_maxima, segment_sums, sort_within
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.operations.dither.empirical import (
    cell_cdfs,
    check_weights,
    conditional_inverse,
    quantile_place,
    resample,
    running_weights,
    runs,
)


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


_MARGIN = 2.0**-20  # of a cell's width that points keep from its faces, so that rounding cannot cross them


def cell_dither(T: Array, groups: Partition, draws: Draws, weights: Array | None = None, merged: bool = False) -> Array:
    """(n,) the row whose values each record receives.

    Eq. 10 of [1]: a cell is drawn with the share that its values have in the record's group, a point uniformly
    inside it; the forward conditional distribution functions are piecewise linear.  Theorem 1: the point's cell
    comes back, so that the release equals resampling with replacement.

    With `merged` (one column; eq. 11, Corollary 1) neighbouring cells that belong in full to one group are one
    cell, and the transformation chooses among the values inside it.

    Weights : (n,) at least 0, and above 0 somewhere in every group; or None for all 1.
    Draws   : 1 + d uniform numbers per record.
    Cost    : O(d n log n), whatever the groups.
    """
    xp = namespace(T)
    check_weights(weights)
    if weights is not None and not bool((segment_maxima(weights, groups) > 0).all()):
        raise ParameterError("weights: a cell dither needs a weight above 0 in every group")
    if merged and T.shape[1] != 1:
        raise ParameterError(
            f"dither: merged cells are defined for one column, got {T.shape[1]}", hint="use the plain cell dither"
        )
    values = value_ranks(T)
    cells = merged_cells(values[:, 0], groups)[:, None] if merged else values
    member = resample(groups, draws.child("cell"), weights)
    inside = xp.clip(draws.child("inside").uniform(T.shape[1]), _MARGIN, 1 - _MARGIN)
    u = cell_cdfs(cells[member] + inside, cells, weights)
    return conditional_inverse(u, values, Partition.whole(len(T), like=values), weights)


def value_ranks(T: Array) -> Array:
    """(n, d) int64 rank, from 0, of each value among the distinct values of its column."""
    xp = namespace(T)
    ranks = xp.empty(T.shape, dtype=np.int64)
    for j in range(T.shape[1]):
        ranks[:, j] = xp.unique(T[:, j], return_inverse=True)[1].reshape(-1)
    return ranks


def merged_cells(values: Array, groups: Partition) -> Array:
    """(n,) int64 merged cell of each row: runs of neighbouring values that belong in full to one group.

    values : (n,) int64 ranks of the distinct values, from 0
    """
    xp = namespace(values)
    by_value = Partition.from_labels(values)
    labels = groups.labels()
    owner = labels[by_value.order[by_value.starts[:-1]]]
    shared = segment_sums((labels != owner[values]).astype(np.int64), by_value) > 0
    same = (owner[1:] == owner[:-1]) & ~shared[1:] & ~shared[:-1]
    return xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(~same)])[values]
