"""Independent components of many groups at once: symmetric FastICA with the log cosh contrast.

References
----------
.. [1] A. Hyvärinen, J. Karhunen, E. Oja (2001), Independent Component Analysis, table 8.4 (symmetric FastICA),
   eq. 8.43 (the fixed-point step) and 8.45 (symmetric orthogonalisation).
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.batches import even_batches, gather
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.threads import each
from gpuanon.numerics.svd import TOLERANCE, Axes, principal_axes


def fastica(
    Z: Array, rows: Array, alive: Array, W: Array | None = None, iterations: int = 20, tolerance: float = 1e-4
) -> Array:
    """Unmixing matrices (b, c, c) of whitened, zero-padded (b, length, c) rows; sources are ``Z @ Wᵀ``.

    rows  : (b,) how many rows of each part are not padding
    alive : (b, c) False for components that were dropped: they are mapped to themselves
    W     : the start, by default the identity (the principal axes)

    A part stops when its axes have converged (``1 − |⟨new, old⟩| < tolerance``) or after `iterations`.  Axes that have
    not converged are still valid axes, so this is not an error.  Parts do not influence each other.
    """
    xp = namespace(Z)
    eye = xp.eye(Z.shape[2], dtype=Z.dtype)
    dropped = xp.where(alive, 0.0, 1.0)[:, :, None] * eye
    both = alive[:, :, None] & alive[:, None, :]
    count = rows.astype(Z.dtype)[:, None, None]
    start = xp.broadcast_to(eye, both.shape) if W is None else W
    W = _orthogonalise(xp.where(both, start, 0.0) + dropped)
    active = xp.arange(len(Z))  # parts whose axes still change
    V = W.copy()  # their axes
    for _ in range(iterations):
        g = xp.tanh(Z @ V.transpose(0, 2, 1))
        slope = 1.0 - (g * g).sum(axis=1)[:, :, None] / count  # padding adds nothing: tanh(0) = 0
        step = (g.transpose(0, 2, 1) @ Z) / count - slope * V  # eq. 8.43
        new = _orthogonalise(xp.where(both, step, 0.0) + dropped)
        going = xp.abs(xp.abs((new * V).sum(axis=2)) - 1.0).max(axis=1) >= tolerance
        W[active], V = new, new
        if not bool(going.all()):
            active, V, Z, count, both, dropped = (part[going] for part in (active, V, Z, count, both, dropped))
            if not len(active):
                break
    return W


def _orthogonalise(W: Array) -> Array:
    """(W Wᵀ)^(−1/2) W, eq. 8.45."""
    xp = namespace(W)
    values, vectors = xp.linalg.eigh(W @ W.transpose(0, 2, 1))
    values = xp.clip(values, np.finfo(np.float64).tiny, None)
    return (vectors / xp.sqrt(values)[:, None]) @ (vectors.transpose(0, 2, 1) @ W)


def independent_axes(
    X: Array, p: Partition, iterations: int = 20, tolerance: float = 1e-4, smallest: float = TOLERANCE
) -> tuple[Axes, Array]:
    """Principal axes of each part, and the unmixing matrix (g, c, c) of its whitened coordinates.

    Principal components below `smallest` times the largest are dropped first: whitening would scale their rounding
    errors to the size of data.
    """
    xp = namespace(X)
    axes = principal_axes(X, p, smallest)
    whiten = whitening(axes, p)
    unmixing = xp.empty((p.parts, axes.s.shape[1], axes.s.shape[1]))

    def work(batch: Batch) -> None:
        parts = batch.parts
        Z = ((gather(X, batch) - axes.means[parts][:, None]) * batch.valid[:, :, None]) @ whiten[parts]
        unmixing[parts] = fastica(Z, batch.valid.sum(axis=1), axes.s[parts] > 0, None, iterations, tolerance)

    with one_blas_thread():
        each(work, even_batches(p))
    return axes, unmixing


def whitening(axes: Axes, p: Partition) -> Array:
    """(g, d, c) matrices that map centred rows to uncorrelated coordinates of variance 1; zero where dropped."""
    xp = namespace(axes.V)
    root = xp.sqrt(p.sizes.astype(axes.s.dtype))[:, None]
    return axes.V * xp.where(axes.s > 0, root / xp.where(axes.s > 0, axes.s, 1.0), 0.0)[:, None]
