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

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

Floats = np.ndarray[Any, Any]

TILE = 1 << 15  # (sample, component) cells of a tile: its handful of float64 arrays stay in the second-level cache
_VANISHED = 1e-200  # posterior weights that sum to less have lost their digits to underflow

_SIGN = np.int64(-(2**63))

# R(t) = erfcx(t / √2) / 2 as a ratio of polynomials in t, highest power first, fitted to SciPy's erfcx with weights
# exp(−t²/2): so weighted it is off by at most 1.2e-12 on 0 ≤ t ≤ 9, and beyond 9 the weight itself is below 1e-17.
_NUMERATOR = (
    0.0021961415626812583,
    0.0263391782220786,
    0.13812038438359686,
    0.3717913481332233,
    0.5000000000011355,
)
_DENOMINATOR = (
    0.005501669783742188,
    0.06610482877839535,
    0.35070081476602794,
    1.006153686298189,
    1.5414672574093682,
    1.0,
)


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

    each(transform, tiles)
    return u


def _tile(x: Floats, means: Floats, whitening: Floats, log_weights: Floats) -> Floats:
    """(m, d) conditional distribution functions of m samples under c components.

    The posterior weights are carried as they are, so that one exponential serves the normal density and the normal
    distribution function; what does not depend on the sample (weight and scale) is multiplied in by the sums over
    components.  Samples so far from every component that the weights vanish are done again in logarithms.
    """
    d = x.shape[1]
    forms = _linear_forms(means - means[0], whitening)  # origin near the samples: less cancels
    samples = np.column_stack([x - means[0], np.ones(len(x))])
    log_scales = np.log(whitening.diagonal(axis1=1, axis2=2))
    constants = np.exp(log_weights + np.cumsum(log_scales, axis=1).T - log_scales.T - log_weights.max())
    u, lost = np.empty_like(x), np.zeros(len(x), dtype=bool)
    posterior = np.ones((len(x), len(means)))
    z, density, excess, *work = (np.empty_like(posterior) for _ in range(5))
    for j in range(d):
        total = posterior @ constants[j]
        lost |= ~((total > _VANISHED) & (total < 1 / _VANISHED))
        np.matmul(samples, forms[j], out=z)
        _density_and_excess(z, density, excess, *work)
        excess *= posterior
        with np.errstate(invalid="ignore", divide="ignore"):  # only in samples that are done again
            u[:, j] = 0.5 + (excess @ constants[j]) / total
        posterior *= density
    if lost.any():
        u[lost] = _tile_in_logs(samples[lost], forms, log_scales, log_weights)
    return np.clip(u, 0.0, 1.0, out=u)


def _linear_forms(means: Floats, whitening: Floats) -> Floats:
    """(d, d + 1, c) forms: the product of (x, 1) with the j-th are the j-th standardised residuals of x."""
    shifts = np.einsum("cji,ci->cj", whitening, means)
    return np.ascontiguousarray(np.concatenate([whitening, -shifts[:, :, None]], axis=2).transpose(1, 2, 0))


def _density_and_excess(z: Floats, density: Floats, excess: Floats, t: Floats, work: Floats) -> None:
    """exp(−z²/2) into `density` and Φ(z) − ½ into `excess`; `t` and `work` are overwritten.

    Φ(−t) = exp(−t²/2) R(t) for t ≥ 0, where R(t) = erfcx(t/√2)/2 is smooth: a ratio of two polynomials stands in for
    it, and the error of Φ is below 2e-12 everywhere.
    """
    np.multiply(z, z, out=work)
    work *= -0.5
    np.exp(work, out=density)
    np.abs(z, out=t)
    _polynomial(t, _NUMERATOR, excess)
    _polynomial(t, _DENOMINATOR, work)
    excess /= work
    excess *= density
    np.subtract(0.5, excess, out=excess)
    # The sign of z: two integer operations cost half of a copysign.
    sign, bits = work.view(np.int64), excess.view(np.int64)
    np.bitwise_and(z.view(np.int64), _SIGN, out=sign)
    np.bitwise_xor(bits, sign, out=bits)


def _polynomial(t: Floats, coefficients: tuple[float, ...], out: Floats) -> None:
    """Horner's scheme, in place; the highest power comes first."""
    np.multiply(t, coefficients[0], out=out)
    for coefficient in coefficients[1:-1]:
        out += coefficient
        out *= t
    out += coefficients[-1]


def _tile_in_logs(samples: Floats, forms: Floats, log_scales: Floats, log_weights: Floats) -> Floats:
    """The same with the posterior in logarithms: slower, and finite for every sample."""
    u = np.empty((len(samples), len(forms)))
    log_posterior = np.broadcast_to(log_weights, (len(samples), len(log_weights))).copy()
    for j in range(len(forms)):
        z = samples @ forms[j]
        posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
        u[:, j] = np.einsum("mc,mc->m", posterior, ndtr(z)) / posterior.sum(axis=1)
        log_posterior += log_scales[:, j] - 0.5 * z * z
    return u


def _conditional_cdfs_cuda(
    x: Array, sample_starts: Array, means: Array, whitening: Array, log_weights: Array, component_starts: Array
) -> Array:
    """The same by the kernel in ``kernels/rosenblatt.cu``: a thread a sample, float64 sums whatever the type of `x`."""
    from gpuanon.arrays.kernels import launch, limits, pieces

    xp = namespace(x)
    n, d = x.shape
    real = x.dtype
    state = 4 * d * np.dtype(np.float64).itemsize  # what a thread keeps
    threads = next((count for count in (128, 64, 32) if count * state <= limits().shared), 0)
    in_shared = threads > 0
    threads = threads or 128
    log_diagonal = xp.log(whitening.diagonal(axis1=1, axis2=2)).astype(real)
    mixture = [xp.ascontiguousarray(array, dtype=real) for array in (means, whitening, log_diagonal, log_weights)]
    u = xp.empty_like(x, order="C")
    for at in pieces(n, 2 * d * real.itemsize + (0 if in_shared else state)):
        rows = xp.clip(sample_starts, at.start, at.stop) - at.start
        tiles = xp.zeros_like(sample_starts)
        xp.cumsum(-(-(rows[1:] - rows[:-1]) // threads), out=tiles[1:])
        columns, transformed = xp.ascontiguousarray(x[at].T), xp.empty((d, at.stop - at.start), dtype=real)
        scratch = None if in_shared else xp.empty((4, *transformed.shape), dtype=np.float64)
        arguments = (columns, rows, component_starts, tiles, len(rows) - 1, len(transformed[0]), d, *mixture, scratch)
        most = (at.stop - at.start) // threads + len(rows) - 1  # tiles: how many there are, only the device knows
        shared = threads * state if in_shared else 0
        launch("rosenblatt", "rosenblatt", *arguments, transformed, over=most, each=1, threads=threads, shared=shared)
        u[at] = transformed.T
    return u


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
