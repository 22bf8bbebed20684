"""Median cuts: all columns at once (RHS), or the widest one at a time (SPECTRAL-RHS, Mondrian).

References
----------
.. [1] S. Chawla, C. Dwork, F. McSherry, A. Smith, H. Wee (2005), Toward privacy in public databases, TCC: recursive
   histogram sanitization.
.. [2] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 4.1.2 and fig. 4-2.
.. [3] K. LeFevre, D. DeWitt, R. Ramakrishnan (2006), Mondrian multidimensional k-anonymity, ICDE (relaxed cuts).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.batches import even_batches, gather
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import GuaranteeError
from gpuanon.masking.groups.batched import require_k_rows
from gpuanon.masking.groups.in_blocks import Constrained
from gpuanon.numerics.cuts.device_cuts import all_cuts_cuda, widest_cuts_cuda
from gpuanon.numerics.cuts.median_blocks import lowest_first
from gpuanon.numerics.equal_rows import equal_rows, packed
from gpuanon.numerics.lockstep import Affine
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from gpuanon.numerics.svd import principal_axes

_BATCH_ELEMENTS = 1 << 16
_NEAR_ROWS = 1 << 15
"""Rows of a part from which on its rows lie together in memory."""


def widest_cuts(X: Array, within: Partition, k: int) -> Partition:
    """Cut parts of more than 2k rows in two at the median of the column with the widest range, recursively.

    The m // 2 lowest of m rows are one side; of equal values the lower rows belong to it.  Of equally wide columns the
    first is cut.  A part whose rows are all equal is not cut.

    Guarantee : every group has at least k rows, and at most 2k unless its rows are all equal.
    Cost      : O(n (d + log n) log(n / k)), all parts of a level in lock step.
    """
    require_k_rows(within, k)
    if on_device(X):
        return widest_cuts_cuda(X, within, k)
    large = max(_NEAR_ROWS, 2 * k)
    coarse = _cut_down(X, within, large)
    near = _cut_down(X[coarse.order], Partition(np.arange(len(X)), coarse.starts), 2 * k)
    return Partition(coarse.order[near.order], near.starts)


def _cut_down(X: Host, within: Partition, most: int) -> Partition:
    """Cut the parts of more than `most` rows in two, and their halves, until none of them can be cut."""
    level, chosen = within, np.flatnonzero(within.sizes > most)
    while len(chosen):
        order, middle = level.order.copy(), level.starts[chosen] + level.sizes[chosen] // 2
        cut = np.zeros(level.parts, dtype=bool)

        def halve(batch: Batch, level: Partition = level, order: Host = order, cut: Host = cut) -> None:
            Z = gather(X, batch)  # padding repeats the first row and does not change a range
            ranges = Z.max(axis=1) - Z.min(axis=1)
            values = np.take_along_axis(Z, ranges.argmax(axis=1)[:, None, None], axis=2)[:, :, 0]
            lowest_first(values, batch, level.starts, level.sizes[batch.parts] // 2, order)
            cut[batch.parts] = ranges.max(axis=1) > 0

        each(halve, even_batches(level, chosen, _BATCH_ELEMENTS))
        level = Partition(order, np.union1d(level.starts, middle[cut[chosen]]))
        chosen = np.flatnonzero(np.repeat(cut, 1 + cut) & (level.sizes > most))  # a part that was not cut is one part
    return level


def cut_in_two(X: Array, level: Partition, low: Array, chosen: Host, equal_rows_too: bool = False) -> Partition:
    """Cut the `chosen` parts (g,) along the column of widest range: the `low` (g,) lowest rows are one side.

    Of equal values the lower rows belong to the lower side; a part of equal rows is not cut unless `equal_rows_too`.
    """
    xp = namespace(X)
    upper = xp.zeros(level.n, dtype=np.int64)

    def cut(batch: Batch) -> None:
        Z = gather(X, batch)  # padding repeats the first row and does not change a range
        ranges = Z.max(axis=1) - Z.min(axis=1)
        values = xp.take_along_axis(Z, ranges.argmax(axis=1)[:, None, None], axis=2)[:, :, 0]
        order = xp.argsort(xp.where(batch.valid, values, np.inf), axis=1, kind="stable")
        rank = xp.argsort(order, axis=1, kind="stable")
        high = (rank >= low[batch.parts][:, None]) & ((ranges.max(axis=1) > 0) | equal_rows_too)[:, None]
        upper[batch.rows] = xp.where(batch.valid, high, high[:, :1])

    each(cut, even_batches(level, np.flatnonzero(chosen), _BATCH_ELEMENTS))
    return Partition.from_labels(2 * level.labels() + upper)


def all_cuts(X: Array, within: Partition, k: int) -> Partition:
    """Cut parts of more than 2k rows at the median of *every* column at once, recursively (RHS [1]).

    A part is divided into its different patterns of "above the median".  With d columns there can be 2^d patterns: in
    high dimension nearly every record ends in a group by itself, whatever the parameters.  Group sizes are not
    guaranteed; `MedianCuts` raises if one has fewer than k rows.
    """
    if on_device(X):
        return all_cuts_cuda(X, within, k)
    level = within
    open_parts = level.sizes > 2 * k
    while open_parts.any():
        above = np.zeros(X.shape, dtype=bool)

        def mark(batch: Batch, above: Array = above) -> None:
            Z = gather(X, batch)
            m = batch.valid.sum(axis=1)[:, None, None]
            ordered = np.sort(np.where(batch.valid[:, :, None], Z, np.inf), axis=1)
            low = np.take_along_axis(ordered, (m - 1) // 2 + np.zeros((1, 1, Z.shape[2]), dtype=np.int64), axis=1)
            high = np.take_along_axis(ordered, m // 2 + np.zeros((1, 1, Z.shape[2]), dtype=np.int64), axis=1)
            marks = 0.5 * (low + high) < Z
            above[batch.rows] = np.where(batch.valid[:, :, None], marks, marks[:, :1])

        each(mark, even_batches(level, np.flatnonzero(open_parts), _BATCH_ELEMENTS))
        finer = Partition.from_labels(equal_rows(packed(above), level.labels()))
        # A part with one pattern cannot be cut further; its size is unchanged.
        parents = level.labels()[finer.order[finer.starts[:-1]]]
        open_parts = (finer.sizes > 2 * k) & (finer.sizes < level.sizes[parents])
        level = finer
    return level


def small_share(groups: Partition, k: int) -> float:
    """Share of the rows that are in a group of fewer than `k` rows."""
    sizes = groups.sizes
    return float(sizes[sizes < k].sum()) / max(groups.n, 1)


class MedianCuts(Constrained):
    """Recursive cuts at the median while a group has more than 2k rows.

    columns = "widest" on = "svd"     : SPECTRAL-RHS, the widest principal component at a time (Lasko 2007)
    columns = "widest" on = "columns" : Mondrian, the widest column in units of its range in the table
    columns = "all"                   : RHS, all columns at once; refused when groups of fewer than k rows come out
    """

    use: Literal["median-cuts"] = "median-cuts"
    k: int = Field(ge=2)
    columns: Literal["widest", "all"] = "widest"
    on: Literal["columns", "svd"] = "columns"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        whole = Partition.whole(len(X), X)
        require_k_rows(whole, self.k)
        with stage("median cuts"):
            T = self._axes(X, whole)
            if self.columns == "widest":
                return widest_cuts(T, whole, self.k)
            groups = all_cuts(T, whole, self.k)
        small = small_share(groups, self.k)
        if small > 0:
            alone = small_share(groups, 2)
            raise GuaranteeError(
                f"median-cuts: cutting all {X.shape[1]} columns at once leaves {small:.1%} of the records in groups of"
                f" fewer than {self.k}, {alone:.1%} alone",
                hint='columns = "widest" cuts one column at a time (methods spectral-rhs, mondrian)',
            )
        return groups

    def _axes(self, X: Array, whole: Partition) -> Array:
        """The coordinates to cut: principal components, or columns in units of their range."""
        if self.on == "svd":
            axes = principal_axes(X, whole)
            return Affine(axes.V, before=axes.means)(X, whole)
        xp = namespace(X)
        ranges = X.max(axis=0) - X.min(axis=0)
        return X / xp.where(ranges > 0, ranges, 1.0)
