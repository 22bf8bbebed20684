"""Annealed exchanges of rows between near groups: the kernel and the same algorithm in NumPy."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, on_device
from gpuanon.arrays.batches import even_batches, padded_length
from gpuanon.arrays.compiled import LEAST_WORK, use_compiled
from gpuanon.arrays.kernels import launch, limits
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import GOLDEN_GAMMA, mix_bits
from gpuanon.arrays.threads import each, thread_count
from gpuanon.masking.groups.refine.exchange import EuclideanTable, GowerTable, GroupTable

_WARP = 32
_STATIC_SHARED = 64  # bytes of shared memory that the kernel uses besides
_BATCH_ROWS = (
    1 << 15
)  # rows of a batch, at most: fewer make many small calls, which contend; changes the speed, not the result
_BATCH_CELLS = 4  # cells of a compiled batch: few, so that all cores are busy to the end
NOISE = -np.log((np.arange(1 << 16) + 0.5) / (1 << 16))
"""Quantiles of the exponential distribution: the increase that Metropolis' rule accepts, in temperatures."""


def noise_on(device: Array) -> Array:
    """The table `NOISE` on the device of an array: logarithms are rounded differently there."""
    return like(NOISE, device)


@dataclass(frozen=True)
class Schedule:
    """The steps of one turn: step s has the temperature ``heat · max(0, 1 − (first + s) / every)``."""

    turn: int
    steps: int
    first: int
    every: int
    heat: float


def anneal(
    rows: Array,
    mismatch: Array | None,
    members: Array,
    sizes: Array,
    near: Array,
    cells: Partition,
    k: int,
    schedule: Schedule,
    *,
    largest: int | None = None,
    noise: Array | None = None,
) -> Array:
    """Exchange rows between near groups, in place; return changes of the distortion, which add up to all of it.

    In each step a random half of the groups propose to their neighbour ``near[step % count]``, if it is in the other
    half; of several proposals the neighbour accepts the last.  For each pair the best swap, or the best move that
    leaves at least k rows, is carried out if it changes the distortion by less than the temperature times an
    exponential random number, in units of the pair's distortion per row.  The random numbers are a function of group,
    turn and step.

    Parameters
    ----------
    rows : (n, d) int32 coordinates; with w slots per group, ``4 w²`` times the largest distance must be below 2^53
    mismatch : (d,) int32 for Gower's distance, the distance of two categories of a column, −1 for numeric columns;
        None for squared Euclidean distances
    members : (g, w) places in `rows` of each group's rows, of which ``sizes`` (g,) count
    near : (count, g) positions of near groups, see `neighbours`
    cells : sets of near groups; rows are exchanged inside a cell only
    k : least rows in a group
    largest, noise : for a device, groups of the largest cell and the table `NOISE` there, if they are known
    """
    if on_device(rows):
        largest = int(cells.sizes.max()) if largest is None else largest
        noise = noise_on(rows) if noise is None else noise
        return _anneal_cuda(rows, mismatch, members, sizes, near, cells, k, schedule, largest, noise)
    run = _anneal_compiled if use_compiled(len(rows) * schedule.every) else _anneal_numpy
    return run(rows, mismatch, members, sizes, near, cells, k, schedule)


def random_words(numbers: Array, stream: int) -> Array:
    """(g,) 64 pseudo-random bits of each number in a stream: a fixed hash, not secret; the same as in ``refine.cu``."""
    return mix_bits(((numbers.astype(np.uint64) << np.uint64(16)) + np.uint64(stream + 1)) * np.uint64(GOLDEN_GAMMA))


def _anneal_numpy(
    rows: Host,
    mismatch: Host | None,
    members: Host,
    sizes: Host,
    near: Host,
    cells: Partition,
    k: int,
    schedule: Schedule,
) -> Host:
    """Batches of cells; all pairs of a step are processed together."""

    def run(batch: Batch) -> float:
        at = batch.rows[batch.valid]
        lines = cells.order[at]
        held = members[lines]
        x, counts = rows.take(held, axis=0).astype(np.float64), sizes[lines]
        table: GroupTable = EuclideanTable(x, counts, k) if mismatch is None else GowerTable(x, counts, k, mismatch)
        before = table.distortion.sum()
        _anneal_pairs(table, near[:, at] + (np.arange(len(at)) - at), random_words(lines, schedule.turn), schedule)
        sizes[lines] = table.sizes
        members[lines] = held.reshape(-1)[table.members]
        return float(table.distortion.sum() - before)

    rounds = -(-cells.n * k // (_BATCH_ROWS * thread_count()))
    most = -(-cells.parts // (rounds * thread_count()))  # equally many cells for each thread
    batches = even_batches(
        Partition(np.arange(cells.n), cells.starts), elements=most * int(padded_length(cells.sizes).max())
    )
    return np.asarray(sum(each(run, batches)))


def _anneal_compiled(
    rows: Host,
    mismatch: Host | None,
    members: Host,
    sizes: Host,
    near: Host,
    cells: Partition,
    k: int,
    schedule: Schedule,
) -> Host:
    """Cell after cell, on all cores; the same exchanges as `_anneal_numpy`."""
    from gpuanon.masking.groups.refine.compiled_exchange import anneal_cells

    kinds = np.empty(0, dtype=np.int32) if mismatch is None else mismatch
    words = random_words(np.arange(len(members)), schedule.turn)
    s = schedule
    steps = (s.steps, s.first, s.every, s.heat)

    def run(chosen: slice) -> float:
        table = (rows, kinds, members, sizes, near, words, cells.order, cells.starts)
        return float(anneal_cells(*table, chosen.start, chosen.stop, k, steps, NOISE))

    return np.asarray(sum(each(run, ranges(cells.parts, _BATCH_CELLS))))


def warm_compiled() -> float | None:
    """Compile the functions of a refinement, or load their machine code; return the seconds, None without numba."""
    if not use_compiled(LEAST_WORK):
        return None
    from gpuanon.masking.groups.refine.compiled_cells import locate, nearest
    from gpuanon.numerics.cuts.compiled_cuts import cut_parts

    began = time.perf_counter()
    members = np.arange(8, dtype=np.int64).reshape(4, 2)
    groups = np.arange(4, dtype=np.int64)
    near, cells = np.roll(groups, 1)[None], Partition(groups, np.array([0, 4], dtype=np.int64))
    rows = np.arange(16, dtype=np.int32).reshape(8, 2)
    for mismatch in (None, np.array([-1, 3], dtype=np.int32)):
        sizes = np.full(4, 2, dtype=np.int64)
        _anneal_compiled(rows, mismatch, members.copy(), sizes, near, cells, 2, Schedule(0, 2, 0, 2, 0.5))
    order, starts = np.arange(8, dtype=np.int64), np.array([0, 8], dtype=np.int64)
    one, two = np.ones(1, dtype=np.int64), np.full(1, 2, dtype=np.int64)
    table = (rows.astype(np.float64), order.copy(), starts, two, two, one - 1, (0, 1), 4, 1, 8)
    cut_parts(*table, np.zeros(2, dtype=bool), np.empty(3, dtype=np.int64))
    found = np.empty((4, 2), dtype=np.int32), np.empty((4, 2), dtype=np.float32)
    locate(rows, members, sizes, 1.0, np.eye(2), (0, 4), found)
    nearest(found[0], groups, cells.starts, 0, 1, np.int32(3), 4, np.empty((1, 4), dtype=np.int64))
    return time.perf_counter() - began


def _anneal_pairs(table: GroupTable, near: Host, word: Host, schedule: Schedule) -> None:
    """Visit disjoint pairs of groups and neighbours `near` (count, g), step by step, at falling temperature."""
    steps = np.arange(schedule.steps)
    coin = word >> (steps % 64).astype(np.uint64)[:, None] & np.uint64(1) == 1
    step, a, b = disjoint_pairs(near[steps % len(near)], coin)
    heat = schedule.heat * np.maximum(0.0, 1 - (schedule.first + steps) / schedule.every)
    heat = heat[step] * NOISE[word[a] * (2 * step + 1).astype(np.uint64) >> np.uint64(48)]
    ends = np.searchsorted(step, steps, side="right").tolist()
    for start, end in zip([0, *ends], ends, strict=False):
        table.visit(a[start:end], b[start:end], heat[start:end])


def disjoint_pairs(mates: Host, coins: Host) -> tuple[Host, Host, Host]:
    """Step s, a and b of the pairs of groups, disjoint in each step, in ascending order of s and a.

    Groups with a coin ``coins[s]`` (g,) propose to their mate ``mates[s]`` (g,), which accepts the last proposal.  All
    steps are paired at once, because the pairs do not depend on what is exchanged.
    """
    first = np.arange(0, mates.size, mates.shape[1])[:, None]  # of each step: one index is looked up faster than two
    proposers = np.flatnonzero(coins & ~coins.take(mates + first))
    mate = (mates + first).take(proposers)
    holder = np.empty(mates.size, dtype=np.int64)
    holder[mate] = proposers  # of several proposals the last one is kept
    accepted = holder.take(mate) == proposers
    step, a = np.divmod(proposers[accepted], mates.shape[1])
    return step, a, mate[accepted] - step * mates.shape[1]


def _anneal_cuda(
    rows: Array,
    mismatch: Array | None,
    members: Array,
    sizes: Array,
    near: Array,
    cells: Partition,
    k: int,
    schedule: Schedule,
    largest: int,
    noise: Array,
) -> Array:
    """One thread block per cell, one warp per pair (``kernels/refine.cu``)."""
    xp, d, (g, width) = namespace(rows), rows.shape[1], members.shape
    stride = 2 * width + 1
    bytes_of_groups = 8 * largest + 4 * (largest + largest % 2)
    room = limits().shared - _STATIC_SHARED
    words_of_warp = 2 * stride + 2 * d + (d * stride + 1) // 2  # of 8 bytes
    warps = next((w for w in (8, 4, 2, 1) if bytes_of_groups + 8 * w * words_of_warp <= room), 0)
    in_shared, warps = warps > 0, warps or 8
    scratch = None if in_shared else xp.empty((cells.parts, warps, words_of_warp), dtype=np.int64)
    change = xp.empty(cells.parts, dtype=np.float64)
    s = schedule
    table = (rows, d, mismatch, members, sizes, k, width, cells.order, cells.starts, near, g, len(near))
    steps = (s.turn, s.steps, s.first, s.every, s.heat, noise, largest, scratch, change)
    shared = bytes_of_groups + (8 * warps * words_of_warp if in_shared else 0)
    launch("refine", "anneal", *table, *steps, over=cells.parts, each=1, threads=_WARP * warps, shared=shared)
    return change
