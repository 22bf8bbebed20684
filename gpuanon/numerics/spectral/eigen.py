"""Leading eigenvectors of symmetric operators given by their products, for many operators at once.

References
----------
.. [1] C. Musco, C. Musco (2015), Randomized block Krylov methods for stronger and faster approximate singular value
   decomposition, NeurIPS.
"""

from __future__ import annotations

from collections.abc import Callable

from gpuanon.arrays.backend import Array, namespace

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
