"""k-means of many parts in lock step, with initial centres drawn by the random numbers of the records.

References
----------
.. [1] D. Arthur, S. Vassilvitskii (2007), k-means++: the advantages of careful seeding, SODA.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace


def kmeans(Y: Array, uniforms: Array, iterations: int = 50) -> tuple[Array, Array]:
    """Labels (b, m) and the within-cluster sum of squares (b,) of b parts of m rows, (b, m, d).

    uniforms : (b, m, q) random numbers of the rows: the c-th column draws the c-th of q centres [1]

    A row is drawn with probability proportional to its squared distance from the previous centres, as the row with the
    least ``−log u / distance²``.  Ties go to the lower row and the lower centre; a cluster without rows keeps its
    centre.
    """
    xp = namespace(Y)
    centres = seeds(Y, uniforms)
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
    """(b, q, d) initial centres."""
    xp = namespace(Y)
    race = -xp.log(uniforms)
    chosen = race[:, :, 0].argmin(axis=1)
    centres = [xp.take_along_axis(Y, chosen[:, None, None], axis=1)]
    nearest = _distances(Y, centres[0])[:, :, 0]
    for c in range(1, uniforms.shape[2]):
        apart = nearest > 0
        chosen = xp.where(apart, race[:, :, c] / xp.where(apart, nearest, 1.0), np.inf).argmin(axis=1)
        centres.append(xp.take_along_axis(Y, chosen[:, None, None], axis=1))
        nearest = xp.minimum(nearest, _distances(Y, centres[-1])[:, :, 0])
    return xp.concatenate(centres, axis=1)


def _distances(Y: Array, centres: Array) -> Array:
    """(b, m, q) squared distances of the rows from the centres (b, q, d)."""
    xp = namespace(Y)
    products = Y @ centres.transpose(0, 2, 1)
    squares = (Y * Y).sum(axis=2)[:, :, None] + (centres * centres).sum(axis=2)[:, None]
    return xp.maximum(squares - 2.0 * products, 0.0)
