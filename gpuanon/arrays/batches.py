"""Parts in lock step: parts of a partition as padded (parts, length) batches, worked on together.

The padded length of a part depends on its own size only.  So what is computed for a part does not change, not even in
the last bit, with the other parts of its batch: neither the batch size nor the number of threads or machines changes a
result.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.segments import runs
from gpuanon.arrays.sorting import distinct

BATCH_ELEMENTS = 1 << 15
"""Padded elements (parts × length) of a batch: with some tens of columns they fit a core's cache."""

TILE = 1 << 12
"""Rows of a tile: long parts are processed in tiles where their rows are independent of each other."""


def padded_length(sizes: Array) -> Array:
    """Part sizes rounded up to five significant bits: little padding, few different lengths."""
    xp = namespace(sizes)
    step = 1 << xp.maximum(0, xp.frexp(sizes.astype(np.float64))[1].astype(np.int64) - 5)
    return -(-sizes // step) * step


def even_batches(p: Partition, chosen: Host | None = None, elements: int = BATCH_ELEMENTS) -> list[Batch]:
    """Batches of (the chosen) parts that share a padded length, at most `elements` padded elements each.

    A part longer than `elements` is a batch by itself.  Parts keep their order inside a length; lengths ascend.
    """
    xp = namespace(p.order)
    chosen = np.arange(p.parts) if chosen is None else chosen
    sizes = p.sizes
    lengths = padded_length(to_host(sizes))[chosen]
    out = []
    for length in distinct(lengths).tolist():
        members = chosen[lengths == length]
        offsets = xp.arange(length, dtype=np.int64)[None, :]
        for batch in ranges(len(members), max(1, elements // length)):
            parts = xp.asarray(members[batch])
            starts = p.starts[parts][:, None]
            valid = offsets < sizes[parts][:, None]
            out.append(Batch(parts, p.order[xp.where(valid, starts + offsets, starts)], valid))
    return out


def gather(X: Array, batch: Batch) -> Array:
    """(b, length, ...) rows of the batch's parts, as a copy; padding repeats the part's first row."""
    return X[batch.rows]


def scatter(values: Array, batch: Batch, out: Array) -> None:
    """Write (b, length, ...) values of a batch into the rows of `out`; values of the padding are ignored."""
    # Padding repeats the part's first row: it must write the first row's value, whichever write comes last.
    valid = batch.valid.reshape(*batch.valid.shape, *(1,) * (values.ndim - 2))
    out[batch.rows] = namespace(out).where(valid, values, values[:, :1])


def tiles(p: Partition, rows: int = TILE) -> tuple[Partition, Array]:
    """Cut every part, in its order, into tiles of at most `rows` rows; also the part (tiles,) of each tile."""
    bounds, _, owner = runs(p.starts, rows)
    return Partition(p.order, bounds), owner
