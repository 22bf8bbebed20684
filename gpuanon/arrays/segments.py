"""Sums, extremes and covariances of the parts of a partition, repeatable to the bit on either device.

A part is cut into runs of a fixed number of rows.  Each run is summed in a fixed order, then the sums of the runs are
added in order.  So neither the other parts, nor the number of threads, nor the batch size changes a result, and the
rounding error grows with the square root of a part's length at most, not with its length.

Part p consists of the rows ``order[starts[p]:starts[p + 1]]``; the public functions are in `gpuanon.arrays.partition`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.kernels import launch, require
from gpuanon.arrays.ranges import same_size_batches
from gpuanon.arrays.sorting import distinct
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError

_RUN = 1024  # rows of a run
_ADDERS = 32  # slots of a sum
_SQUARE_RUN = 256  # rows of a run for products, which cost d² per run
_ROWS = 1 << 16  # rows that one thread gathers at a time
_ELEMENTS = 1 << 17  # of a batch of runs, rows × columns: they fit a core's cache
_WARPS = 4
_THREADS = 128


def sums(X: Array, order: Array, starts: Array) -> Array:
    """(g, ...) sums, in `X`'s dtype; whole numbers in 64 bits."""
    xp = namespace(X)
    if X.dtype.kind not in "f":
        wide = np.uint64 if X.dtype.kind == "u" else np.int64
        running = xp.concatenate([xp.zeros((1, *X.shape[1:]), dtype=wide), xp.cumsum(X[order], axis=0, dtype=wide)])
        return running[starts[1:]] - running[starts[:-1]]
    return _float_sums(X, order, starts).astype(X.dtype, copy=False)


def means(X: Array, order: Array, starts: Array) -> Array:
    """(g, ...) means, in `X`'s dtype; float64 for whole numbers."""
    dtype = X.dtype if X.dtype.kind == "f" else np.dtype(np.float64)
    total = _float_sums(X, order, starts) if X.dtype.kind == "f" else sums(X, order, starts)
    sizes = (starts[1:] - starts[:-1]).reshape(-1, *(1,) * (X.ndim - 1))
    return (total / sizes).astype(dtype, copy=False)


def extremes(X: Array, order: Array, starts: Array, which: str) -> Array:
    """(g, ...) "minima" or "maxima"; NaN if the column has one in that part."""
    if not on_device(X):
        ufunc = np.minimum if which == "minima" else np.maximum
        return _reduce_on_host(X, order, starts, lambda Z, at: ufunc.reduceat(Z, at, axis=0), X.dtype)
    if X.dtype.kind != "f" and X.dtype.itemsize > 4:
        raise ParameterError(f"extremes of parts: at most 32-bit whole numbers are allowed on a device, got {X.dtype}")
    bounds, first, _ = runs(starts, _RUN)
    flat = _flat(X if X.dtype.kind == "f" else X.astype(np.float64))
    partial = _reduce_on_device(which, flat, order, bounds, flat.dtype)
    if len(first) != len(bounds):
        partial = _reduce_on_device(which, partial, None, first, flat.dtype)
    return partial.reshape(len(starts) - 1, *X.shape[1:]).astype(X.dtype, copy=False)


def covariances(X: Array, order: Array, starts: Array) -> Array:
    """(g, d, d) covariances about the means (divisor: the part's size), in `X`'s dtype."""
    xp = namespace(X)
    X = X if X.dtype.kind == "f" else X.astype(np.float64)
    sizes = starts[1:] - starts[:-1]
    centres = _float_sums(X, order, starts) / sizes[:, None]
    bounds, first, owner = runs(starts, _SQUARE_RUN)
    d = X.shape[1]
    if on_device(X):
        require(8 * d * d * len(owner), "the products of all columns")
        products = xp.empty((len(owner), d, d), dtype=np.float64)
        work = len(owner) * d * d
        launch("segment", "products", _flat(X), order, bounds, owner, centres, len(owner), d, products,
               over=work, threads=_THREADS)  # fmt: skip
    else:
        products = _products_numpy(X, order, bounds, owner, centres)
    if len(first) != len(bounds):
        products = _sum_runs(_flat(products), first).reshape(len(sizes), d, d)
    products /= sizes[:, None, None]
    return products.astype(X.dtype, copy=False)


def runs(starts: Array, length: int) -> tuple[Array, Array, Array]:
    """Cut every part into runs of at most `length` rows.

    Returns
    -------
    bounds : (s + 1,) offsets of the runs
    first  : (g + 1,) the first run of each part
    owner  : (s,) the part of each run
    """
    xp = namespace(starts)
    counts = -(-(starts[1:] - starts[:-1]) // length)
    first = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(counts)])
    total = int(first[-1])
    if total == len(counts):
        return starts, first, xp.arange(total, dtype=np.int64)
    number = xp.arange(total, dtype=np.int64)
    owner = xp.searchsorted(first[1:], number, side="right").astype(np.int64, copy=False)
    bounds = starts[owner] + (number - first[owner]) * length
    return xp.concatenate([bounds, starts[-1:]]), first, owner


def _float_sums(X: Array, order: Array, starts: Array) -> Array:
    """(g, ...) sums in float64."""
    bounds, first, _ = runs(starts, _RUN)
    if on_device(X):
        partial = _reduce_on_device("sums", _flat(X), order, bounds, np.dtype(np.float64))
    else:
        partial = _reduce_on_host(X, order, bounds, _float64_sums, np.dtype(np.float64))
    if len(first) != len(bounds):
        partial = _sum_runs(_flat(partial), first)
    return partial.reshape(len(starts) - 1, *X.shape[1:])


def _sum_runs(partial: Array, first: Array) -> Array:
    """(g, c) sums over the runs (s, c) of each part."""
    if on_device(partial):
        return _reduce_on_device("sums", partial, None, first, np.dtype(np.float64))
    return _float64_sums(partial, first[:-1])


def _flat(X: Array) -> Array:
    """`X` as a contiguous (n, c) matrix."""
    return namespace(X).ascontiguousarray(X).reshape(len(X), math.prod(X.shape[1:]))


def _reduce_on_device(kernel: str, X: Array, order: Array | None, bounds: Array, dtype: np.dtype[Any]) -> Array:
    """(s, d) results of a reduction kernel over the runs."""
    count, d = len(bounds) - 1, X.shape[1]
    out = namespace(X).empty((count, d), dtype=dtype)
    if d:
        launch("segment", kernel, X, order, bounds, count, d, out, over=count, each=_WARPS, threads=_THREADS)
    return out


def _float64_sums(Z: Host, at: Host) -> Host:
    """Sums of the rows of `Z` from each offset to the next, in the order of the kernel, to the bit.

    Up to 32 rows are added one after another; more in 32 slots, one row each in turn, which are then added by halving.
    """
    Z, lengths = Z.astype(np.float64, copy=False), np.diff(at, append=len(Z))
    total = Z.take(at, axis=0)
    if (lengths > _ADDERS).any():
        lines = np.flatnonzero(lengths > _ADDERS)
        total[lines] = _long_sums(Z, at[lines], lengths[lines])
        lengths = np.where(lengths > _ADDERS, 1, lengths)
    shortest = int(lengths.min(initial=_ADDERS))
    for slot in range(1, shortest):
        total += Z.take(at + slot, axis=0)
    for slot in range(shortest, int(lengths.max(initial=0))):
        lines = np.flatnonzero(lengths > slot)
        total[lines] += Z.take(at[lines] + slot, axis=0)
    return total


def _long_sums(Z: Host, at: Host, lengths: Host) -> Host:
    """Sums of `lengths` rows of `Z` from the offsets `at` on, in slots."""
    slots, offsets = np.full((len(at), _ADDERS, *Z.shape[1:]), -0.0), np.arange(_ADDERS)
    for first in range(0, int(lengths.max()), _ADDERS):
        lines = np.flatnonzero(lengths > first)
        valid = offsets < (lengths[lines] - first)[:, None]
        rows = Z.take(np.where(valid, at[lines, None] + first + offsets, 0), axis=0)
        if not valid.all():
            rows[~valid] = -0.0  # which changes no sum
        if len(lines) == len(at):
            slots += rows
        else:
            slots[lines] += rows
    while slots.shape[1] > 1:
        half = slots.shape[1] // 2
        slots = slots[:, :half] + slots[:, half:]
    return slots[:, 0]


def _reduce_on_host(X: Host, order: Host, bounds: Host, reduction: Any, dtype: np.dtype[Any]) -> Host:
    """(s, ...) `reduction` (rows, offsets) over the runs, in batches of runs on all cores."""
    out = np.empty((len(bounds) - 1, *X.shape[1:]), dtype=dtype)
    rows = max(1, _ROWS // max(1, X[:1].size // 8))

    def work(batch: slice) -> None:
        low, high = bounds[batch.start], bounds[batch.stop]
        out[batch] = reduction(X.take(order[low:high], axis=0), bounds[batch] - low)

    each(work, _batches_of_runs(bounds, rows))
    return out


def _batches_of_runs(bounds: Host, rows: int) -> list[slice]:
    """Ranges of runs that hold about `rows` rows each."""
    if len(bounds) < 2:
        return []
    cuts = distinct(np.searchsorted(bounds, np.arange(0, bounds[-1], rows)))
    cuts = np.append(cuts[cuts < len(bounds) - 1], len(bounds) - 1)
    return [slice(int(a), int(b)) for a, b in itertools.pairwise(cuts)]


def _products_numpy(X: Host, order: Host, bounds: Host, owner: Host, centres: Host) -> Host:
    """(s, d, d) Σ (x − c)(x − c)ᵀ over each run, in batches of runs of equal length."""
    d = X.shape[1]
    out = np.empty((len(owner), d, d))
    lengths = np.diff(bounds)

    def work(chosen: Host) -> None:
        rows = order[bounds[chosen][:, None] + np.arange(lengths[chosen[0]])]
        Z = X.take(rows, axis=0) - centres[owner[chosen]][:, None]
        # A copy: NumPy multiplies small matrices more slowly by a view of their own transpose.
        transposed = np.ascontiguousarray(Z.transpose(0, 2, 1))
        products = np.matmul(transposed, Z)
        consecutive = chosen[-1] - chosen[0] + 1 == len(chosen)
        place = slice(chosen[0], chosen[-1] + 1) if consecutive else chosen
        # The mean of both triangles: BLAS rounds them differently.
        out[place] = 0.5 * (products + products.transpose(0, 2, 1))

    batches = same_size_batches(lengths, lambda length: max(1, _ELEMENTS // (length * max(1, d))))
    with one_blas_thread():
        each(work, batches)
    return out
