"""One problem per kernel: a small part of it is interpreted, and its instructions are counted.

The counts are multiplied by the number of such parts in the problem.  Integer and address arithmetic and branches
are left out, because the assembler merges and removes much of them: a device executes more, so the
time of the rest is a lower bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.static_hardware import SCHEDULERS, Device, resident_blocks
from bench.static_loops import ptx_class
from gpuanon.arrays.partition import Partition, segment_covariances, segment_sums
from gpuanon.arrays.rng import Key, philox
from gpuanon.arrays.segments import extremes
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.annealing import Schedule, anneal
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.groups.univariate import first_of_group
from gpuanon.masking.operations.dither import empirical, rosenblatt
from gpuanon.numerics import kernel_values
from gpuanon.numerics.distance import distance
from gpuanon.numerics.spectral import affinity
from tests.cuda.support.fake_cupy import fake_cupy

MILLION = 1_000_000
BLOCK = 1024
Put = Callable[[np.ndarray[Any, Any]], Any]


@dataclass(frozen=True)
class Problem:
    """A problem for some kernels.

    whole : the problem, in words
    piece : computes a piece of it
    pieces: how many such pieces the problem has
    bytes : what must be read and written at least, given the bytes of a number
    """

    kernels: tuple[str, ...]
    whole: str
    piece: Callable[[Put], Any]
    pieces: float
    bytes: Callable[[int], float]


def _rows(n: int, d: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng([n, d]).normal(size=(n, d))


def _one_part(put: Put, n: int) -> Partition:
    return Partition(put(np.arange(n, dtype=np.int64)), put(np.array([0, n], dtype=np.int64)))


def _pairs(put: Put) -> None:
    X, Y = put(_rows(128, 10)), put(_rows(256, 10))
    distance.nearest(X, Y)
    distance.furthest(X, Y)
    distance.row_sums(X, Y)
    distance.k_nearest(put(_rows(64, 10)), Y, 8)
    distance.distances(put(_rows(256, 10)), put(_rows(128, 10)))


def _paired(put: Put) -> None:
    distance.paired(put(_rows(256, 10)), put(_rows(256, 10)))


def _affinities(put: Put) -> None:
    X, part = put(_rows(256, 10)), _one_part(put, 256)
    affinity.normalised_product(X, 1.0, affinity.degrees(X, 1.0, part), put(_rows(256, 8)), part)


def _projections(put: Put) -> None:
    X, Y, W = put(_rows(128, 10)), put(_rows(256, 10)), put(_rows(256, 8))
    for kernel in (kernel_values.Kernel(degree=4), kernel_values.Kernel("rbf")):
        kernel_values.kernel_product(X, Y, W, kernel)


def _rosenblatt(put: Put) -> None:
    d, components = 4, 25
    spread = np.repeat(np.eye(d)[None], components, axis=0)
    starts = put(np.array([0, 128], np.int64)), put(np.array([0, components], np.int64))
    weights = np.full(components, -np.log(components))
    args = put(_rows(components, d)), put(rosenblatt.whiten(spread)[1]), put(weights)
    rosenblatt.conditional_cdfs(put(_rows(128, d)), starts[0], *args, starts[1])


def _refinement(put: Put) -> None:
    groups, k = 256, 5
    members, sizes = put(np.arange(groups * k).reshape(groups, k)), put(np.full(groups, k))
    cell, rows = _one_part(put, groups), put((_rows(groups * k, 10) * 1e5).astype(np.int32))
    near = neighbours(rows[members[:, 0]], cell, 4)
    schedule = Schedule(turn=0, steps=30, first=0, every=300, heat=0.5)
    anneal(rows, None, members, sizes, near, cell, k, schedule)


def _univariate(put: Put) -> None:
    column = np.sort(np.random.default_rng(4).integers(0, 1 << 27, (BLOCK, 1)), axis=0).astype(np.int32)
    first_of_group(put(column), 5, 2)


def _inverse(put: Put) -> None:
    table = np.random.default_rng(1).integers(0, 8, (BLOCK, 4)).astype(np.float64)
    empirical.conditional_inverse(put(np.random.default_rng(2).random((BLOCK, 4))), put(table), _one_part(put, BLOCK))


def _random(put: Put) -> None:
    draws = Key(bytes(32)).draws(put(np.arange(BLOCK, dtype=np.int64)))
    for numbers in (draws.keys, draws.uniform, draws.normal, lambda: draws.words(1)):
        numbers()
    philox(put(np.zeros((4, BLOCK // 4), np.uint32)), (1, 2))


def _segments(put: Put) -> None:
    X, part = put(_rows(BLOCK, 10)), _one_part(put, BLOCK)
    segment_sums(X, part)
    segment_covariances(X, part)
    for which in ("minima", "maxima"):
        extremes(X, part.order, part.starts, which)


PROBLEMS = (
    Problem(
        ("nearest", "furthest", "row_sums", "matrix"),
        "100 000 × 10 000 rows of 10 columns",
        _pairs,
        1e9 / (128 * 256),
        lambda size: 110_000 * 10 * size,
    ),
    Problem(
        ("k_nearest",),
        "100 000 × 10 000 rows of 10 columns, k = 8",
        _pairs,
        1e9 / (64 * 256),
        lambda size: 110_000 * 10 * size,
    ),
    Problem(
        ("paired",), "1 M pairs of rows of 10 columns", _paired, MILLION / 256, lambda size: MILLION * (21 * size + 8)
    ),
    Problem(
        ("degrees", "product"),
        "1 M rows of 10 columns in parts of 1024, 8 vectors",
        _affinities,
        MILLION * BLOCK / 256**2,
        lambda size: MILLION * 11 * size,
    ),
    Problem(
        ("polynomial", "rbf"),
        "100 000 rows, 1 000 landmarks, 10 columns, 8 components",
        _projections,
        1e8 / (128 * 256),
        lambda size: 100_000 * 18 * size,
    ),
    Problem(
        ("kmember",),
        "1 M rows of 10 columns in parts of 1024, k = 5",
        lambda put: kmember(put(_rows(BLOCK, 10)), _one_part(put, BLOCK), 5),
        MILLION / BLOCK,
        lambda size: MILLION * (10 * size + 8),
    ),
    Problem(
        ("mdav",),
        "1 M rows of 10 columns in parts of 1024, k = 5",
        lambda put: mdav(put(_rows(BLOCK, 10)), _one_part(put, BLOCK), 5),
        MILLION / BLOCK,
        lambda size: MILLION * (10 * size + 8),
    ),
    Problem(
        ("chunk_paths", "chunk_entries", "chunk_cuts"),
        "one column of 1 M values, k = 5, chunks of 512",
        _univariate,
        MILLION / BLOCK,
        lambda size: MILLION * 32,
    ),
    Problem(
        ("neighbours", "anneal"),
        "1 M rows of 10 columns in groups of 5, cells of 256 groups, a turn of 30 steps",
        _refinement,
        MILLION / (256 * 5),
        lambda size: MILLION * (10 * 4 + 8),
    ),
    Problem(
        ("rosenblatt",),
        "1 M samples of 4 columns, blocks of 1024 with 205 components",
        _rosenblatt,
        MILLION / 128 * 205 / 25,
        lambda size: MILLION * 8 * size,
    ),
    Problem(
        ("empirical_inverse",),
        "1 M records of 4 columns, blocks of 1024",
        _inverse,
        MILLION / BLOCK,
        lambda size: MILLION * (48 + 4 * size),
    ),
    Problem(
        ("keys", "uniform", "normal", "words", "philox"),
        "1 M numbers",
        _random,
        MILLION / BLOCK,
        lambda size: MILLION * 12,
    ),
    Problem(
        ("sums", "minima", "maxima", "products"),
        "1 M rows of 10 columns in parts of 1024",
        _segments,
        MILLION / BLOCK,
        lambda size: MILLION * (10 * size + 8),
    ),
)


@dataclass(frozen=True)
class Work:
    """A lower bound of what a device executes for one problem and kernel.

    issued : instructions of warps, by class
    longest: instructions of the busiest warp of a block
    blocks, threads, shared : the launch
    """

    problem: Problem
    issued: Counter[str]
    longest: float
    blocks: float
    threads: int
    shared: int

    def seconds(self, device: Device, registers: int, size: int) -> tuple[float, str]:
        """The lower bound of the time on a device, and what sets it."""
        limits = self.cycles(device, registers)
        times = {name: cycles / (device.gigahertz * 1e9) for name, cycles in limits.items()}
        times["memory"] = self.problem.bytes(size) / (device.gigabytes_per_second * 1e9)
        name = max(times, key=lambda limit: times[limit])
        return times[name], name

    def cycles(self, device: Device, registers: int) -> dict[str, float]:
        """Least cycles of each unit, with the work spread evenly over all multiprocessors."""
        warp = 32 / device.multiprocessors
        units = {"fp32": device.fp32, "fp64": device.fp64, "special": device.special, "exchange": device.exchange}
        limits = {name: self.issued[name] * warp / lanes for name, lanes in units.items()}
        limits["shared"] = self.issued["shared"] / device.multiprocessors
        limits["issue"] = sum(self.issued.values()) / SCHEDULERS / device.multiprocessors
        resident = max(1, resident_blocks(device, self.threads, registers, self.shared)) * device.multiprocessors
        limits["one warp"] = self.longest * max(1.0, self.blocks / resident)
        return limits


def measure(problem: Problem, dtype: Any) -> dict[str, Work]:
    """Interpret a part of the problem, and scale the counts."""
    with fake_cupy() as cp:
        problem.piece(lambda host: cp.asarray(host.astype(dtype) if host.dtype.kind == "f" else host))
        launches = [(name, launch) for name, launch in cp.launches if name in problem.kernels]
    works = {}
    for name, launch in launches:
        classes = [ptx_class(instruction) for instruction in launch.kernel.instructions]
        issued: Counter[str] = Counter()
        for kind, count in zip(classes, launch.executed.tolist(), strict=True):
            if kind not in ("other", "branch", "none"):
                issued[kind] += count * problem.pieces
        warps = -(-launch.threads // 32)
        longest = sum(issued.values()) / problem.pieces / (launch.blocks * warps)
        blocks = launch.blocks * problem.pieces
        works[name] = Work(problem, issued, longest, blocks, launch.threads, launch.shared)
    return works
