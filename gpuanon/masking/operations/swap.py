"""Swapping: every column of the coordinates is permuted on its own, inside each group.

Swapped along axes on which the data are uncorrelated (SVD) or independent (ICA), the columns keep their distributions
and nearly keep their covariances, while no released record descends from one original.  The new orders can be made
uncorrelated by ranks [1] or exactly, by orthonormalisation [2].

Swapping columns independently keeps each column and loses every dependence between them.  Uncorrelated coordinates may
still depend on each other: the spread of one may depend on another.  Tree swapping keeps a tree of the strongest
dependences (Chow and Liu): the values of a column are swapped only among records whose value of the parent column falls
in the same class.  Lasko (2007, section 6.3) proposed to search a rotation whose components form trees (Bach and Jordan
2003); here the tree is searched among the given components.

References
----------
.. [1] R. L. Iman, W. J. Conover (1982), A distribution-free approach to inducing rank correlation among input
   variables, Commun. Stat. Simul. Comput. 11(3).
.. [2] P.-O. Löwdin (1950), On the non-orthogonality problem, J. Chem. Phys. 18(3): symmetric orthonormalisation, the
   orthonormal columns nearest to the given ones.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import argsort_rows, sort_rows
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed
from gpuanon.numerics.chow_liu import dependence_forest, link_threshold, mutual_information, quantile_classes
from gpuanon.numerics.lockstep import even_batches, gather, random_order, random_words, scatter

_ROUNDS = 8  # of four draws each
_RANK_STEPS = 30
_SINGULAR = 1e-8


def standardised(columns: Array, batch: Batch) -> tuple[Array, Array, Array]:
    """(b, c, length) columns of mean 0 and variance 1, their means and deviations (b, c, 1); constant columns are 0."""
    xp = namespace(columns)
    rows = batch.valid.sum(axis=1).astype(columns.dtype)[:, None, None]
    first = columns[:, :, :1]
    S = (columns - first) * batch.valid[:, None]
    shift = S.sum(axis=2, keepdims=True) / rows
    varies = S.any(axis=2, keepdims=True)
    S -= shift
    S *= batch.valid[:, None] & varies
    deviations = xp.sqrt((S * S).sum(axis=2, keepdims=True) / rows)
    S /= xp.where(deviations > 0, deviations, 1.0)
    return S, first + xp.where(varies, shift, 0.0), deviations


def correlations(S: Array, others: Array, batch: Batch) -> Array:
    """(b, c, j) correlations of standardised columns (b, c, length) with `others` (b, j, length)."""
    return (S @ others.transpose(0, 2, 1)) / batch.valid.sum(axis=1).astype(S.dtype)[:, None, None]


def decorrelate(columns: Array, batch: Batch, tol: float, draws: Draws) -> int:
    """Reorder the `columns` (b, c, length), in place, until no two of a part correlate by more than `tol`.

    Each column is made uncorrelated with those before it: its order is drawn again up to 32 times; then, from the best
    draw on, the correlated part is subtracted and the column's values are put in the order of the residual [1].
    Returns the number of parts in which this did not succeed.
    """
    xp = namespace(columns)
    S = standardised(columns, batch)[0]
    failed = xp.zeros(len(columns), dtype=bool)
    if not bool((xp.abs(xp.tril(correlations(S, S, batch), -1)) > tol).any()):
        return 0
    for j in range(1, columns.shape[1]):
        worst = xp.abs(correlations(S[:, j : j + 1], S[:, :j], batch))[:, 0].max(axis=1)
        for attempt in range(_ROUNDS):
            at = xp.flatnonzero(worst > tol)
            if not len(at):
                break
            order, drawn = _best_draw(S, j, _some(batch, at), at, tol, draws.child(f"{j}/{attempt}"))
            better = drawn < worst[at]
            _reorder((columns, S), j, at[better], order[better])
            worst[at] = xp.minimum(worst[at], drawn)
        at = xp.flatnonzero(worst > tol)
        if len(at):
            order, missed = _by_ranks(S, j, _some(batch, at), at, tol)
            _reorder((columns, S), j, at, order)
            failed[at] |= missed
    return int(failed.sum())


def _some(batch: Batch, at: Array) -> Batch:
    """The parts `at` of a batch."""
    return Batch(batch.parts[at], batch.rows[at], batch.valid[at])


def _best_draw(S: Array, j: int, some: Batch, at: Array, tol: float, draws: Draws) -> tuple[Array, Array]:
    """The first of four random orders of column `j` within `tol`, else the best; and its largest correlation (b,)."""
    xp = namespace(S)
    words = draws.take(some.rows.reshape(-1)).words(4).reshape(*some.rows.shape, 4).transpose(0, 2, 1)
    orders = random_order(words, some.valid[:, None])
    drawn = xp.take_along_axis(S[at, j : j + 1], orders, axis=2)
    worst = xp.abs(correlations(drawn, S[at, :j], some)).max(axis=2)
    good = worst <= tol
    # The first order within `tol`, not the best: so the draw is uniform among these.
    choice = xp.where(good.any(axis=1), good.argmax(axis=1), worst.argmin(axis=1))[:, None]
    order = xp.take_along_axis(orders, choice[:, :, None], axis=1)[:, 0]
    return order, xp.take_along_axis(worst, choice, axis=1)[:, 0]


def _by_ranks(S: Array, j: int, some: Batch, at: Array, tol: float) -> tuple[Array, Array]:
    """An order of column `j` that correlates little with the columns before it, and where it is still above `tol`."""
    xp = namespace(S)
    others, column = S[at, :j], S[at, j : j + 1]
    by_value = argsort_rows(xp.where(some.valid, column[:, 0], np.inf))
    ordered = xp.take_along_axis(column[:, 0], by_value, axis=1)
    order = xp.zeros_like(by_value) + xp.arange(by_value.shape[1])
    now = correlations(column, others, some)
    least = xp.abs(now).max(axis=(1, 2))
    target = column
    for _ in range(_RANK_STEPS):
        if not bool((least > tol).any()):
            break
        # Only the order changes, not the values: the remaining correlation is subtracted from the target.
        target = target - now @ others
        ranks = _ranks(xp.where(some.valid, target[:, 0], np.inf))
        now = correlations(xp.take_along_axis(ordered, ranks, axis=1)[:, None], others, some)
        worst = xp.abs(now).max(axis=(1, 2))
        better = (worst < least) & (least > tol)
        order = xp.where(better[:, None], xp.take_along_axis(by_value, ranks, axis=1), order)
        least = xp.where(better, worst, least)
    return order, least > tol


def _ranks(values: Array) -> Array:
    """(b, length) rank of each value in its line; ties go to the lower position."""
    return argsort_rows(argsort_rows(values))


def _reorder(arrays: tuple[Array, Array], j: int, at: Array, order: Array) -> None:
    """Put column `j` of the parts `at` into a new order."""
    for columns in arrays:
        columns[at, j] = namespace(columns).take_along_axis(columns[at, j], order, axis=1)


def restore_covariance(columns: Array, swapped: Array, batch: Batch, draws: Draws) -> Array:
    """Change `swapped` (b, c, length) linearly, as little as possible, so that it has the covariance of `columns`.

    The columns are orthonormalised symmetrically [2], twice, because once leaves rounding errors for an ill-conditioned
    correlation matrix; then they receive the correlations and deviations of `columns`.  If swapped columns are linearly
    dependent (as happens in groups of a few rows), random noise of a tenth of a deviation is added first.
    """
    xp = namespace(columns)
    S, means, deviations = standardised(columns, batch)
    varying = deviations > 0
    if bool((varying.sum(axis=(1, 2)) >= xp.maximum(batch.valid.sum(axis=1), 1)).any()):
        raise ParameterError(
            "orthonormal: a group has as many columns as rows, so swapped columns cannot be orthonormal in it",
            hint="a basis per group (svd or ica) has fewer columns than a group has rows",
        )
    W = standardised(swapped, batch)[0]
    singular = xp.flatnonzero(_spectrum(W, varying, batch)[0].min(axis=1) < _SINGULAR)
    if len(singular):
        some = _some(batch, singular)
        noise = draws.take(some.rows.reshape(-1)).normal(W.shape[1]).reshape(*some.rows.shape, -1).transpose(0, 2, 1)
        W[singular] = standardised(W[singular] + 0.1 * noise * varying[singular], some)[0]
    for _ in range(2):
        values, vectors = _spectrum(W, varying, batch)
        W = ((vectors / xp.sqrt(values)[:, None]) @ vectors.transpose(0, 2, 1)) @ W
    values, vectors = xp.linalg.eigh(correlations(S, S, batch))
    root = (vectors * xp.sqrt(xp.clip(values, 0, None))[:, None]) @ vectors.transpose(0, 2, 1)
    return (root @ W) * deviations + means


def _spectrum(W: Array, varying: Array, batch: Batch) -> tuple[Array, Array]:
    """Eigenvalues and vectors of the correlation matrices; a constant column counts as uncorrelated."""
    xp = namespace(W)
    R = correlations(W, W, batch)
    diagonal = xp.arange(R.shape[1])
    R[:, diagonal, diagonal] += xp.where(varying[:, :, 0], 0.0, 1.0)
    values, vectors = xp.linalg.eigh(R)
    return values, vectors


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
