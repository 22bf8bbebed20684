"""Work cut into ranges and batches whose working set fits a cache or a memory budget."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuanon.arrays.backend import Array, Host, on_device


def ranges(count: int, step: int) -> list[slice]:
    """Cut ``range(count)`` into consecutive ranges of `step` items; the last may be shorter."""
    return [slice(at, min(count, at + step)) for at in range(0, count, step)]


def row_ranges(array: Array, rows: int) -> list[slice]:
    """Ranges of `rows` rows of `array` on the host, for its threads and caches; one range of all rows on a device."""
    return ranges(len(array), max(1, len(array) if on_device(array) else rows))


def same_size_batches(sizes: Host, count: Callable[[int], int]) -> list[Host]:
    """Numbers of the parts with these `sizes` (g,), in batches of parts of one size, so that none is padded.

    count : size → parts of that size in one batch, at least 1
    """
    out = []
    for size in np.unique(sizes):
        same = np.flatnonzero(sizes == size)
        out += [same[batch] for batch in ranges(len(same), count(int(size)))]
    return out
