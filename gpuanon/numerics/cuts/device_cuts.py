"""`blocks` and the median cuts on a GPU.

The sizes of all blocks follow from those of the parts, so that the host plans the cuts, and a kernel does them: while
there are few parts one level at a time, then all the rest in one launch, one thread block per part
(``kernels/cuts.cu``).  Median cuts that depend on the values are a sort and a stable partition of all rows per level.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.partition import Partition, ranks_within, segment_maxima, segment_minima, sort_within
from gpuanon.numerics.equal_rows import equal_rows, packed
from gpuanon.numerics.metric import EUCLIDEAN, Metric, weighted

SAMPLE = 512
"""Rows of a part by which its widest column is estimated: the choice between nearly equal ones hardly matters."""

_BUSY = 32
"""Parts that keep a device about busy: from then on each thread block cuts its part to the end."""

_SMALL = 1 << 13  # rows of a part, up to which a few warps are enough
_FEW_THREADS, _MANY_THREADS = 128, 512
_ALL_LEVELS = 62


@dataclass(frozen=True)
class CutPlan:
    """The cuts of parts of known sizes into blocks, planned once for any number of tables.

    bounds      : (b + 1,) where the blocks begin, on the host;  starts : the same on the device
    multiple    : rows of a unit, see `blocks`
    categorical : (d,) 1 for columns that are cut only if there are no others
    launches    : the parts (p, 4) that a launch cuts, how often it cuts them, and its threads
    """

    bounds: Host
    starts: Array
    multiple: int
    categorical: Array
    launches: tuple[tuple[Array, int, int], ...]

    @classmethod
    def of(
        cls, bounds: Host, size: int, columns: int, device: Array, metric: Metric = EUCLIDEAN, multiple: int = 1
    ) -> CutPlan:
        """Plan how parts that begin at `bounds` are cut into blocks of at most `size` rows; one array is uploaded.

        device : an array on the device
        """
        units = -(-np.diff(bounds) // multiple)
        leaves = -(-units // (size // multiple))
        levels: list[tuple[Host, int, int]] = []
        while (open_parts := leaves > 1).any():
            if not levels or levels[-1][1] == 1:
                parts = np.stack([bounds[:-1], bounds[1:], units, leaves], axis=1)[open_parts]
                largest = int((parts[:, 1] - parts[:, 0]).max())
                threads = _FEW_THREADS if largest <= _SMALL else _MANY_THREADS
                levels.append((parts, 1 if len(parts) < _BUSY else _ALL_LEVELS, threads))
            left, held = leaves // 2, units * (leaves // 2) // leaves
            middle = (bounds[:-1] + held * multiple)[open_parts]
            bounds = np.sort(np.concatenate([bounds, middle]))
            units, leaves = (_interleave(low, high - low) for low, high in ((held, units), (left, leaves)))
        flags = np.asarray(metric.categorical or (False,) * columns, dtype=np.int64)
        host = [bounds.astype(np.int64), flags, *(parts.reshape(-1) for parts, _, _ in levels)]
        ends = np.cumsum([len(one) for one in host])[:-1]
        starts, categorical, *tables = namespace(device).split(like(np.concatenate(host), device), ends.tolist())
        launches = tuple((table, *how) for table, (_, *how) in zip(tables, levels, strict=True))
        return cls(bounds, starts, multiple, categorical, launches)

    @property
    def largest(self) -> int:
        """Rows of the largest block."""
        return int(np.diff(self.bounds).max(initial=0))

    def cut(self, X: Array, order: Array) -> Partition:
        """Cut the parts of `order`, whose rows are those of `X` (n, d), contiguous floats."""
        xp, order = namespace(X), order.copy()
        moved, values = xp.empty_like(order), xp.empty(len(order), dtype=X.dtype)
        for parts, levels, threads in self.launches:
            launch(
                "cuts", "cut_parts", X, X.shape[1], self.categorical, parts, self.multiple, levels, SAMPLE, order,
                moved, values, over=len(parts) // 4, each=1, threads=threads, shared=8 * X.shape[1],
            )  # fmt: skip
        return Partition(order, self.starts)


def _interleave(low: Host, high: Host) -> Host:
    """Low and high numbers alternately, without the zeros: a part that was not cut has no lower side."""
    both = np.stack([low, high], axis=1).reshape(-1)
    return both[both > 0]


def blocks_cuda(X: Array, within: Partition, size: int, metric: Metric, multiple: int) -> Partition:
    """Cut the parts of `within` into blocks of at most `size` rows; see `gpuanon.numerics.cuts.median_blocks`."""
    bounds = np.array([0, within.n]) if within.parts == 1 else to_host(within.starts)
    plan = CutPlan.of(bounds, size, X.shape[1], X, metric, multiple)
    return plan.cut(weighted(X, metric), within.order)


def widest_cuts_cuda(X: Array, within: Partition, k: int) -> Partition:
    """Cut parts of more than 2k rows in two along their widest column; see `gpuanon.masking.groups.median_cuts`."""
    xp = namespace(X)
    level = within
    still_open = level.sizes > 2 * k
    while bool(still_open.any()):
        ranges = segment_maxima(X, level) - segment_minima(X, level)
        cuts = xp.where(still_open & (ranges.max(axis=1) > 0), level.sizes // 2, 0)
        halves, split = _cut(X, level, cuts, ranges.argmax(axis=1))
        still_open = xp.stack([cuts > 0, cuts > 0], axis=1)[split] & (halves.sizes > 2 * k)
        level = halves
    return level


def all_cuts_cuda(X: Array, within: Partition, k: int) -> Partition:
    """Cut parts of more than 2k rows along every column at once; see `gpuanon.masking.groups.median_cuts`."""
    xp = namespace(X)
    level = within
    still_open = level.sizes > 2 * k
    while bool(still_open.any()):
        labels, above = level.labels(), xp.empty(X.shape, dtype=bool)
        lower, upper = level.starts[:-1] + (level.sizes - 1) // 2, level.starts[:-1] + level.sizes // 2
        for j in range(X.shape[1]):
            ordered = X[sort_within(X[:, j], level), j]
            medians = 0.5 * (ordered[lower] + ordered[upper])
            above[:, j] = (X[:, j] > medians[labels]) & still_open[labels]
        finer = Partition.from_labels(equal_rows(packed(above), labels))
        # A part with one pattern cannot be cut further; its size is unchanged.
        parents = labels[finer.order[finer.starts[:-1]]]
        still_open = (finer.sizes > 2 * k) & (finer.sizes < level.sizes[parents])
        level = finer
    return level


def _cut(X: Array, level: Partition, cuts: Array, columns: Array) -> tuple[Partition, Array]:
    """Separate the ``cuts[p]`` lowest rows of each part p by column ``columns[p]``; both sides keep their order.

    Returns
    -------
    The new parts (a part with cut 0 stays whole), and (parts, 2) whether a part has a lower and an upper side
    """
    xp = namespace(X)
    part = level.part_of_sorted()
    place = xp.arange(level.n, dtype=np.int64)
    start, cut = level.starts[part], cuts[part]
    lower = ranks_within(X[level.order, columns[part]], Partition(place, level.starts)) < cut
    before = xp.cumsum(lower) - lower  # rows of lower sides before each place, over all parts
    before -= before[start]
    order = xp.empty_like(level.order)
    order[start + xp.where(lower, before, cut + (place - start) - before)] = level.order
    split = xp.stack([cuts > 0, xp.ones(level.parts, dtype=bool)], axis=1)
    both = xp.stack([level.starts[:-1], level.starts[:-1] + cuts], axis=1)
    return Partition(order, xp.concatenate([both[split], level.starts[-1:]])), split
