"""Swapping: every column of the coordinates is permuted on its own, inside each group.

Swapped along axes on which the data are uncorrelated (SVD) or independent (ICA), the columns keep their
distributions and nearly keep their covariances, while no released record descends from one original.

Swapping columns independently keeps what the columns are and loses all that links them.  Uncorrelated coordinates are
still linked: the spread of one may depend on another.  Tree swapping keeps a tree of the strongest links (Chow and
Liu): the values of a column are swapped only among records whose value of the parent column falls in the same class.

It takes the place of the tree-dependent components that Lasko (2007, section 6.3) hoped for: there a rotation is sought
whose components form trees (Bach and Jordan 2003); here the tree is sought in the components one has.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.swap.uncorrelate import decorrelate, restore_covariance
from gpuanon.masking.outcomes import Changed
from gpuanon.numerics.chow_liu import dependence_forest, link_threshold, mutual_information, quantile_classes
from gpuanon.numerics.lockstep import even_batches, gather, random_order, random_words, scatter

_CHUNK = 1 << 15


def swap(T: Array, groups: Partition, draws: Draws, tol: float | None = None, orthonormal: bool = False) -> Array:
    """Permute each column of `T` (n, c) independently inside each group (Lasko 2007, COLUMN-SWAP of fig. 4-1).

    Parameters
    ----------
    tol : largest correlation allowed between two swapped columns of a group, when they were uncorrelated before.
        A column that exceeds it is drawn again, one column at a time; one that still does after 32 draws
        is brought to the limit by ranks (see `decorrelate`), which keeps its values.
    orthonormal : turn the swapped columns so that their covariance inside each group is again that of `T`, to rounding.
        The columns' distributions then change a little.

    Means are kept.  Ties between random words, one in 2³² per pair, go to the lower row.

    Cost : O(c · n log n), a few passes more with `tol`; memory O(n c).
    """
    out = namespace(T).empty_like(T)

    def work(batch: Batch) -> int:
        columns = namespace(T).ascontiguousarray(gather(T, batch).transpose(0, 2, 1))  # (b, c, length)
        swapped = _permuted(columns, batch, draws)
        failed = 0
        if tol is not None:
            failed = decorrelate(swapped, batch, tol, draws.child("again"))
        if orthonormal:
            swapped = restore_covariance(columns, swapped, batch, draws.child("shake"))
        scatter(swapped.transpose(0, 2, 1), batch, out)
        return failed

    with one_blas_thread():
        failed = sum(each(work, even_batches(groups)))
    if failed:
        raise ParameterError(
            f"tol: correlations of swapped columns cannot be brought to {tol} in {failed} of {groups.parts} groups"
            f" (the smallest has {int(groups.sizes.min())} rows, {T.shape[1]} columns are swapped)",
            hint="larger groups or a larger tol; orthonormal = true without tol keeps the covariance without a limit",
        )
    return out


def _permuted(columns: Array, batch: Batch, draws: Draws) -> Array:
    """(b, c, length) with every column of every part in a random order of its own; padding stays at the end."""
    xp = namespace(columns)
    words = random_words(draws, batch.rows, columns.shape[1])
    if batch.rows.size <= _CHUNK:
        return xp.take_along_axis(columns, random_order(words, batch.valid[:, None]), axis=2)
    out = xp.empty_like(columns)  # one large part: its columns are the work to share

    def work(j: int) -> None:
        out[:, j] = xp.take_along_axis(columns[:, j], random_order(words[:, j], batch.valid), axis=1)

    each(work, range(columns.shape[1]))
    return out


class Swap(Operation):
    """Columns of the coordinates permuted independently inside each group."""

    use: Literal["swap"] = "swap"
    tol: float | None = Field(
        default=None, gt=0, lt=1, description="largest correlation allowed between swapped columns"
    )
    orthonormal: bool = Field(default=False, description="keep the covariance inside each group to rounding")

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        return Changed(swap(T, groups, records.draws.child("swap"), self.tol, self.orthonormal))


ROWS_A_CLASS = 40
"""Records, about, among whom a value is swapped at least: fewer classes in smaller groups."""

_LONGEST = 1 << 25


def tree_swap(
    T: Array, groups: Partition, draws: Draws, classes: int = 10, level: float = 0.01, orthonormal: bool = False
) -> Array:
    """Swap the columns of `T` (n, c) inside each group along the tree of their strongest dependences.

    Parameters
    ----------
    classes : classes of about equal size into which a column is cut, fewer where a group has not 40 rows for each
    level : a link is kept when independent columns would show one as strong with a smaller probability than this
    orthonormal : turn the swapped columns so that their covariance inside each group is again that of `T`, to rounding

    Every column is permuted inside its group.  The first column of a tree is permuted freely; a column with a
    parent is permuted so that records whose released parent is in a class receive, in random order, the values
    of the records whose original parent was in it.

    Cost : O(c · n log n + n c² classes²); memory O(n c).
    """
    if int(groups.sizes.max()) > _LONGEST:
        raise ParameterError(f"tree-swap: groups of at most {_LONGEST} rows are allowed")
    out = namespace(T).empty_like(T)

    def work(batch: Batch) -> None:
        columns = namespace(T).ascontiguousarray(gather(T, batch).transpose(0, 2, 1))
        words = random_words(draws, batch.rows, 2 * T.shape[1])
        swapped = _along_trees(columns, batch, words, classes, level)
        if orthonormal:
            swapped = restore_covariance(columns, swapped, batch, draws.child("shake"))
        scatter(swapped.transpose(0, 2, 1), batch, out)

    with one_blas_thread():
        each(work, even_batches(groups))
    return out


def _along_trees(columns: Array, batch: Batch, words: Array, classes: int, level: float) -> Array:
    """(b, c, length) swapped columns of one batch."""
    xp = namespace(columns)
    b, c, _ = columns.shape
    rows = batch.valid.sum(axis=1)
    counts = xp.clip(rows // ROWS_A_CLASS, 1, classes)
    cells = quantile_classes(columns, rows, counts)
    strength = mutual_information(cells, rows, int(counts.max()))
    # A column that does not vary links nothing.
    varies = ((columns != columns[:, :, :1]) & batch.valid[:, None]).any(axis=2)
    strength = xp.where(varies[:, :, None] & varies[:, None], strength, -1.0)
    order, parent = dependence_forest(strength, link_threshold(rows, counts, level))
    out, out_cells = xp.empty_like(columns), xp.empty_like(cells)
    part = xp.arange(b)
    for at in range(c):
        j = order[:, at]
        above = parent[part, j]
        free = (above < 0)[:, None]
        before = xp.where(free, 0, cells[part, above])
        after = xp.where(free, 0, out_cells[part, xp.where(above < 0, j, above)])
        source = _class_order(before, words[part, 2 * j], batch.valid)
        place = _class_order(after, words[part, 2 * j + 1], batch.valid)
        line = part[:, None]
        out[line, j[:, None], place] = columns[line, j[:, None], source]
        out_cells[line, j[:, None], place] = cells[line, j[:, None], source]
    return out


def _class_order(classes: Array, words: Array, valid: Array) -> Array:
    """(b, length) positions by class, in random order inside each; padding keeps its place at the end."""
    xp = namespace(words)
    positions = xp.arange(words.shape[1], dtype=np.uint64)
    keys = (xp.where(valid, classes, 127).astype(np.uint64) << np.uint64(57)) | positions
    keys |= xp.where(valid, words, np.uint32(0xFFFFFFFF)).astype(np.uint64) << np.uint64(25)
    return (sort_rows(keys) & np.uint64(_LONGEST - 1)).astype(np.int64)


class TreeSwap(Operation):
    """Columns permuted inside each group along the tree of their strongest dependences."""

    use: Literal["tree-swap"] = "tree-swap"
    classes: int = Field(default=10, ge=2, le=100, description="classes of a parent among which values are swapped")
    level: float = Field(default=0.01, gt=0, lt=1, description="chance at which independent columns would be linked")
    orthonormal: bool = Field(default=False, description="keep the covariance inside each group to rounding")

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        draws = records.draws.child("tree-swap")
        return Changed(tree_swap(T, groups, draws, self.classes, self.level, self.orthonormal))
