"""Distances between rows, tiled and fused with their reduction: only `distances` stores an n × m matrix.

Every function takes rows `X` (n, d) and `Y` (m, d) of one device and a `Metric`.  On a device the kernels of
``distance.cu`` are used, on the host `distance_host`.  On one device all functions give the same bits
for the same pair of rows.

One tie rule for every search: rows of `Y` are **tied** if none of them is farther than the nearest by more than
rounding can explain, a share of 10⁻¹² of the distance (`tie_limit`; 2⁻¹⁶ in single precision).  Columns are
standardised, so two records that are one year younger and one year older than a third are 3/s − 2/s and 4/s − 3/s away
from it, each number rounded.  If only equal numbers were ties, one of the two would be nearer by chance: an attack that
should have two candidates would have one, and a device, which fuses multiplication and addition, would choose another
than the host.  Of continuous values two are that close once in about 10¹² pairs.  The lowest row is the nearest of
those that are tied; they all have the smallest of their distances.  Behind them the order is that of the distances as
they are computed.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.kernels import launch, limits, pieces, require
from gpuanon.arrays.sorting import argsort_rows
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance import distance_host, distance_search
from gpuanon.numerics.metric import EUCLIDEAN, Metric, tie_limit

MOST_NEIGHBOURS = 32
"""Most neighbours in the list that a thread keeps in shared memory: more are found by several launches."""

_ROWS, _LIST_ROWS = 128, 64  # rows of X per thread block, as in distance.cu
_SUM_RUN = 4096  # rows; fixed, because the order of a sum must not depend on the device
_SHORTEST_RUN = 256
_FORMULA = {"euclidean": 0, "weighted": 1, "gower": 2}


def distances(X: Array, Y: Array, metric: Metric = EUCLIDEAN) -> Array:
    """(n, m) matrix of all distances."""
    X, Y = _checked(X, Y, metric)
    if not on_device(X):
        return distance_host.distances(X, Y, metric)
    require(len(X) * len(Y) * X.dtype.itemsize, "all distances")
    out = namespace(X).empty((len(X), len(Y)), dtype=X.dtype)
    run = _run_length(len(Y), len(X))
    _launch("matrix", X, Y, metric, out, rows=len(Y), over=len(X), run=run)
    return out


def paired(X: Array, Y: Array, metric: Metric = EUCLIDEAN, *, index: Array | None = None) -> Array:
    """(n,) distance of row i of `X` from row i of `Y`, or from row ``index[i]`` of `Y`."""
    if index is None and len(X) != len(Y):
        raise ParameterError(f"Y: {len(X)} rows are needed, got {len(Y)}")
    X, Y = _checked(X, Y, metric, empty=True)
    xp = namespace(X)
    index = xp.arange(len(X), dtype=np.int64) if index is None else xp.ascontiguousarray(index, dtype=np.int64)
    if not on_device(X):
        return distance_host.paired(X, Y, metric, index).astype(X.dtype, copy=False)
    out = xp.empty(len(X), dtype=X.dtype)
    n, d = X.shape
    launch("distance", "paired", X, Y, _weights(X, metric), index, n, d, out,
           over=n, threads=_ROWS, define=_define(metric))  # fmt: skip
    return out


def nearest(X: Array, Y: Array, metric: Metric = EUCLIDEAN) -> tuple[Array, Array]:
    """(n,) distance to, and (n,) index of, the row of `Y` nearest to each row of `X`.  Ties: lowest index."""
    distance, index, _ = _nearest(X, Y, metric)
    return distance, index


def nearest_with_ties(X: Array, Y: Array, metric: Metric = EUCLIDEAN) -> tuple[Array, Array]:
    """(n,) distance to the nearest row of `Y`, and (n,) how many rows of `Y` are tied with it.

    Equal rows of `Y` are always at equal distances.  A row is among the nearest if and only if its `paired` distance is
    at most the `tie_limit` of the one returned here.
    """
    distance, _, ties = _nearest(X, Y, metric)
    return distance, ties


def k_nearest(X: Array, Y: Array, k: int, metric: Metric = EUCLIDEAN) -> tuple[Array, Array]:
    """(n, k) distances to, and (n, k) indices of, the `k` nearest rows of `Y`, in order.  Ties: lowest index.

    On a device they are found 32 at a time: each launch continues after the last neighbour of the one before.  Rows
    whose k neighbours are all tied are searched once more: those of the lowest index may not be among them.
    """
    X, Y = _checked(X, Y, metric)
    if not 1 <= k <= len(Y):
        raise ParameterError(f"k: a number from 1 to {len(Y)} is allowed, got {k}")
    if not on_device(X):
        distance, index, _ = distance_search.search(X, Y, k, metric)
        return distance.astype(X.dtype, copy=False), index
    xp = namespace(X)
    distance, index = _lists(X, Y, k, metric, None)
    if len(X) == 0:
        return distance, index
    least = distance[:, 0].copy()
    floors = tie_limit(least)
    full = xp.flatnonzero(distance[:, -1] <= floors) if k < len(Y) else xp.empty(0, dtype=np.int64)
    if len(full):
        distance[full], index[full] = _lists(X[full], Y, k, metric, floors[full])
    tied = distance <= floors[:, None]  # these come first, now in the order of their rows
    order = argsort_rows(xp.where(tied, index, len(Y) + xp.arange(k)))
    return xp.where(tied, least[:, None], distance), xp.take_along_axis(index, order, axis=1)


def k_nearest_with_ties(X: Array, Y: Array, k: int, metric: Metric = EUCLIDEAN) -> tuple[Array, Array, Array]:
    """`k_nearest`, and (n,) how many rows of `Y` are tied with the nearest, as `nearest_with_ties` has it.

    On the host one search finds both; on a device ties are counted among the k, and by a second search of the rows
    that tie with all of them.
    """
    if not on_device(X):
        X, Y = _checked(X, Y, metric)
        if not 1 <= k <= len(Y):
            raise ParameterError(f"k: a number from 1 to {len(Y)} is allowed, got {k}")
        distance, index, ties = distance_search.search(X, Y, k, metric)
        return distance.astype(X.dtype, copy=False), index, ties
    distance, index = k_nearest(X, Y, k, metric)
    ties = (distance == distance[:, :1]).sum(axis=1)
    full = namespace(X).flatnonzero(ties == k)
    if len(full):
        ties[full] = nearest_with_ties(X[full], Y, metric)[1]
    return distance, index, ties


def _lists(X: Array, Y: Array, k: int, metric: Metric, floors: Array | None) -> tuple[Array, Array]:
    """(n, k) distances and indices in order of the distances, as many at a time as a list holds; `floors` as below."""
    xp, found = namespace(X), list[tuple[Array, Array]]()
    for first in range(0, k, MOST_NEIGHBOURS):
        known = (found[-1][0][:, -1].copy(), found[-1][1][:, -1].copy()) if found else (None, None)
        found.append(_k_nearest_cuda(X, Y, min(MOST_NEIGHBOURS, k - first), metric, known, floors))
    if len(found) == 1:
        return found[0]
    return xp.concatenate([part[0] for part in found], axis=1), xp.concatenate([part[1] for part in found], axis=1)


def _k_nearest_cuda(
    X: Array, Y: Array, k: int, metric: Metric, known: tuple[Array | None, Array | None], floors: Array | None
) -> tuple[Array, Array]:
    """The fused kernel over runs of `Y`, and the merge of their results.

    known  : (n,) distance and (n,) row of the last neighbour that was found before, after which the list begins
    floors : (n,) distances below count as equal to it; None: none does
    """
    xp = namespace(X)
    n, run = len(X), _run_length(len(X), len(Y), _LIST_ROWS)
    count = -(-len(Y) // run)
    distance, index = xp.empty((count, n, k), dtype=X.dtype), xp.empty((count, n, k), dtype=np.int64)
    _launch("k_nearest", X, Y, metric, k, *known, floors, distance, index, rows=n, over=len(Y), run=run,
            threads=_LIST_ROWS, shared=_LIST_ROWS * k * (8 + X.dtype.itemsize))  # fmt: skip
    if count == 1:
        return distance[0], index[0]
    # Runs and lists ascend by row: a stable sort leaves equal distances in the order of their rows.
    distance, index = (a.transpose(1, 0, 2).reshape(n, count * k) for a in (distance, index))
    best = argsort_rows(distance)[:, :k]
    return xp.take_along_axis(distance, best, axis=1), xp.take_along_axis(index, best, axis=1)


def furthest(X: Array, Y: Array, metric: Metric = EUCLIDEAN) -> tuple[Array, Array]:
    """(n,) distance to, and (n,) index of, the row of `Y` furthest from each row of `X`.  Ties: lowest index."""
    X, Y = _checked(X, Y, metric)
    if not on_device(X):
        distance, index = distance_search.furthest(X, Y, metric)
        return distance.astype(X.dtype, copy=False), index
    xp = namespace(X)
    run = _run_length(len(X), len(Y))
    shape = (-(-len(Y) // run), len(X))
    distance, index = xp.empty(shape, dtype=X.dtype), xp.empty(shape, dtype=np.int64)
    _launch("furthest", X, Y, metric, distance, index, rows=len(X), over=len(Y), run=run)
    most = distance.max(axis=0)
    return most, xp.where(distance == most, index, len(Y)).min(axis=0)


def row_sums(X: Array, Y: Array, metric: Metric = EUCLIDEAN) -> Array:
    """(n,) Σ_j of the distances of each row of `X` from all rows of `Y`, in float64."""
    X, Y = _checked(X, Y, metric, empty=True)
    if not on_device(X):
        return distance_host.row_sums(X, Y, metric)
    xp = namespace(X)
    out = xp.empty(len(X), dtype=np.float64)
    count = -(-len(Y) // _SUM_RUN)
    for rows in pieces(len(X), 8 * (count + 1)):  # the sums of the runs, and their sum
        sums = xp.empty((count, rows.stop - rows.start), dtype=np.float64)
        _launch("row_sums", X[rows], Y, metric, sums, rows=sums.shape[1], over=len(Y), run=_SUM_RUN)
        out[rows] = sums.sum(axis=0)
    return out


def _nearest(X: Array, Y: Array, metric: Metric) -> tuple[Array, Array, Array]:
    """(n,) smallest distance, (n,) lowest index of the rows that are tied for it, and (n,) how many they are.

    On a device a second launch for those rows of `X` to which another distance is as near as a tie.
    """
    X, Y = _checked(X, Y, metric)
    if not on_device(X):
        distance, index, ties = distance_search.search(X, Y, 1, metric)
        return distance[:, 0].astype(X.dtype, copy=False), index[:, 0], ties
    least, following, index, ties = _nearest_cuda(X, Y, metric, None)
    floors = tie_limit(least)
    close = namespace(X).flatnonzero(following <= floors)
    if len(close):
        _, _, index[close], ties[close] = _nearest_cuda(X[close], Y, metric, floors[close])
    return least, index, ties


def _nearest_cuda(X: Array, Y: Array, metric: Metric, floors: Array | None) -> tuple[Array, Array, Array, Array]:
    """(n,) smallest distance, the next one, the lowest index that has the smallest, and how many have it.

    floors : (n,) distances below count as equal to it; None: none does
    """
    xp = namespace(X)
    run = _run_length(len(X), len(Y))
    shape = (-(-len(Y) // run), len(X))
    distance, following = xp.empty(shape, dtype=X.dtype), xp.empty(shape, dtype=X.dtype)
    index, ties = xp.empty(shape, dtype=np.int64), xp.empty(shape, dtype=np.int64)
    outputs = (distance, following, index, ties)
    _launch("nearest", X, Y, metric, floors, *outputs, rows=len(X), over=len(Y), run=run)
    least = distance.min(axis=0)
    hit = distance == least
    following = xp.where(hit, following, distance).min(axis=0)
    return least, following, xp.where(hit, index, len(Y)).min(axis=0), xp.where(hit, ties, 0).sum(axis=0)


def _checked(X: Array, Y: Array, metric: Metric, *, empty: bool = False) -> tuple[Array, Array]:
    """Both tables as contiguous rows of one floating type; `Y` may have no rows if `empty`."""
    xp = namespace(X)
    if X.ndim != 2 or Y.ndim != 2 or X.shape[1] != Y.shape[1]:
        raise ParameterError(f"X, Y: matrices with the same columns are needed, got {X.shape} and {Y.shape}")
    if on_device(X) != on_device(Y):
        raise ParameterError("X, Y: both have to be on the same device")
    if not len(Y) and not empty:
        raise ParameterError("Y: at least one row is needed")
    for name in ("weights", "categorical"):
        given = getattr(metric, name)
        if given is not None and len(given) != X.shape[1]:
            raise ParameterError(f"metric {name}: one per column ({X.shape[1]}) is needed, got {len(given)}")
    if metric.weights is not None and not all(0 <= weight < np.inf for weight in metric.weights):
        raise ParameterError("metric weights: numbers from 0 up are needed")
    both_single = X.dtype == np.float32 and Y.dtype == np.float32
    real = np.float32 if both_single else np.float64
    return xp.ascontiguousarray(X, dtype=real), xp.ascontiguousarray(Y, dtype=real)


def _define(metric: Metric) -> dict[str, int]:
    """The compile-time constant that selects the formula of the kernels."""
    weighted = metric.kind == "euclidean" and metric.weights is not None
    return {"FORMULA": _FORMULA["weighted" if weighted else metric.kind]}


def _weights(X: Array, metric: Metric) -> Array | None:
    """The weights for the kernels; None for unweighted Euclidean distances."""
    if metric.kind == "euclidean" and metric.weights is None:
        return None
    return _device_weights(namespace(X), X.device.id, metric, X.shape[1], X.dtype)


@functools.lru_cache(maxsize=64)
def _device_weights(xp: ModuleType, device: int, metric: Metric, d: int, dtype: np.dtype[Any]) -> Array:
    """(d,) weights on the device; Gower's sum to 1, and those of categorical columns are negative.

    They are kept for later calls, which may be on other streams, so the upload is waited for.
    """
    weights = np.ones(d) if metric.weights is None else np.asarray(metric.weights, dtype=np.float64)
    if metric.kind == "gower":
        weights = weights / weights.sum() if weights.sum() else weights
        weights = np.where(np.zeros(d, bool) if metric.categorical is None else metric.categorical, -weights, weights)
    uploaded = xp.asarray(weights.astype(dtype))
    xp.cuda.get_current_stream().synchronize()
    return uploaded


def _run_length(rows: int, over: int, each: int = _ROWS) -> int:
    """Rows of `Y` per thread block, such that all thread blocks together fill the device."""
    wanted = 8 * limits().multiprocessors
    count = max(1, min(-(-wanted * each // max(1, rows)), over // _SHORTEST_RUN, 65535))
    return -(-over // count) if over else 1


def _launch(
    kernel: str, X: Array, Y: Array, metric: Metric, *out: Any, rows: int, over: int, run: int,
    threads: int = _ROWS, shared: int = 0,
) -> None:  # fmt: skip
    """Launch a kernel with one thread per row of `rows`, whose thread blocks loop over runs of `over` rows."""
    n, d = X.shape
    launch(
        "distance", kernel, X, Y, _weights(X, metric), n, len(Y), d, run, *out,
        over=(rows, over), each=(threads, run), threads=threads, shared=shared, define=_define(metric),
    )  # fmt: skip
