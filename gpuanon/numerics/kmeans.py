"""k-means of many parts in lock step, with initial centres drawn by the random numbers of the records.

References
----------
.. [1] D. Arthur, S. Vassilvitskii (2007), k-means++: the advantages of careful seeding, SODA.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from gpuanon.arrays.backend import Array, namespace

_TRIAL = 12  # iterations from each start, before the best start is chosen


def best_kmeans(Y: Array, starts: Iterable[Array]) -> Array:
    """Labels (b, m) of b parts of m rows, (b, m, d), from the best of several starts.

    starts : the random numbers (b, m, q) of each start, see `seeds`

    A few iterations are run from every start; only from the centres with the least sum of squares then, until no label
    changes.
    """
    xp, uniforms = namespace(Y), list(starts)
    rows = xp.concatenate([Y] * len(uniforms))  # all starts in lock step
    centres = seeds(rows, xp.concatenate(uniforms))
    _, loss = kmeans(rows, centres, _TRIAL)
    best = loss.reshape(len(uniforms), -1).argmin(axis=0)
    return kmeans(Y, centres[best * len(Y) + xp.arange(len(Y))])[0]


def kmeans(Y: Array, centres: Array, iterations: int = 50) -> tuple[Array, Array]:
    """Labels (b, m) and the within-cluster sum of squares (b,) of b parts of m rows, (b, m, d).

    centres : (b, q, d) initial centres, overwritten by the last ones

    Ties go to the lower centre; a cluster without rows keeps its centre.
    """
    xp = namespace(Y)
    labels = xp.full(Y.shape[:2], -1, dtype=np.int64)
    active = xp.arange(len(Y))  # parts whose labels still change
    rows = xp.concatenate([Y, xp.ones((*Y.shape[:2], 1), dtype=Y.dtype)], axis=2)  # the last column counts
    for _ in range(iterations):
        new = _nearest(rows, centres[active])
        moving = (new != labels[active]).any(axis=1)
        labels[active] = new
        if not bool(moving.all()):
            active, new, rows = active[moving], new[moving], rows[moving]
            if not len(active):
                break
        member = (new[:, None, :] == xp.arange(centres.shape[1])[:, None]).astype(Y.dtype)
        sums = member @ rows
        counts = sums[:, :, -1:]
        centres[active] = xp.where(counts > 0, sums[:, :, :-1] / xp.where(counts > 0, counts, 1.0), centres[active])
    apart = Y - xp.take_along_axis(centres, labels[:, :, None], axis=1)
    return labels, (apart * apart).sum(axis=(1, 2))


def _nearest(rows: Array, centres: Array) -> Array:
    """(b, m) nearest of the centres (b, q, d) for each row (b, m, d + 1), whose last column is 1.

    Only |c|²/2 − y · c is compared: the row's own square is the same for all centres.
    """
    xp = namespace(rows)
    half = 0.5 * (centres * centres).sum(axis=2, keepdims=True)
    return (xp.concatenate([-centres, half], axis=2) @ rows.transpose(0, 2, 1)).argmin(axis=1)


def seeds(Y: Array, uniforms: Array) -> Array:
    """(b, q, d) initial centres of b parts of m rows, (b, m, d).

    uniforms : (b, m, q) random numbers of the rows: the c-th column draws the c-th of q centres [1]

    A row is drawn with probability proportional to its squared distance from the previous centres, as the row with the
    least ``−log u / distance²``.  Ties go to the lower row.
    """
    xp = namespace(Y)
    race = -xp.log(xp.ascontiguousarray(uniforms.transpose(2, 0, 1)))
    squares = (Y * Y).sum(axis=2)
    chosen = race[0].argmin(axis=1)
    centres = [xp.take_along_axis(Y, chosen[:, None, None], axis=1)]
    nearest = _distances(Y, squares, centres[0])
    for numbers in race[1:]:
        apart = nearest > 0
        chosen = xp.where(apart, numbers / xp.where(apart, nearest, 1.0), np.inf).argmin(axis=1)
        centres.append(xp.take_along_axis(Y, chosen[:, None, None], axis=1))
        nearest = xp.minimum(nearest, _distances(Y, squares, centres[-1]))
    return xp.concatenate(centres, axis=1)


def _distances(Y: Array, squares: Array, centre: Array) -> Array:
    """(b, m) squared distances of the rows, of squared lengths `squares`, from one centre (b, 1, d) of each part."""
    xp = namespace(Y)
    products = (Y @ centre.transpose(0, 2, 1))[:, :, 0]
    return xp.maximum(squares + (centre * centre).sum(axis=2) - 2.0 * products, 0.0)
