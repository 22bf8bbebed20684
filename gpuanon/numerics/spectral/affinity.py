"""RBF affinity of rows: degrees, and the normalised product for an eigensolver, without storing the matrix.

S_ij = exp(−‖x_i − x_j‖² / 2σ²) for two rows of one part, 0 on the diagonal and across parts (eq. 5.1–5.3 of [1]).
With a `Partition`, S is block-diagonal over its parts, and all parts are worked on together.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, fig. 5-1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.ranges import ranges, same_size_batches
from gpuanon.arrays.segments import runs
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

_ROWS = 128
"""Rows per thread block, as in products.cuh."""

_AFFINITIES = 1 << 18
"""Affinities that one thread holds at a time: they fit its cache."""

_TILES = 16
"""Tiles of a task: what the tiles of a part have in common is computed once for so many of them."""


def affinity(X: Array, sigma: float) -> Array:
    """(n, n) affinity of the rows of `X` (n, d), stored; for one small part."""
    return _block(_factors((X - X.mean(axis=0))[None], np.full(1, _gamma(sigma))), slice(0, len(X)))[0]


def degrees(X: Array, sigma: float | Array, within: Partition | None = None) -> Array:
    """(n,) D_ii = Σ_j S_ij over the rows j of i's own part.

    sigma  : one number, or (g,) one per part
    within : the parts; by default all rows are one part
    """
    _check(X, sigma, within)
    return _product(X, sigma, None, within)[:, 0]


def normalised_product(
    X: Array, sigma: float | Array, degrees: Array, V: Array, within: Partition | None = None
) -> Array:
    """(n, q) D^{-1/2} S D^{-1/2} V for a block of vectors `V` (n, q), S never stored.

    A row without neighbours (degree 0) is mapped to 0.

    Cost : Σ over parts of size² · (d + q), memory O(n q).
    """
    _check(X, sigma, within)
    if V.ndim != 2 or len(V) != len(X):
        raise ParameterError(f"V: a block of vectors with {len(X)} rows is needed")
    xp = namespace(X)
    connected = degrees > 0
    scale = xp.where(connected, 1 / xp.sqrt(xp.where(connected, degrees, 1)), 0)[:, None].astype(X.dtype)
    return scale * _product(X, sigma, scale * V, within)


def _check(X: Array, sigma: Any, within: Partition | None) -> None:
    """Raise for arguments for which the formulas are not defined."""
    if X.ndim != 2 or X.dtype not in (np.float32, np.float64):
        raise ParameterError("X: a matrix of float32 or float64 is needed")
    if within is not None and within.n != len(X):
        raise ParameterError(f"within: a partition of {len(X)} rows is needed, got one of {within.n}")
    if np.ndim(sigma) and len(sigma) != (1 if within is None else within.parts):
        raise ParameterError("sigma: one number, or one per part, is needed")
    positive = (sigma > 0).all() if np.ndim(sigma) else sigma > 0
    if not bool(positive):
        raise ParameterError("sigma: numbers above 0 are needed")


def _gamma(sigma: Any) -> Any:
    """1 / 2σ²."""
    return 0.5 / (sigma * sigma)


def _product(X: Array, sigma: float | Array, V: Array | None, within: Partition | None) -> Array:
    """(n, q) S V; the degrees (n, 1) if `V` is None."""
    within = Partition.whole(len(X), like=X) if within is None else within
    return _product_cuda(X, sigma, V, within) if on_device(X) else _product_numpy(X, sigma, V, within)


def _product_cuda(X: Array, sigma: float | Array, V: Array | None, within: Partition) -> Array:
    """The fused kernels, on rows sorted by part."""
    xp = namespace(X)
    n, d = X.shape
    tiles, _, owner = runs(within.starts, _ROWS)
    gammas = xp.empty(within.parts, dtype=X.dtype)
    gammas[...] = _gamma(sigma)
    Z = xp.ascontiguousarray(X[within.order])
    given: tuple[Any, ...] = (Z, within.starts, gammas, owner, tiles, d)
    q = 1 if V is None else V.shape[1]
    out, sorted_out = xp.empty((n, q), dtype=X.dtype), xp.empty((n, q), dtype=X.dtype)
    if V is None:
        launch("affinity", "degrees", *given, sorted_out, over=len(owner), each=1, threads=_ROWS)
    else:
        columns = 16 if X.dtype == np.float32 else 8  # as in products.cuh
        V = xp.ascontiguousarray(V[within.order], dtype=X.dtype)
        launch("affinity", "product", *given, V, q, sorted_out, over=(len(owner), q), each=(1, columns), threads=_ROWS)
    out[within.order] = sorted_out
    return out


def _product_numpy(X: Host, sigma: float | Host, V: Host | None, within: Partition) -> Host:
    """Batches of parts of one size, so that the rounding of a part does not depend on the others."""
    out = np.empty((len(X), 1 if V is None else V.shape[1]), dtype=X.dtype)
    gammas = np.broadcast_to(_gamma(np.asarray(sigma, dtype=np.float64)), (within.parts,))

    def work(item: tuple[Host, Host, list[slice]]) -> None:
        parts, rows, tiles = item
        Z = X[rows]
        factors = _factors(Z - Z.mean(axis=1, keepdims=True), gammas[parts])
        W = None if V is None else V[rows]
        for tile in tiles:
            S = _block(factors, tile)
            out[rows[:, tile]] = S.sum(axis=2, keepdims=True) if W is None else np.matmul(S, W)

    with one_blas_thread():
        each(work, _batches(within))
    return out


def _batches(within: Partition) -> Iterator[tuple[Host, Host, list[slice]]]:
    """Parts of equal size with their rows (b, size), and some tiles of rows whose affinities are computed at once."""
    sizes = within.sizes
    for parts in same_size_batches(sizes, lambda size: max(1, _AFFINITIES // size**2)):
        size = int(sizes[parts[0]])
        rows = within.order[within.starts[parts][:, None] + np.arange(size)]
        tiles = ranges(size, max(1, min(size, _AFFINITIES // size)))
        for some in ranges(len(tiles), _TILES):
            yield parts, rows, tiles[some]


def _factors(Z: Array, gammas: Host) -> tuple[Array, Array]:
    """Two matrices (b, size, d + 2) and (b, d + 2, size) whose product is −γ‖x − y‖² of all pairs; Z (b, size, d)."""
    xp = namespace(Z)
    scaled = Z * xp.sqrt(xp.asarray(gammas))[:, None, None].astype(Z.dtype)
    squares = (scaled * scaled).sum(axis=2, keepdims=True)
    ones = xp.ones_like(squares)
    left = xp.concatenate([2 * scaled, -squares, -ones], axis=2)
    return left, xp.concatenate([scaled, ones, squares], axis=2).transpose(0, 2, 1)


def _block(factors: tuple[Array, Array], tile: slice) -> Array:
    """(b, tile, size) affinities of the rows `tile` of each part to all its rows."""
    xp = namespace(factors[0])
    S = xp.matmul(factors[0][:, tile], factors[1])
    xp.minimum(S, 0, out=S)  # −γ‖x − y‖², which rounding may make positive
    xp.exp(S, out=S)
    local = xp.arange(tile.stop - tile.start)
    S[:, local, local + tile.start] = 0
    return S
