"""Swapping: every column of the coordinates is permuted on its own, inside each group.

Swapped along axes on which the data are uncorrelated (SVD) or independent (ICA), the columns keep their
distributions and nearly keep their covariances, while no released record descends from one original.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.operations.swap.uncorrelate import decorrelate, restore_covariance
from gpuanon.masking.outcomes import Changed
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
