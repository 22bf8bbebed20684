"""Rosenblatt's transformation of a Gaussian mixture: conditional distribution functions, column after column.

Many mixtures at once: the samples of block b are transformed under the components of block b.  Both are sorted by
block, with two arrays of offsets.  With Λ = L Lᵀ and the whitening matrix W = L⁻¹, the j-th standardised conditional
residual of a component is the j-th entry of W (x − mean), and its conditional deviation is 1 / W_jj: one product gives
all d conditionals of [2], eq. 12–14 (the paper has a minus sign where a plus is correct).

References
----------
.. [1] M. Rosenblatt (1952), Remarks on a multivariate transformation, Ann. Math. Stat. 23, 470–472.
.. [2] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.compiled import use_compiled
from gpuanon.arrays.kernels import launch, limits, pieces
from gpuanon.arrays.ranges import ranges, row_ranges
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

# A launch ends well before the two seconds after which a display driver stops it, also on a small GPU: about 10^10
# operations in float64 altogether, and a loop of at most 16 000 components of 10 columns in one thread.
_WORK = 10**10
_LONGEST_LOOP = 160_000
_NORMAL_COST = 60  # operations of a distribution function and an exponential
_FEWEST = 1 << 12  # samples of a launch; fewer leave a GPU idle


def conditional_cdfs_cuda(
    x: Array, sample_starts: Array, means: Array, whitening: Array, log_weights: Array, component_starts: Array
) -> Array:
    """`conditional_cdfs` by the kernel in ``kernels/rosenblatt.cu``: one thread per sample, sums in float64.

    A launch is cut where it would run long: a GPU that also drives a display ends a kernel after about two seconds.
    """
    xp = namespace(x)
    n, d = x.shape
    real = x.dtype
    components = int((component_starts[1:] - component_starts[:-1]).max())
    step = max(1, min(components, _LONGEST_LOOP // d))
    in_shared = step >= components and _threads(d) > 0
    state = 0 if in_shared else 4 * d * np.dtype(np.float64).itemsize
    log_diagonal = xp.log(whitening.diagonal(axis1=1, axis2=2)).astype(real)
    mixture = [xp.ascontiguousarray(array, dtype=real) for array in (means, whitening, log_diagonal, log_weights)]
    u = xp.empty_like(x, order="C")
    for piece in pieces(n, 2 * d * real.itemsize + state):
        for at in ranges(piece.stop - piece.start, max(_FEWEST, _WORK // (step * d * (d + _NORMAL_COST)))):
            rows = slice(piece.start + at.start, piece.start + at.stop)
            u[rows] = _launches(x[rows], sample_starts, component_starts, mixture, rows, (components, step), in_shared)
    return u


def _threads(d: int) -> int:
    """Threads of a thread block whose state fits shared memory; 0 if that of one warp does not."""
    state = 4 * d * np.dtype(np.float64).itemsize  # bytes per thread
    return next((count for count in (128, 64, 32) if count * state <= limits().shared), 0)


def _launches(
    x: Array, sample_starts: Array, component_starts: Array, mixture: list[Array], at: slice, cut: tuple[int, int],
    in_shared: bool,
) -> Array:  # fmt: skip
    """Transform the samples `at`, by one launch or by one for every ``cut[1]`` of the ``cut[0]`` components."""
    xp, (n, d) = namespace(x), x.shape
    threads = _threads(d) or 128
    rows = xp.clip(sample_starts, at.start, at.stop) - at.start
    tiles = xp.zeros_like(sample_starts)
    xp.cumsum(-(-(rows[1:] - rows[:-1]) // threads), out=tiles[1:])
    columns, transformed = xp.ascontiguousarray(x.T), xp.empty((d, n), dtype=x.dtype)
    scratch = None if in_shared else xp.empty((4, d, n), dtype=np.float64)
    arguments = (columns, rows, component_starts, tiles, len(rows) - 1, n, d, *mixture, scratch)
    most = n // threads + len(rows) - 1  # an upper bound of the number of tiles, which is known on the device only
    shared = threads * 4 * d * np.dtype(np.float64).itemsize if in_shared else 0
    for first in range(0, cut[0], cut[1]):
        done = first + cut[1] >= cut[0]
        launch("rosenblatt", "rosenblatt", *arguments, first, cut[1], done, transformed, over=most, each=1,
               threads=threads, shared=shared)  # fmt: skip
    return transformed.T


Weigh: TypeAlias = Callable[[Host, Host, Host, Host, Host], None]

TILE = 1 << 15  # (sample, component) pairs of a tile: its few float64 arrays fit the second-level cache
_PAIRS = 16  # pairs that count as one row of one pass when compiled functions are chosen
_TILES = 32  # tiles of one task, processed one after the other in the same memory
_GROUPS = 1 << 11  # matrices that one thread factorises at a time
_VANISHED = 1e-200  # smaller sums of posterior weights have lost their precision to underflow

# erfcx(t / √2) as a ratio of two polynomials in t (lowest power first).  It interpolates at 16 points, the Chebyshev
# nodes of t / (t + 3.5), computed with 60 digits: relative error at most 2.3e-13 on 0 ≤ t ≤ 38, beyond which the
# density underflows.  Only positive terms are added, so no order of addition loses precision.
_NUMERATOR = np.array(
    [
        0.99999999999992821044,
        1.31845142834894888212,
        0.8537188628711709372,
        0.34159759721839750896,
        0.090325941775248824166,
        0.0157725381456341607728,
        0.0016965166330803173854,
        0.000088444392929108326762,
    ]
)
_DENOMINATOR = np.array(
    [
        1.0,
        2.1163359891405164219,
        2.0423106743581283181,
        1.178919275691305166,
        0.44767604322931102862,
        0.11533302153177044294,
        0.019878794309878453384,
        0.0021262682708124268491,
        0.00011084860808521393773,
    ]
)
_SIGN, _BIT = np.uint64(1 << 63), np.uint64(1)


def conditional_cdfs(
    x: Array, sample_starts: Array, means: Array, whitening: Array, log_weights: Array, component_starts: Array
) -> Array:
    """Conditional distribution functions of a Gaussian mixture at `x`, one mixture per block (eq. 12–14 of [2]).

    ``u[i, j] = F_j(x[i, j] | x[i, :j])``.  When the samples of a block follow its mixture, the rows of `u` are
    uniform on (0, 1)^d.

    Parameters
    ----------
    x : (n, d) samples, sorted by block, float64 or float32.  In float32, the mixture and the result are rounded to it;
        a device computes Φ and exponentials in it as well, the host in float64
    sample_starts : (blocks + 1,) int64; block b holds the samples ``sample_starts[b]:sample_starts[b + 1]``
    means : (c, d) means of the components, sorted by block
    whitening : (c, d, d) lower triangular inverses of the Cholesky factors of the covariances
    log_weights : (c,) logarithms of the components' weights, up to a constant for each block; −inf is weight 0
    component_starts : (blocks + 1,) int64; block b holds the components ``component_starts[b]:component_starts[b + 1]``

    Returns
    -------
    (n, d) array of x's type, within [0, 1]

    Notes
    -----
    Cost : O(samples · components · d²) per block; memory O(n d) and a few tiles.
    """
    if on_device(x):
        return conditional_cdfs_cuda(x, sample_starts, means, whitening, log_weights, component_starts)
    return _conditional_cdfs_numpy(x, sample_starts, means, whitening, log_weights, component_starts)


def _conditional_cdfs_numpy(
    x: Host, sample_starts: Host, means: Host, whitening: Host, log_weights: Host, component_starts: Host
) -> Host:
    """Ranges of samples against all components of their block, on all cores."""
    u = np.empty_like(x)
    pairs = int((np.diff(sample_starts) * np.diff(component_starts)).sum())
    weigh = _weigh_compiled if use_compiled(pairs * x.shape[1] // _PAIRS) else _weigh_numpy
    tasks = []
    for block in range(len(sample_starts) - 1):
        components = slice(int(component_starts[block]), int(component_starts[block + 1]))
        rows = _TILES * _rows_of_tile(components.stop - components.start)
        stop = int(sample_starts[block + 1])
        cuts = [(at, min(at + rows, stop)) for at in range(int(sample_starts[block]), stop, rows)]
        tasks += [(slice(*cut), components) for cut in cuts]

    def transform(task: tuple[slice, slice]) -> None:
        samples, components = task
        mixture = means[components], whitening[components], log_weights[components]
        u[samples] = _transform_range(x[samples], *mixture, weigh)

    each(transform, tasks)
    return u


def _rows_of_tile(components: int) -> int:
    """Samples of a tile with this number of components."""
    return max(16, TILE // max(1, components))


def _transform_range(x: Host, means: Host, whitening: Host, log_weights: Host, weigh: Weigh) -> Host:
    """(m, d) conditional distribution functions of m samples under c components, tile after tile.

    Terms that do not depend on the sample are computed once, and the tiles share their memory: page faults of fresh
    memory for each tile would cost as much time as the arithmetic.
    """
    means, whitening = means.astype(np.float64, copy=False), whitening.astype(np.float64, copy=False)
    forms = _linear_forms(means - means[0], whitening)  # origin near the samples: less cancellation
    samples = np.column_stack([x - means[0], np.ones(len(x))])
    log_scales = np.log(whitening.diagonal(axis1=1, axis2=2))
    constants = np.exp(log_weights + np.cumsum(log_scales, axis=1).T - log_scales.T - log_weights.max())
    rows = min(len(x), _rows_of_tile(len(means)))
    memory = np.empty((6, rows * len(means)))
    u, lost = np.empty(x.shape), np.zeros(len(x), dtype=bool)
    for at in range(0, len(x), rows):
        tile = slice(at, at + rows)
        lost[tile] = _tile(samples[tile], forms, constants, u[tile], memory, weigh)
    if lost.any():
        u[lost] = _tile_in_logs(samples[lost], forms, log_scales, log_weights)
    return np.clip(u, 0.0, 1.0, out=u)


def _tile(samples: Host, forms: Host, constants: Host, u: Host, memory: Host, weigh: Weigh) -> Host:
    """Fill `u` for a tile of samples; return which samples are so far from every component that the weights underflow.

    The posterior weights are not kept as logarithms, so that one exponential serves the normal density and the normal
    distribution function.  Factors that do not depend on the sample (weight and scale) are multiplied in by the sums
    over components.  Samples with underflow have to be recomputed in logarithms.
    """
    shape = len(samples), forms.shape[2]
    pairs = memory[:, : shape[0] * shape[1]]
    posterior, y, _, below = (row.reshape(shape) for row in pairs[:4])
    posterior[...] = 1.0
    totals = np.empty(u.shape)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # only in samples that are recomputed
        for j, form in enumerate(forms):
            np.matmul(samples, form, out=y)
            np.matmul(posterior, constants[j], out=totals[:, j])
            weigh(pairs[0], pairs[1], pairs[2], pairs[3], pairs[4:])
            np.matmul(below, constants[j], out=u[:, j])
        u /= 2 * totals
    lost: Host = ~((totals > _VANISHED) & (totals < 1 / _VANISHED) & np.isfinite(u))
    return np.asarray(np.logical_or.reduce(lost, axis=1))


def _linear_forms(means: Host, whitening: Host) -> Host:
    """(d, d + 1, c) forms: the product of (x, 1) with the j-th are the j-th standardised residuals of x, negated."""
    shifts = np.einsum("cji,ci->cj", whitening, means)
    return np.ascontiguousarray(np.concatenate([-whitening, shifts[:, :, None]], axis=2).transpose(1, 2, 0))


def _weigh_numpy(posterior: Host, y: Host, density: Host, below: Host, scratch: Host) -> None:
    """2 Φ(−y) times the posterior into `below`; then the posterior is multiplied by exp(−y²/2).

    2 Φ(−t) = exp(−t²/2) erfcx(t/√2) for t ≥ 0, where erfcx is smooth: it is approximated by a ratio of two polynomials,
    both by Horner's rule.  Nothing cancels, so the relative error is below 5e-13 wherever Φ is a normal number.

    posterior, y, density, below : (pairs,), the last two overwritten
    scratch : (2, pairs), overwritten
    """
    t, work = scratch
    np.abs(y, out=t)
    np.multiply(t, t, out=density)
    density *= -0.5
    np.exp(density, out=density)
    for polynomial, value in ((_NUMERATOR, below), (_DENOMINATOR, work)):
        np.multiply(t, polynomial[-1], out=value)
        for coefficient in polynomial[-2:0:-1]:
            value += coefficient
            value *= t
        value += polynomial[0]
    below /= work
    below *= density
    # 2 minus that where y < 0, by integer operations on the sign bit, at a quarter of the cost of np.where: the bits of
    # 2.0 are the sign bit shifted by one.
    sign, bits = work.view(np.uint64), below.view(np.uint64)
    np.bitwise_and(y.view(np.uint64), _SIGN, out=sign)
    np.bitwise_xor(bits, sign, out=bits)
    np.right_shift(sign, _BIT, out=sign)
    below += work
    below *= posterior
    posterior *= density


def _weigh_compiled(posterior: Host, y: Host, density: Host, below: Host, _: Host) -> None:
    """The same numbers, with all elementwise operations but the exponential in two loops."""
    from gpuanon.masking.operations.dither.compiled_rosenblatt import negate_half_squares, weigh

    negate_half_squares(y, density)
    np.exp(density, out=density)
    weigh(y, density, _NUMERATOR, _DENOMINATOR, posterior, below)


def warm_compiled() -> None:
    """Compile the functions of a tile, or load their machine code; to be called where numba is installed."""
    means, whitening = np.zeros((2, 1)), np.ones((2, 1, 1))
    _transform_range(np.zeros((2, 1)), means, whitening, np.log(np.full(2, 0.5)), _weigh_compiled)


def _tile_in_logs(samples: Host, forms: Host, log_scales: Host, log_weights: Host) -> Host:
    """The same with the posterior in logarithms: slower, and finite for every sample."""
    from scipy.special import ndtr

    u = np.empty((len(samples), len(forms)))
    log_posterior = np.broadcast_to(log_weights, (len(samples), len(log_weights))).copy()
    for j in range(len(forms)):
        z = -(samples @ forms[j])
        posterior = np.exp(log_posterior - log_posterior.max(axis=1, keepdims=True))
        u[:, j] = np.einsum("mc,mc->m", posterior, ndtr(z)) / posterior.sum(axis=1)
        log_posterior += log_scales[:, j] - 0.5 * z * z
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
    L, W = xp.zeros_like(covariances), xp.zeros_like(covariances)

    def some(groups: slice) -> Array:
        return _factorise(covariances[groups] + jitter * eye, L[groups], W[groups])

    eye = xp.eye(covariances.shape[1], dtype=covariances.dtype)
    regular = each(some, row_ranges(covariances, _GROUPS))
    if not all(bool(one) for one in regular):
        raise ParameterError(
            "alpha: the covariance of a group is singular (its records share a value or lie on a line)",
            hint="give alpha a value above 0; 1/3 is usual for standardised columns",
        )
    return L, W


def _factorise(loaded: Array, L: Array, W: Array) -> Array:
    """Fill L and W, which are zero, for some of the matrices; return () whether all of them are regular."""
    xp, d = namespace(loaded), loaded.shape[1]
    # A pivot below this share of the largest variance is a rounding error.
    smallest = 64 * d * np.finfo(loaded.dtype).eps * xp.max(loaded.diagonal(axis1=1, axis2=2), axis=1)
    regular = xp.ones(len(loaded), dtype=bool)  # looked at once, after the loop: each look waits for the device
    for j in range(d):
        pivot = loaded[:, j, j] - (L[:, j, :j] ** 2).sum(axis=1)
        regular &= pivot > smallest
        L[:, j, j] = xp.sqrt(xp.where(regular, pivot, 1))
        W[:, j, j] = 1 / L[:, j, j]
        if j + 1 < d:
            below = loaded[:, j + 1 :, j] - (L[:, j + 1 :, :j] * L[:, j : j + 1, :j]).sum(axis=2)
            L[:, j + 1 :, j] = below * W[:, j, j, None]
        W[:, j, :j] = -(L[:, j, :j, None] * W[:, :j, :j]).sum(axis=1) * W[:, j, j, None]
    return regular.all()
