"""Parts in lock step: padded batches of parts, and the rows of a batch that are still free.

A greedy grouping takes rows out of a part one after another.  Here every part of a batch takes its next row at
the same moment, so one call of NumPy serves all of them, and the arrays shrink as rows are taken.

Nothing that a part computes may depend on its batch: a part is padded to a length that its own size gives, arrays
shrink at moments that this length gives, and the linear algebra is called once a part.  So neither the number of
threads nor the size of a batch changes a group.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import namespace, on_device
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.threads import each
from gpuanon.errors import InputError
from gpuanon.numerics.distance import Metric

Host: TypeAlias = Any
"""A NumPy array."""

BATCH_CELLS = 1 << 16
"""(part, row) cells in a batch: what a core's cache holds, and enough parts to share the interpreter's cost."""


def require_k_rows(within: Partition, k: int) -> None:
    """Raise when a part of `within` has fewer than `k` rows, for no group of k fits in it."""
    smallest = int(within.sizes.min()) if within.parts else 0
    if smallest < k:
        what = f"{within.n} rows" if within.parts <= 1 else f"a part of {smallest} rows"
        raise InputError(
            f"k: groups of at least {k} rows were asked for, got {what}", hint="lower k, or mask more rows"
        )


def padded_length(sizes: Host) -> Host:
    """The length to which a part is padded: its size rounded up to four significant bits and a half."""
    xp = namespace(sizes)
    step = 1 << xp.maximum(0, xp.frexp(sizes.astype(np.float64))[1].astype(np.int64) - 5)
    return -(-sizes // step) * step


def equal_batches(p: Partition, cells: int, chosen: Host | None = None) -> Iterator[Batch]:
    """Batches of (the chosen) parts of one padded length, at most `cells` (part, row) cells each but one part."""
    sizes = p.sizes
    lengths = padded_length(sizes)
    chosen = np.arange(p.parts) if chosen is None else chosen
    by_length = chosen[np.argsort(lengths[chosen], kind="stable")]
    borders = np.flatnonzero(np.diff(lengths[by_length])) + 1
    for same in np.split(by_length, borders):
        length = int(lengths[same[0]])
        count = max(1, cells // length)
        for at in range(0, len(same), count):
            parts = same[at : at + count]
            offsets = np.arange(length)
            valid = offsets < sizes[parts][:, None]
            rows = p.order[np.where(valid, p.starts[parts][:, None] + offsets, p.starts[parts][:, None])]
            yield Batch(parts, rows, valid)


def group_batches(within: Partition, group: Callable[[Batch], Host], counts: Host, cells: int) -> Partition:
    """Run `group` on all batches, on all cores, and put the groups together, part after part.

    group  : batch → (b, length) number of each row's group inside its part (padding: anything)
    counts : (parts,) groups in each part
    """
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    labels = np.empty(within.n, dtype=np.int64)

    def run(batch: Batch) -> None:
        local = group(batch) + first[batch.parts][:, None]
        labels[batch.rows[batch.valid]] = local[batch.valid]

    with one_blas_thread():
        each(run, equal_batches(within, cells))
    return Partition.from_labels(labels)


def stretches(array: Host, rows: int) -> list[slice]:
    """Stretches of the array's lines: `rows` of them on the host, for its threads and caches, all at once elsewhere."""
    step = max(1, len(array) if on_device(array) else rows)
    return [slice(at, at + step) for at in range(0, len(array), step)]


def widest(variance: Host) -> Host:
    """(b,) the column of largest `variance` (b, d); of those that only rounding tells apart, the first."""
    return (variance >= (1 - 1e-9) * variance.max(axis=1, keepdims=True)).argmax(axis=1)


def weighted(X: Host, metric: Metric) -> Host:
    """`X` as contiguous floats; under the Euclidean metric its columns are scaled by the roots of the weights."""
    xp = namespace(X)
    X = xp.ascontiguousarray(X, dtype=X.dtype if X.dtype in (np.float32, np.float64) else np.float64)
    if metric.kind == "euclidean" and metric.weights is not None:
        X = X * xp.asarray(np.sqrt(np.asarray(metric.weights, dtype=X.dtype)))
    return X
