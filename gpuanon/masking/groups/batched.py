"""What the groupings share: groups formed in batches of parts, and the check for k rows.

A greedy grouping takes rows out of a part one after another.  Here all parts of a batch take their next row at the same
time, so that one NumPy call serves all of them, and the arrays shrink as rows are taken.

A part's groups must not depend on its batch: arrays shrink at steps that depend on the padded length only, and BLAS is
called once per part.  So neither the number of threads nor the batch size changes a group.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.batches import even_batches
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

BATCH_ELEMENTS = 1 << 16
"""Padded elements (parts × length) of a batch: they fit a core's cache, and NumPy's cost per call is shared."""


_COMPILED_BATCHES = 64  # batches of parts for compiled functions: enough to keep all cores busy to the end


def require_k_rows(within: Partition, k: int) -> None:
    """Raise when a part of `within` has fewer than `k` rows, because no group of k rows fits in it."""
    smallest = int(within.sizes.min()) if within.parts else 0
    if smallest < k:
        what = f"{within.n} rows" if within.parts <= 1 else f"a part of {smallest} rows"
        raise ParameterError(
            f"k: groups of at least {k} rows were asked for, got {what}", hint="lower k, or mask more rows"
        )


def group_batches(within: Partition, group: Callable[[Batch], Host], counts: Host, elements: int) -> Partition:
    """Run `group` on all batches, on all cores, and number the groups part after part.

    group    : batch → (b, length) number of each row's group inside its part (padding: any number)
    counts   : (parts,) groups in each part
    elements : padded elements of a batch
    """
    first = np.concatenate([[0], np.cumsum(counts)[:-1]])
    labels = np.empty(within.n, dtype=np.int64)

    def run(batch: Batch) -> None:
        local = group(batch) + first[batch.parts][:, None]
        labels[batch.rows[batch.valid]] = local[batch.valid]

    with one_blas_thread():
        each(run, even_batches(within, elements=elements))
    return Partition.from_labels(labels)


def group_compiled(rows: Host, within: Partition, k: int, group: Callable[..., None]) -> Partition:
    """Run a compiled function on ranges of parts, on all cores, and number the groups part after part.

    group : writes the number of each row's group inside its part to `labels`, see `compiled_greedy`
    """
    sizes, labels = within.sizes, np.empty(within.n, dtype=np.int64)

    def run(parts: slice) -> None:
        largest = int(sizes[parts].max())
        group(rows, within.order, within.starts, parts.start, parts.stop, k, labels, largest)

    each(run, ranges(within.parts, max(1, within.parts // _COMPILED_BATCHES)))
    first = np.repeat(np.cumsum(sizes // k) - sizes // k, sizes)
    labels[within.order] += first
    return Partition.from_labels(labels)


def warm_groups(function_of: Callable[[Host | None], Callable[..., None]]) -> None:
    """Compile the functions for `group_compiled` of both metrics, or load their machine code.

    function_of : mismatch (d,) int32, or None for the Euclidean metric → the function
    """
    for mismatch in (None, np.array([-1, 3], dtype=np.int32)):
        group_compiled(np.arange(16, dtype=np.int32).reshape(8, 2), Partition.whole(8), 2, function_of(mismatch))
