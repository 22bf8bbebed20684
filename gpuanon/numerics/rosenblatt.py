"""Rosenblatt's transformation of a Gaussian mixture: conditional distribution functions, column after column.

Many mixtures at once: block b transforms its own samples under its own components.  Both lie block after block, so
that two arrays of offsets say which belong together.  With Λ = L Lᵀ and the whitening matrix W = L⁻¹, the j-th
standardised conditional residual of a component is the j-th entry of W (x − mean), and its conditional deviation
is 1 / W_jj: one product gives all d conditionals of [2], eq. 12–14 (the paper prints a minus where a plus belongs).

References
----------
.. [1] M. Rosenblatt (1952), Remarks on a multivariate transformation, Ann. Math. Stat. 23, 470–472.
.. [2] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtr

from gpuanon.arrays.backend import Array, on_device
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

Floats = np.ndarray[Any, Any]

TILE = 1 << 15  # (sample, component) cells of a tile: its handful of float64 arrays stay in the second-level cache


def conditional_cdfs(
    x: Array, sample_starts: Array, means: Array, whitening: Array, log_weights: Array, component_starts: Array
) -> Array:
    """Conditional distribution functions of a Gaussian mixture at `x`, one mixture a block (eq. 12–14 of [2]).

    ``u[i, j] = F_j(x[i, j] | x[i, :j])``.  When the samples of a block follow its mixture, the rows of `u` are
    uniform on (0, 1)^d.

    Parameters
    ----------
    x : (n, d) samples, block after block
    sample_starts : (blocks + 1,) int64; block b holds the samples ``sample_starts[b]:sample_starts[b + 1]``
    means : (c, d) means of the components, block after block
    whitening : (c, d, d) lower triangular inverses of the Cholesky factors of the covariances
    log_weights : (c,) logarithms of the components' weights, up to a constant for each block; −inf is weight 0
    component_starts : (blocks + 1,) int64; block b holds the components ``component_starts[b]:component_starts[b + 1]``

    Returns
    -------
    (n, d) array of x's type, within [0, 1]

    Notes
    -----
    Cost : O(samples · components · d²) a block; memory O(n d) and a few tiles.
    """
    if on_device(x):
        return _conditional_cdfs_cuda(x, sample_starts, means, whitening, log_weights, component_starts)
    return _conditional_cdfs_numpy(x, sample_starts, means, whitening, log_weights, component_starts)


def _conditional_cdfs_numpy(
    x: Floats, sample_starts: Floats, means: Floats, whitening: Floats, log_weights: Floats, component_starts: Floats
) -> Floats:
    """Tiles of samples against all components of their block, on all cores."""
    from threadpoolctl import threadpool_limits

    u = np.empty_like(x)
    tiles = []
    for block in range(len(sample_starts) - 1):
        components = slice(int(component_starts[block]), int(component_starts[block + 1]))
        rows = max(16, TILE // max(1, components.stop - components.start))
        stop = int(sample_starts[block + 1])
        tiles += [(slice(at, min(at + rows, stop)), components) for at in range(int(sample_starts[block]), stop, rows)]

    def transform(tile: tuple[slice, slice]) -> None:
        samples, components = tile
        u[samples] = _tile(x[samples], means[components], whitening[components], log_weights[components])

    with threadpool_limits(1, user_api="blas"):  # the threads are ours: products inside them must not start more
        each(transform, tiles)
    return u


def _tile(x: Floats, means: Floats, whitening: Floats, log_weights: Floats) -> Floats:
    """(m, d) conditional distribution functions of m samples under c components."""
    d = x.shape[1]
    centre = means[0]  # near the samples: less cancels in W x − W mean
    x, means = x - centre, means - centre
    u = np.empty_like(x)
    log_posterior = np.broadcast_to(log_weights, (len(x), len(means))).copy()
    for j in range(d):
        z = x[:, : j + 1] @ whitening[:, j, : j + 1].T
        z -= np.einsum("ci,ci->c", whitening[:, j, : j + 1], means[:, : j + 1])
        posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
        u[:, j] = np.einsum("mc,mc->m", posterior, ndtr(z)) / posterior.sum(axis=1)
        np.square(z, out=z)
        z *= -0.5
        z += np.log(whitening[:, j, j])
        log_posterior += z
    return np.clip(u, 0.0, 1.0, out=u)


def _conditional_cdfs_cuda(
    x: Array, sample_starts: Array, means: Array, whitening: Array, log_weights: Array, component_starts: Array
) -> Array:
    """The same by the kernel in ``kernels/rosenblatt.cu``."""
    raise NotImplementedError


def whiten(covariances: Array, jitter: float = 0.0) -> tuple[Array, Array]:
    """Cholesky factors L of ``covariances + jitter · I`` and their inverses, in lock step.

    Returns
    -------
    (c, d, d) lower triangular L, and (c, d, d) lower triangular L⁻¹

    Raises
    ------
    ParameterError
        When a matrix is singular to working precision.
    """
    from gpuanon.arrays.backend import namespace

    xp = namespace(covariances)
    d = covariances.shape[1]
    loaded = covariances + jitter * xp.eye(d, dtype=covariances.dtype)
    L, W = xp.zeros_like(loaded), xp.zeros_like(loaded)
    # A pivot below this share of the largest variance is rounding, not spread.
    smallest = 64 * d * np.finfo(loaded.dtype).eps * xp.max(loaded.diagonal(axis1=1, axis2=2), axis=1)
    for j in range(d):
        pivot = loaded[:, j, j] - (L[:, j, :j] ** 2).sum(axis=1)
        if bool((~(pivot > smallest)).any()):
            raise ParameterError(
                "alpha: the covariance of a group is singular (its records share a value or lie on a line)",
                hint="give alpha a value above 0; 1/3 is usual for standardised columns",
            )
        L[:, j, j] = xp.sqrt(pivot)
        W[:, j, j] = 1 / L[:, j, j]
        if j + 1 < d:
            below = loaded[:, j + 1 :, j] - (L[:, j + 1 :, :j] * L[:, j : j + 1, :j]).sum(axis=2)
            L[:, j + 1 :, j] = below * W[:, j, j, None]
        W[:, j, :j] = -(L[:, j, :j, None] * W[:, :j, :j]).sum(axis=1) * W[:, j, j, None]
    return L, W
