"""Rosenblatt's transformation on a device: launches that fit its memory and end early enough."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.kernels import launch, limits, pieces
from gpuanon.arrays.ranges import ranges

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
