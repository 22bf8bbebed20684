"""Spectral coordinates of rows (Laplacian eigenmap).

References
----------
.. [1] A. Ng, M. Jordan, Y. Weiss (2001), On spectral clustering: analysis and an algorithm, NeurIPS.
.. [2] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, eq. 5.1–5.4.
.. [3] C. Musco, C. Musco (2015), Randomized block Krylov methods for stronger and faster approximate singular value
   decomposition, NeurIPS: the leading eigenvectors.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.numerics.spectral.affinity import degrees, normalised_product

STEPS = 5
"""Products per Krylov space."""


def leading_eigenvectors(
    apply: Callable[[Array], Array], start: Array, q: int, tolerance: float = 1e-3, restarts: int = 12
) -> tuple[Array, Array]:
    """Vectors (b, m, q) and values (b, q) of the q largest eigenvalues of b symmetric m × m operators.

    apply : (b, m, w) → (b, m, w), all operators at once
    start : (b, m, w) random vectors, w ≥ q; a few more than q speed up convergence

    Rayleigh–Ritz on block Krylov spaces of `STEPS` products [1], restarted from the best vectors until every residual
    ``‖Lv − λv‖`` is below `tolerance` times the largest eigenvalue of the operator, or after `restarts`.  Converged
    operators are not changed any more.
    """
    xp = namespace(start)
    w = start.shape[2]
    block = orthonormal(start)
    active = xp.ones(len(start), dtype=bool)
    values = xp.zeros((len(start), w))
    for _ in range(1 + restarts):
        basis, image = _krylov(apply, block)
        H = basis.transpose(0, 2, 1) @ image
        found, turn = xp.linalg.eigh(0.5 * (H + H.transpose(0, 2, 1)))
        found, turn = found[:, ::-1][:, :w], turn[:, :, ::-1][:, :, :w]
        vectors = basis @ turn
        residual = xp.sqrt(((image @ turn - vectors * found[:, None])[:, :, :q] ** 2).sum(axis=1)).max(axis=1)
        block = xp.where(active[:, None, None], vectors, block)
        values = xp.where(active[:, None], found, values)
        active &= residual > tolerance * xp.abs(found[:, 0])
        if not bool(active.any()):
            break
    return block[:, :, :q], values[:, :q]


def _krylov(apply: Callable[[Array], Array], block: Array) -> tuple[Array, Array]:
    """Orthonormal basis of the vectors reached from `block` by up to `STEPS` products, and the basis's image."""
    xp = namespace(block)
    pieces, images = [block], [apply(block)]
    for _ in range(STEPS - 1):
        fresh = images[-1]
        for _ in range(2):  # twice, against rounding errors
            for piece in pieces:
                fresh = fresh - piece @ (piece.transpose(0, 2, 1) @ fresh)
            fresh = _turned(fresh)
        pieces.append(fresh)
        images.append(apply(fresh))
    return xp.concatenate(pieces, axis=2), xp.concatenate(images, axis=2)


def orthonormal(V: Array) -> Array:
    """(b, m, w) orthonormal columns that span those of `V`; missing directions are zero."""
    return _turned(_turned(V))


def _turned(V: Array) -> Array:
    """(b, m, w) columns that span those of `V`, orthonormal up to the rounding errors of their products."""
    xp = namespace(V)
    norm = xp.sqrt((V * V).sum(axis=1, keepdims=True))
    V = V / xp.where(norm > 0, norm, 1.0)
    values, vectors = xp.linalg.eigh(V.transpose(0, 2, 1) @ V)
    kept = values > 1e-13 * values[:, -1:]
    return V @ (vectors * xp.where(kept, 1.0 / xp.sqrt(xp.where(kept, values, 1.0)), 0.0)[:, None])


DENSE = 8192
"""Rows of a part up to which its affinities are stored while its eigenvectors are computed (256 MB in float32)."""

_PAIRS = 256
_TILE = 128  # rows whose affinities to all rows of their part fit a core's cache
_EXTRA = 7
"""Vectors besides those that are wanted: with the default of ten clusters 16 in all, a multiple of BLAS's tiles."""


def spectral_coordinates(Z: Array, q: int, sigma: float | None, start: Array) -> Array:
    """(b, m, q) rows of length 1: the q ≥ 2 leading eigenvectors of the normalised affinity of b parts of m rows [2].

    Z     : (b, m, d)
    sigma : scale of the affinity; by default the median distance of rows in the part
    start : (b, m, width(q)) random numbers
    """
    xp = namespace(Z)
    m = Z.shape[1]
    scales = median_distances(Z) if sigma is None else xp.full(len(Z), sigma)
    apply, first = _stored(Z, scales) if m <= DENSE and not on_device(Z) else _streamed(Z, scales)

    def rest(V: Array) -> Array:
        image = apply(V)
        return image - first @ (first.transpose(0, 2, 1) @ image)

    # The first eigenvector is known: √degree, of eigenvalue 1.  Deflating it halves the steps for the others.
    if m <= DENSE and 2 * STEPS * width(q) >= m:  # many vectors of few rows: a full decomposition
        matrix = rest(xp.zeros((len(Z), m, m)) + xp.eye(m))
        vectors = xp.linalg.eigh(0.5 * (matrix + matrix.transpose(0, 2, 1)))[1][:, :, ::-1][:, :, : q - 1]
    else:
        deflated = start - first @ (first.transpose(0, 2, 1) @ start)
        vectors, _ = leading_eigenvectors(rest, deflated, q - 1)
    Y = xp.concatenate([first, vectors], axis=2)
    length = xp.sqrt((Y * Y).sum(axis=2, keepdims=True))
    return Y / xp.where(length > 0, length, 1.0)  # eq. 5.4


def width(q: int) -> int:
    """Columns of `start` for q ≥ 2 coordinates."""
    return q - 1 + _EXTRA


def median_distances(Z: Array) -> Array:
    """(b,) median distance of two rows, over up to 256 evenly spaced rows of each part; 1 if that is 0."""
    xp = namespace(Z)
    m = Z.shape[1]
    picks = xp.arange(min(m, _PAIRS)) * m // min(m, _PAIRS)
    sample = Z[:, picks] - Z[:, :1]
    squares = (sample * sample).sum(axis=2)
    distances = squares[:, :, None] + squares[:, None] - 2.0 * sample @ sample.transpose(0, 2, 1)
    upper = xp.triu_indices(len(picks), 1)
    if not len(upper[0]):
        return xp.ones(len(Z))
    middle = xp.median(xp.sqrt(xp.maximum(distances[:, upper[0], upper[1]], 0.0)), axis=1)
    return xp.where(middle > 0, middle, 1.0)


def _stored(Z: Array, scales: Array) -> tuple[Callable[[Array], Array], Array]:
    """The normalised affinity, in float32, as a product; and its first eigenvector (b, m, 1)."""
    xp = namespace(Z)
    scaled = ((Z - Z.mean(axis=1, keepdims=True)) / scales[:, None, None]).astype(np.float32)
    squares = 0.5 * (scaled * scaled).sum(axis=2, keepdims=True)
    ones = xp.ones_like(squares)
    # x · y − |x|²/2 − |y|²/2 by one product: two passes over the matrix less.
    left, right = xp.concatenate([scaled, -squares, -ones], axis=2), xp.concatenate([scaled, ones, squares], axis=2)
    m = Z.shape[1]
    S, degree = xp.empty((len(Z), m, m), dtype=np.float32), xp.empty((len(Z), m, 1))
    for tile in ranges(m, _TILE):
        some, local = S[:, tile], xp.arange(tile.stop - tile.start)
        xp.matmul(left[:, tile], right.transpose(0, 2, 1), out=some)
        xp.minimum(some, 0, out=some)
        xp.exp(some, out=some)  # eq. 5.1
        some[:, local, local + tile.start] = 0
        degree[:, tile] = some.sum(axis=2, dtype=np.float64)[:, :, None]  # eq. 5.2
    root = xp.where(degree > 0, 1.0 / xp.sqrt(xp.where(degree > 0, degree, 1.0)), 0.0)

    def apply(V: Array) -> Array:
        return root * (S @ (root * V).astype(np.float32)).astype(np.float64)  # eq. 5.3

    return apply, _first(degree)


def _streamed(Z: Array, scales: Array) -> tuple[Callable[[Array], Array], Array]:
    """The same without storing the affinity."""
    xp = namespace(Z)
    b, m, d = Z.shape
    flat = xp.ascontiguousarray(Z.reshape(b * m, d))
    parts = Partition(xp.arange(b * m, dtype=np.int64), xp.arange(b + 1, dtype=np.int64) * m)
    degree = degrees(flat, scales, parts)

    def apply(V: Array) -> Array:
        return normalised_product(flat, scales, degree, xp.ascontiguousarray(V.reshape(b * m, -1)), parts).reshape(
            V.shape
        )

    return apply, _first(degree.reshape(b, m, 1))


def _first(degree: Array) -> Array:
    """√degree, of length 1."""
    xp = namespace(degree)
    root = xp.sqrt(degree)
    length = xp.sqrt((root * root).sum(axis=1, keepdims=True))
    return root / xp.where(length > 0, length, 1.0)
