"""Blocks of near rows by balanced median cuts: what has quadratic cost takes linear time inside blocks."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, on_device
from gpuanon.arrays.batches import even_batches, padded_length
from gpuanon.arrays.compiled import use_loaded
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each, thread_count
from gpuanon.errors import ParameterError
from gpuanon.numerics.cuts.device_cuts import SAMPLE, blocks_cuda
from gpuanon.numerics.metric import EUCLIDEAN, Metric, weighted

_BATCH_ELEMENTS = 1 << 18
_PIECES = 4  # of a table for each thread, so that all are busy to the end
_ADDERS = 32
"""Slots of a sum over rows: it is taken in this many slots, which are then added by halving, on every device."""


def blocks(
    X: Array,
    within: Partition,
    size: int,
    metric: Metric = EUCLIDEAN,
    *,
    multiple: int = 1,
    batch_elements: int = _BATCH_ELEMENTS,
) -> Partition:
    """Cut the parts of `within` into blocks of at most `size` rows.

    A part of n rows becomes ``ceil(n / size)`` blocks whose sizes differ by no more than `multiple`.  It is cut in
    two along the column of largest variance, in proportion to the number of blocks on either side; the halves are cut
    in the same way.  Of equal values the lower rows go to the lower side.

    Parameters
    ----------
    X : (n, d) array
    within : the parts to cut
    size : most rows in a block
    metric : its weights scale the columns; categorical columns are cut only if there are no others
    multiple : all blocks of a part but one have a multiple of this number of rows, so that groups of that size fill
        them; `size` is rounded down to it
    batch_elements : padded elements (parts × length) of a batch; changes the speed, not the result

    Notes
    -----
    Cost : O(n · log(n / size)), all parts of a level in lock step.
    """
    if not 1 <= multiple <= size:
        raise ParameterError(f"size: at least {max(1, multiple)} is allowed, got {size}")
    if on_device(X):
        return blocks_cuda(X, within, size, metric, multiple)
    X = weighted(X, metric)
    units = -(-within.sizes // multiple)  # of `multiple` rows; the last unit of a part may be smaller
    leaves = -(-units // (size // multiple))
    if use_loaded(len(X) * int(leaves.max(initial=1)).bit_length()):
        return _blocks_compiled(X, within, units, leaves, multiple, metric)
    order, starts = within.order.copy(), within.starts
    while (leaves > 1).any():
        left_leaves = leaves // 2
        left_units = units * left_leaves // leaves
        splitting = leaves > 1
        _cut(X, Partition(order, starts), np.flatnonzero(splitting), left_units * multiple, metric, batch_elements)
        starts = np.union1d(starts, (starts[:-1] + left_units * multiple)[splitting])
        units = _interleave(left_units, units - left_units)
        leaves = _interleave(left_leaves, leaves - left_leaves)
    return Partition(order, starts)


def _blocks_compiled(
    X: Array, within: Partition, units: Array, leaves: Array, multiple: int, metric: Metric
) -> Partition:
    """The same blocks.  A table of few parts is cut into several pieces first, which all cores then cut further."""
    from gpuanon.numerics.cuts.compiled_cuts import cut_parts

    X = np.ascontiguousarray(X, dtype=np.float64)  # one type to compile for; the sums of any are taken in it
    order, bounds = within.order.copy(), within.starts
    categorical = np.asarray(metric.categorical or (False,) * X.shape[1])
    first = np.cumsum(leaves) - leaves
    starts = np.full(int(leaves.sum()) + 1, -1, dtype=np.int64)
    starts[-1] = len(order)

    def cut(chosen: slice, fewest: int) -> None:
        parts = (chosen.start, chosen.stop)
        cut_parts(X, order, bounds, units, leaves, first, parts, multiple, fewest, SAMPLE, categorical, starts)

    pieces = _PIECES * thread_count()
    if pieces > within.parts and thread_count() > 1:
        cut(slice(0, within.parts), max(1, len(starts) // pieces))
        first = np.flatnonzero(starts[:-1] >= 0)
        bounds, leaves = starts[np.append(first, len(starts) - 1)], np.diff(first, append=len(starts) - 1)
        units = -(-np.diff(bounds) // multiple)
    each(lambda chosen: cut(chosen, 1), ranges(len(first), max(1, len(first) // pieces)))
    return Partition(order, starts)


def _interleave(left: Array, right: Array) -> Array:
    """Left and right numbers alternately, without the zeros: a part that was not cut has no left side."""
    both = np.stack([left, right], axis=1).reshape(-1)
    return both[both > 0]


def _cut(X: Array, level: Partition, chosen: Array, cuts: Array, metric: Metric, batch_elements: int) -> None:
    """Rearrange ``level.order`` so that the first ``cuts[p]`` rows of each `chosen` part p are its lower side."""

    def run(batch: Batch) -> None:
        parts = batch.parts
        axis = _widest(X, level, parts, metric)
        lowest_first(X[batch.rows, axis[:, None]], batch, level.starts, cuts[parts], level.order)

    each(run, even_batches(level, chosen, batch_elements))


def _widest(X: Array, level: Partition, parts: Array, metric: Metric) -> Array:
    """(b,) the column of largest variance in each part, estimated from evenly spaced rows."""
    sizes = level.sizes[parts]
    sample = min(SAMPLE, int(padded_length(sizes)[0]))  # of the padded length, so the same for all parts of a batch
    picks = level.starts[parts][:, None] + np.arange(sample) * sizes[:, None] // sample
    values = X[level.order[picks]].astype(np.float64, copy=False)
    values -= (_slot_sums(values) / sample)[:, None]
    variance = _slot_sums(values * values) / sample
    if metric.categorical is not None:
        variance[:, np.asarray(metric.categorical)] = -1
    # The first of those that differ by rounding only.
    return (variance >= (1 - 1e-9) * variance.max(axis=1, keepdims=True)).argmax(axis=1)


def _slot_sums(values: Array) -> Array:
    """(b, d) sums of `values` (b, n, d) over rows, in the order of every device: by slots, which are then halved."""
    total = np.zeros((len(values), _ADDERS, values.shape[2]))
    for first in range(0, values.shape[1], _ADDERS):
        rows = values[:, first : first + _ADDERS]
        total[:, : rows.shape[1]] += rows
    while total.shape[1] > 1:
        half = total.shape[1] // 2
        total = total[:, :half] + total[:, half:]
    return total[:, 0]


def lowest_first(values: Array, batch: Batch, starts: Array, low: Array, order: Array) -> None:
    """Rearrange `order` so that the `low` (b,) rows of lowest value come first in each part of a batch.

    values : (b, length) one for each row of the batch; those of the padding are overwritten
    starts : where the parts of the partition begin in `order`
    """
    values[~batch.valid] = np.inf
    lower, offsets = _lowest(values, low), np.arange(values.shape[1])
    places, first = starts[batch.parts][:, None] + offsets, offsets < low[:, None]
    order[places[first]] = batch.rows[lower]
    order[places[~first & batch.valid]] = batch.rows[~lower & batch.valid]


def _lowest(values: Array, counts: Array) -> Array:
    """(b, length) True for the ``counts`` lowest values of each line; ties go to the first."""
    ranks = np.unique(counts - 1)
    ordered = np.partition(values, ranks, axis=1) if len(ranks) <= 4 else np.sort(values, axis=1)
    border = np.take_along_axis(ordered, (counts - 1)[:, None], axis=1)
    lower = values < border
    equal = values == border
    missing = counts - lower.sum(axis=1)
    lower |= equal & (np.cumsum(equal, axis=1) <= missing[:, None])
    return lower
