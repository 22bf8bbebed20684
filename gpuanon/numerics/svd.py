"""Principal axes of many small (or a few large) groups at once, through Gram matrices.

The Gram matrix squares the condition number: singular values below 1e-8 of the largest are lost in rounding, and axes
near that level are not orthogonal to each other.  Therefore axes below a tolerance (by default 1e-6 of the largest) are
dropped, and the others are orthonormalised by a second Gram matrix (as in CholeskyQR2 [1]_) before a small singular
value decomposition gives the final axes.

References
----------
.. [1] Y. Yamamoto, Y. Nakatsukasa, Y. Yanagisawa, T. Fukaya (2015), Roundoff error analysis of the CholeskyQR2
   algorithm, Electron. Trans. Numer. Anal. 44.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device, to_host
from gpuanon.arrays.batches import even_batches, gather
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.sorting import argsort_rows
from gpuanon.arrays.threads import each
from gpuanon.numerics.lockstep import centre, sum_over_tiles

TOLERANCE = 1e-6

_STACKED = 32  # columns up to which a device decomposes many matrices at once; beyond, CuPy loops over them in Python
_LARGE = 1 << 15
"""Larger parts are summed tile by tile."""


@dataclass(frozen=True)
class Axes:
    """Principal axes of g parts.

    means : (g, d)
    V     : (g, d, c) orthonormal columns, the largest singular value first; dropped columns are zero.  The entry of
            largest size in a column is positive
    s     : (g, c) singular values of the centred rows; dropped ones are zero
    """

    means: Array
    V: Array
    s: Array


def principal_axes(X: Array, p: Partition, tolerance: float = TOLERANCE) -> Axes:
    """Principal axes of the rows of each part: c = min(d, rows of the largest part) of them.

    A part with fewer rows than columns is decomposed through the Gram matrix of its rows, so wide data cost
    O(rows² · columns), not O(columns³).
    """
    xp = namespace(X)
    sizes = to_host(p.sizes)
    d, c = X.shape[1], min(X.shape[1], int(sizes.max()))
    axes = Axes(xp.empty((p.parts, d)), xp.zeros((p.parts, d, c)), xp.zeros((p.parts, c)))

    def work(batch: Batch) -> None:
        Z, means = centre(gather(X, batch).astype(np.float64, copy=False), batch.valid)
        V, s = axes_of(Z, tolerance)
        kept = min(c, V.shape[2])
        axes.means[batch.parts] = means
        axes.V[batch.parts, :, :kept] = V[:, :, :kept]
        axes.s[batch.parts, :kept] = s[:, :kept]

    large = sizes > max(_LARGE, d)
    with one_blas_thread():
        each(work, even_batches(p, np.flatnonzero(~large)))
        for part in np.flatnonzero(large):
            begin, end = int(p.starts[part]), int(p.starts[part + 1])
            alone = Partition(p.order[begin:end], xp.asarray([0, end - begin], dtype=np.int64))
            axes.means[part], axes.V[part], axes.s[part] = _axes_of_large(X, alone, tolerance)
    return axes


def axes_of(Z: Array, tolerance: float = TOLERANCE) -> tuple[Array, Array]:
    """Right singular vectors (b, d, c) and singular values (b, c) of centred, zero-padded (b, length, d) rows."""
    xp = namespace(Z)
    tall = Z.shape[1] >= Z.shape[2]
    Y = Z if tall else Z.transpose(0, 2, 1)
    W, s = _from_gram(Y.transpose(0, 2, 1) @ Y, tolerance)
    Q = Y @ _whitening(W, s)
    L = _factor(Q.transpose(0, 2, 1) @ Q, s)
    P, s, Rt = _final(L, W, s, tolerance)
    V = Rt.transpose(0, 2, 1) if tall else Q @ xp.linalg.solve(L.transpose(0, 2, 1), P)
    return _signed(V * (s > 0)[:, None]), s


def _axes_of_large(X: Array, p: Partition, tolerance: float) -> tuple[Array, Array, Array]:
    """Means (d,), axes (d, d) and singular values (d,) of one large part, tile by tile."""
    d = X.shape[1]
    first = X[p.order[0]]

    def shifted(batch: Batch, centre: Array) -> Array:
        return (gather(X, batch) - centre) * batch.valid[:, :, None]

    totals = sum_over_tiles(lambda batch, _: shifted(batch, first).sum(axis=1), p, (d,), X)
    varies = sum_over_tiles(lambda batch, _: shifted(batch, first).any(axis=1), p, (d,), X) > 0
    means = first + (totals / p.n)[0]

    def gram(W: Array) -> Array:
        def work(batch: Batch, _: Array) -> Array:
            Q = (shifted(batch, means) * varies) @ W
            return Q.transpose(0, 2, 1) @ Q

        return sum_over_tiles(work, p, (d, d), X)

    W, s = _from_gram(gram(namespace(X).eye(d)), tolerance)
    L = _factor(gram(_whitening(W, s)[0]), s)
    _, s, Rt = _final(L, W, s, tolerance)
    V = _signed(Rt.transpose(0, 2, 1) * (s > 0)[:, None])
    return namespace(X).where(varies[0], means, first), V[0], s[0]


def _from_gram(G: Array, tolerance: float) -> tuple[Array, Array]:
    """First pass: eigenvectors of G = YᵀY and the singular values above the tolerance, the largest first."""
    xp = namespace(G)
    values, vectors = xp.linalg.eigh(G)
    s = xp.sqrt(xp.clip(values[:, ::-1], 0, None))
    return vectors[:, :, ::-1], xp.where(s > tolerance * s[:, :1], s, 0.0)


def _whitening(W: Array, s: Array) -> Array:
    """W / s, zero where dropped: Q = Y W / s is orthonormal up to the squared condition number."""
    xp = namespace(W)
    return W * xp.where(s > 0, 1.0 / xp.where(s > 0, s, 1.0), 0.0)[:, None]


def _factor(G: Array, s: Array) -> Array:
    """Cholesky factor L of QᵀQ, the second Gram matrix; dropped axes count as orthonormal."""
    xp = namespace(G)
    diagonal = xp.arange(G.shape[1])
    G[:, diagonal, diagonal] += xp.where(s > 0, 0.0, 1.0)
    return xp.linalg.cholesky(G)


def _final(L: Array, W: Array, s: Array, tolerance: float) -> tuple[Array, Array, Array]:
    """Singular value decomposition of Lᵀ diag(s) Wᵀ: Y = (Q L⁻ᵀ) (Lᵀ diag(s) Wᵀ), the first factor orthonormal."""
    xp = namespace(L)
    M = L.transpose(0, 2, 1) @ (s[:, :, None] * W.transpose(0, 2, 1))
    P, s, Rt = _gram_svd(M) if on_device(M) and M.shape[1] > _STACKED else xp.linalg.svd(M)
    return P, xp.where(s > tolerance * s[:, :1], s, 0.0), Rt


def _gram_svd(M: Array) -> tuple[Array, Array, Array]:
    """Singular value decomposition of square matrices through eigenvectors of MᵀM, for many matrices at once.

    The singular values are the norms of the columns of M V, so they are accurate to the rounding error of the largest.
    Two axes whose singular values are nearly equal and both near the tolerance may be rotated by about 1e-4.
    """
    xp = namespace(M)
    _, V = xp.linalg.eigh(M.transpose(0, 2, 1) @ M)
    B = M @ V
    s = xp.sqrt((B * B).sum(axis=1))
    order = argsort_rows(-s)
    s, V = xp.take_along_axis(s, order, axis=1), xp.take_along_axis(V, order[:, None], axis=2)
    P = xp.take_along_axis(B, order[:, None], axis=2) / xp.where(s > 0, s, 1.0)[:, None]
    return P, s, V.transpose(0, 2, 1)


def _signed(V: Array) -> Array:
    """Flip each axis so that its entry of largest magnitude is positive: the sign of an axis is arbitrary."""
    xp = namespace(V)
    largest = xp.take_along_axis(V, xp.abs(V).argmax(axis=1)[:, None], axis=1)
    return V * xp.where(largest < 0, -1.0, 1.0)
