"""Neighbours inside cells and annealed exchanges between them: the refinement's two kernels and their NumPy twins.

The twins are plain: they say what the kernels compute, and check them.  What runs without a GPU is in `refine`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.kernels import launch, limits
from gpuanon.arrays.partition import Partition, batches
from gpuanon.groups.device import gower_arrays
from gpuanon.groups.spaces import gower
from gpuanon.numerics.distance import EUCLIDEAN, Metric

Host: TypeAlias = Any
"""A NumPy array."""

_WARP = 32
_LIST_THREADS = 128


@dataclass(frozen=True)
class Schedule:
    """Some steps of the annealing: step s of the turn has the heat ``heat · max(0, 1 − (first + s) / every)``.

    margin : exchanges have to gain more than this, in units of the distortion of a row: rounding is not a gain
    """

    turn: int
    steps: int
    first: int
    every: int
    heat: float
    margin: float


def neighbours(centres: Array, cells: Partition, count: int) -> Array:
    """(count, g) for each place of ``cells.order`` the places of the nearest groups of the same cell, nearest first.

    Nearest by their `centres` (g, d), Euclidean; ties go to the lower group.  A place stands in its own column where
    its cell has too few others.
    """
    return (_neighbours_cuda if on_device(centres) else _neighbours_numpy)(centres, cells, count)


def anneal(
    X: Array, members: Array, sizes: Array, near: Array, cells: Partition, k: int, metric: Metric, schedule: Schedule
) -> Array:
    """Exchange rows between near groups, in place; return what the distortion changed by.

    In each step groups whose coin fell so ask their neighbour ``near[step % count]``; it takes the last that asks.
    Of each such pair the best swap, or move while groups keep k rows, is carried out where it changes the distortion by
    less than heat times an exponential random number, in units of the pair's distortion a row.  The random numbers are
    a function of group, turn and step.

    Parameters
    ----------
    X : (n, d) rows
    members : (g, w) places in `X` of each group's rows, of which ``sizes`` (g,) count
    near : (count, g) places of near groups, see `neighbours`
    cells : the groups that are near each other
    """
    run = _anneal_cuda if on_device(X) else _anneal_numpy
    return run(X, members, sizes, near, cells, k, metric, schedule)


# -- NumPy ----------------------------------------------------------------------------------------------------------


def _pairwise(x: Host, y: Host, metric: Metric) -> Host:
    """(..., w, v) distances of the rows x (..., w, d) from the rows y (..., v, d)."""
    x, y = np.moveaxis(x, -1, 0)[..., :, None], np.moveaxis(y, -1, 0)[..., None, :]
    if metric.kind == "gower":
        return gower(x, y, metric)
    distance = np.zeros(np.broadcast_shapes(x.shape[1:], y.shape[1:]), dtype=x.dtype)
    for a, b in zip(x, y, strict=True):
        distance += (a - b) ** 2
    return distance


def _neighbours_numpy(centres: Host, cells: Partition, count: int) -> Host:
    """Sort the distances inside padded cells."""
    near = np.repeat(np.arange(len(centres))[None, :], count, axis=0)
    by_place = Partition(np.arange(cells.n), cells.starts)
    for batch in batches(by_place, cells=1 << 14):
        Z = centres[cells.order[batch.rows]]
        distance = _pairwise(Z, Z, EUCLIDEAN)
        distance[~(batch.valid[:, :, None] & batch.valid[:, None, :])] = np.inf
        diagonal = np.arange(distance.shape[1])
        distance[:, diagonal, diagonal] = np.inf
        order = distance.argsort(axis=2, kind="stable")[:, :, :count]
        found = np.take_along_axis(batch.rows[:, None, :], order, axis=2)
        alone = np.isinf(np.take_along_axis(distance, order, axis=2))
        found = np.where(alone, batch.rows[:, :, None], found)
        near[: found.shape[2], batch.rows[batch.valid]] = found[batch.valid].T
    return near


def random_words(numbers: Array, stream: int) -> Array:
    """(g,) 64 random bits of each number in a stream: a fixed hash (SplitMix64), no secret."""
    word = ((numbers.astype(np.uint64) << np.uint64(16)) + np.uint64(stream + 1)) * np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


def _anneal_numpy(
    X: Host, members: Host, sizes: Host, near: Host, cells: Partition, k: int, metric: Metric, schedule: Schedule
) -> Host:
    """All pairs of a step at once."""
    order = cells.order
    word = random_words(order, schedule.turn)
    gained = 0.0
    for step in range(schedule.steps):
        coin = (word >> np.uint64(step % 64)) & np.uint64(1) == 1
        mate = near[step % len(near)]
        asking = np.flatnonzero(coin & ~coin[mate])
        taken = np.full(len(sizes), -1)
        taken[mate[asking]] = asking  # ascending: the last stays
        asked = np.flatnonzero(taken >= 0)
        a, b = order[taken[asked]], order[asked]
        bits = (word[taken[asked]] * np.uint64(2 * step + 1)) >> np.uint64(48)
        heat = schedule.heat * max(0.0, 1 - (schedule.first + step) / schedule.every)
        allowed = -heat * np.log((bits.astype(np.float64) + 0.5) / 65536)
        change, code, share = best_exchanges(X, members, sizes, a, b, k, metric)
        wanted = change < share * (allowed - schedule.margin)
        _carry_out(members, sizes, a[wanted], b[wanted], code[wanted])
        gained += float(change[wanted].sum())
    return np.asarray(gained)


def best_exchanges(
    X: Host, members: Host, sizes: Host, a: Host, b: Host, k: int, metric: Metric
) -> tuple[Host, Host, Host]:
    """The best exchange between a[p] and b[p]: (p,) change of the distortion, code, and distortion a row before.

    Codes: ``i · w + r`` swaps slot i of a with slot r of b, ``w² + i`` moves slot i of a, ``w² + w + r`` slot r of b.
    """
    w = members.shape[1]
    slots = np.arange(w)
    n_a, n_b = sizes[a][:, None], sizes[b][:, None]
    in_a, in_b = slots < n_a, slots < n_b
    x_a, x_b = X[members[a]], X[members[b]]
    across = np.where(in_a[:, :, None] & in_b[:, None, :], _pairwise(x_a, x_b, metric), 0)
    own_a = np.where(in_a[:, :, None] & in_a[:, None, :], _pairwise(x_a, x_a, metric), 0).sum(axis=2)
    own_b = np.where(in_b[:, :, None] & in_b[:, None, :], _pairwise(x_b, x_b, metric), 0).sum(axis=2)
    to_b, to_a = across.sum(axis=2), across.sum(axis=1)
    f_a, f_b = own_a.sum(axis=1)[:, None] / (2 * n_a), own_b.sum(axis=1)[:, None] / (2 * n_b)
    swap = (to_b / n_b - own_a / n_a)[:, :, None] + (to_a / n_a - own_b / n_b)[:, None, :]
    swap -= (1 / n_a + 1 / n_b)[:, :, None] * across
    swap[~(in_a[:, :, None] & in_b[:, None, :])] = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        give = (f_a - own_a) / (n_a - 1) + (to_b - f_b) / (n_b + 1)
        receive = (f_b - own_b) / (n_b - 1) + (to_a - f_a) / (n_a + 1)
    give = np.where(in_a & (n_a > k) & (n_b < w), give, np.inf)
    receive = np.where(in_b & (n_b > k) & (n_a < w), receive, np.inf)
    changes = np.concatenate([swap.reshape(len(a), w * w), give, receive], axis=1)
    code = changes.argmin(axis=1)
    return changes[np.arange(len(a)), code], code, ((f_a + f_b) / (n_a + n_b))[:, 0]


def _carry_out(members: Host, sizes: Host, a: Host, b: Host, code: Host) -> None:
    """One exchange for each pair; no group occurs twice.  The last row of a source fills the gap of a move."""
    w = members.shape[1]
    swaps = code < w * w
    i, r = np.divmod(code[swaps], w)
    first, second = a[swaps], b[swaps]
    members[first, i], members[second, r] = members[second, r], members[first, i]
    backward, slot = np.divmod(code[~swaps] - w * w, w)
    source, target = np.where(backward, b[~swaps], a[~swaps]), np.where(backward, a[~swaps], b[~swaps])
    members[target, sizes[target]] = members[source, slot]
    members[source, slot] = members[source, sizes[source] - 1]
    sizes[target] += 1
    sizes[source] -= 1


# -- CUDA -----------------------------------------------------------------------------------------------------------


def _neighbours_cuda(centres: Array, cells: Partition, count: int) -> Array:
    """One cell a thread block, one thread a group (``kernels/refine_neighbours.cu``)."""
    xp, (g, d) = namespace(centres), centres.shape
    size = centres.dtype.itemsize
    columns = xp.ascontiguousarray(centres[cells.order].T)
    lists = _LIST_THREADS * count * (size + 4)
    room = min(int(cells.sizes.max()), max(0, (limits().shared - lists) // (d * size) - 1))
    near = xp.empty((count, g), dtype=np.int64)
    arguments = (columns, cells.starts, g, d, count, room, near)
    shared = lists + (room + 1) * d * size
    launch(
        "refine_neighbours", "neighbours", *arguments, over=cells.parts, each=1, threads=_LIST_THREADS, shared=shared
    )
    return near


def _anneal_cuda(
    X: Array, members: Array, sizes: Array, near: Array, cells: Partition, k: int, metric: Metric, schedule: Schedule
) -> Array:
    """One cell a thread block, one warp a pair (``kernels/refine.cu``)."""
    xp, d, (g, width) = namespace(X), X.shape[1], members.shape
    largest = int(cells.sizes.max())
    of_groups = 8 * largest + 4 * (largest + largest % 2)
    of_warp = (d + 2) * (2 * width + 1)
    warps = next((w for w in (8, 4, 2, 1) if of_groups + w * of_warp * X.itemsize <= limits().shared), 0)
    in_shared, warps = warps > 0, warps or 8
    scratch = None if in_shared else xp.empty((cells.parts, warps, of_warp), dtype=X.dtype)
    change = xp.empty((cells.parts, warps), dtype=X.dtype)
    s = schedule
    table = (X, d, members, sizes, k, width, s.margin, cells.order, cells.starts, near, g, len(near))
    steps = (s.turn, s.steps, s.first, s.every, s.heat, *gower_arrays(metric, d, X.dtype, xp), largest, scratch, change)
    shared = of_groups + (warps * of_warp * X.itemsize if in_shared else 0)
    launch("refine", "anneal", *table, *steps, over=cells.parts, each=1, threads=_WARP * warps, shared=shared)
    return change.sum(dtype=np.float64)
