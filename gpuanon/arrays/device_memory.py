"""Free device memory, and work cut into pieces that fit it.

CuPy allocates from its memory pool, which may have a limit (``CUPY_GPU_MEMORY_LIMIT``), or from another allocator that
the caller has set, such as RMM.  RMM's own pool does not say how much of it is free, unless it is wrapped in
``rmm.mr.StatisticsResourceAdaptor``; without that only what the driver reports as free is used.
"""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.ranges import ranges
from gpuanon.errors import BackendError

_SPARE = 0.8  # share of the free memory that pieces may use: allocations round up, and other processes allocate too


def free_bytes() -> int:
    """Device memory that can be allocated: what the driver and the memory pool have free, within the pool's limit."""
    cupy = importlib.import_module("cupy")
    free = int(cupy.cuda.Device().mem_info[0])
    pool = cupy.get_default_memory_pool()
    if cupy.cuda.get_allocator() != pool.malloc:
        return free + _free_in_rmm()
    limit = int(pool.get_limit())
    available = free + int(pool.free_bytes())
    return min(available, max(0, limit - int(pool.used_bytes()))) if limit else available


def total_bytes() -> int:
    """All memory of the current device, within the limit of CuPy's pool: the same in every run on such a device."""
    cupy = importlib.import_module("cupy")
    total, limit = int(cupy.cuda.Device().mem_info[1]), int(cupy.get_default_memory_pool().get_limit())
    return min(total, limit) if limit else total


def _free_in_rmm() -> int:
    """Unused bytes of RMM's pool, where it keeps statistics; else 0."""
    rmm = sys.modules.get("rmm")
    resource = None if rmm is None else rmm.mr.get_current_device_resource()
    pool, counts = getattr(resource, "upstream_mr", None), getattr(resource, "allocation_counts", None)
    if counts is None or pool is None or not hasattr(pool, "pool_size"):
        return 0
    return max(0, int(pool.pool_size()) - int(counts.current_bytes))


def require(needed: int, what: str) -> None:
    """Raise when `needed` bytes of device memory for `what` cannot be allocated."""
    pieces(1, needed, of=what)


def pieces(count: int, bytes_each: int, *, of: str = "rows", budget: int | None = None) -> list[slice]:
    """Cut `count` equal items into ranges whose memory fits.

    bytes_each : device memory that one item needs at its peak
    of         : what an item is, for the error message
    budget     : bytes to use; by default a safe share of the free device memory
    """
    room = _room(budget)
    if count and bytes_each > room:
        raise _too_large(of, bytes_each, room)
    return ranges(count, max(1, room // max(1, bytes_each)))


def pieces_of_parts(
    starts: Host, bytes_per_row: int, *, bytes_per_part: int = 0, budget: int | None = None
) -> list[slice]:
    """Cut the parts of a partition into ranges of parts whose memory fits.

    starts : (g + 1,) the partition's offsets, on the host
    """
    room = _room(budget)
    needs = np.diff(starts).astype(np.int64) * bytes_per_row + bytes_per_part
    if len(needs) and int(needs.max()) > room:
        raise _too_large("the largest part", int(needs.max()), room)
    ends = np.cumsum(needs)
    cuts = [0]
    while cuts[-1] < len(needs):
        used = int(ends[cuts[-1] - 1]) if cuts[-1] else 0
        cuts.append(int(np.searchsorted(ends, used + room, side="right")))
    return [slice(a, b) for a, b in itertools.pairwise(cuts)]


@contextmanager
def explain_out_of_memory() -> Iterator[None]:
    """Raise CuPy's error for a full device as one that says what to do."""
    try:
        yield
    except MemoryError as error:
        if type(error).__name__ != "OutOfMemoryError":
            raise
        raise BackendError(
            f"device memory: it is full ({error})",
            hint="run in parts with smaller cells, use a larger GPU, or --backend numpy",
        ) from error


def _room(budget: int | None) -> int:
    """Bytes that one piece may use."""
    return int(_SPARE * free_bytes()) if budget is None else budget


def _too_large(what: str, needed: int, room: int) -> BackendError:
    """The error for a piece that does not fit by itself."""
    return BackendError(
        f"device memory: one piece ({what}) needs {needed} bytes, {room} may be used",
        hint="use smaller blocks, a larger GPU, or --backend numpy",
    )
