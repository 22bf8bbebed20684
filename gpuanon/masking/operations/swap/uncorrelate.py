"""Make columns uncorrelated: by new random orders, by ranks, or exactly, by orthonormalisation.

References
----------
.. [1] R. L. Iman, W. J. Conover (1982), A distribution-free approach to inducing rank correlation among input
   variables, Commun. Stat. Simul. Comput. 11(3).
.. [2] P.-O. Löwdin (1950), On the non-orthogonality problem, J. Chem. Phys. 18(3): symmetric orthonormalisation, the
   orthonormal columns nearest to the given ones.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Batch
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import argsort_rows
from gpuanon.errors import ParameterError
from gpuanon.numerics.lockstep import random_order

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
