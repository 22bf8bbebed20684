"""The stand-in's memory: finite, behind a pool that keeps what is freed, and a pinned pool that rounds up.

Written from CuPy's sources (``cuda/memory.pyx``, ``cuda/pinned_memory.pyx``): blocks are multiples of 512 bytes; the
pool returns its unused blocks to the driver before it gives up; its limit counts what it holds; pinned blocks are
powers of two and are kept.
"""

from __future__ import annotations

import sys
import weakref
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.cuda.support import fake_streams
from tests.cuda.support.real_cupy import cupy as real

Host = np.ndarray[Any, Any]
UNIT = 512
TINY = 1 << 16
"""A smaller capacity is reported and not enforced: it tests how work is cut, and blocks of 512 bytes would swamp it."""


@dataclass
class Block:
    """Memory of one array and its views."""

    size: int
    written: fake_streams.Mark
    owner: weakref.ref[Host]


@dataclass
class Memory:
    """Bytes in use and held by the pool.

    capacity : what the driver had free at first
    limit    : of the pool; 0 for none
    peak     : most bytes in use so far
    """

    capacity: int = 39 << 30
    limit: int = 0
    used: int = 0
    held: int = 0
    peak: int = 0
    pinned: int = 0
    pinned_free: list[int] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)
    blocks: dict[int, Block] = field(default_factory=dict)
    slow_sorts: list[str] = field(default_factory=list)  # files with sorts that compare elements
    foreign: Any = None  # another allocator, such as RMM's, in place of the pool

    def reset(self, capacity: int, limit: int) -> None:
        self.capacity, self.limit = capacity, limit
        self.used = self.held = self.peak = self.pinned = 0
        self.pinned_free, self.foreign = [], None
        self.blocks.clear()
        self.waits.clear()
        self.slow_sorts.clear()

    def most(self) -> int:
        """Bytes that arrays may use altogether."""
        if self.capacity < TINY:
            return sys.maxsize
        return min(self.capacity, self.limit) if self.limit and self.foreign is None else self.capacity

    def free(self) -> int:
        """What the driver reports as free."""
        return self.capacity if self.capacity < TINY else self.capacity - self.held

    def workspace(self, size: int) -> None:
        """Memory that a library call needs beside its result."""
        if self.used + size > self.most():
            raise real.cuda.memory.OutOfMemoryError(size, self.held, self.limit)
        self.peak = max(self.peak, self.used + size)
        self.held = max(self.held, self.used + size)

    def note(self, host: Host, *, writes: bool = False) -> None:
        """An array is made or used: count its memory, and check the order of the work on it."""
        root = host
        while isinstance(root.base, np.ndarray):
            root = root.base
        block = self.blocks.get(id(root))
        if block is None or block.owner() is not root:
            size = -(-root.nbytes // UNIT) * UNIT
            self.workspace(size)
            self.used += size
            key = id(root)
            self.blocks[key] = Block(size, fake_streams.mark(), weakref.ref(root, lambda ref: self._release(key, ref)))
            return
        fake_streams.check(block.written, f"an array of {root.nbytes} bytes")
        if writes:
            block.written = fake_streams.mark()

    def _release(self, key: int, owner: weakref.ref[Host]) -> None:
        block = self.blocks.get(key)
        if block is not None and block.owner is owner:
            del self.blocks[key]
            self.used -= block.size
            if self.foreign is not None:
                self.held = self.used

    def stage(self, size: int) -> None:
        """Take a pinned block for an upload and give it back to its pool."""
        rounded = 1 << max(UNIT.bit_length() - 1, (size - 1).bit_length() if size else 0)
        if rounded not in self.pinned_free:
            self.pinned_free.append(rounded)
            self.pinned += rounded

    def wait(self, how: str) -> None:
        """The host waits for the current stream."""
        self.waits.append(how)
        fake_streams.settle()


def caller() -> str:
    """The file of this project that called CuPy."""
    frame = sys._getframe(1)
    while frame.f_back is not None and "/gpuanon/" not in frame.f_code.co_filename:
        frame = frame.f_back
    return frame.f_code.co_filename.rpartition("/")[2]


memory = Memory()


class Pool:
    """Stands in for `cupy.cuda.MemoryPool`."""

    def malloc(self, size: int) -> Any:
        raise NotImplementedError("memory without an array")

    def free_bytes(self) -> int:
        return 0 if memory.foreign is not None or memory.capacity < TINY else memory.held - memory.used

    def used_bytes(self) -> int:
        return 0 if memory.foreign is not None else memory.used

    def total_bytes(self) -> int:
        return 0 if memory.foreign is not None else memory.held

    def get_limit(self) -> int:
        return memory.limit

    def set_limit(self, size: int | None = None, fraction: float | None = None) -> None:
        memory.limit = int(fraction * memory.capacity) if size is None and fraction is not None else size or 0

    def free_all_blocks(self, stream: Any = None) -> None:
        memory.held = memory.used


class PinnedPool:
    """Stands in for `cupy.cuda.PinnedMemoryPool`."""

    def n_free_blocks(self) -> int:
        return len(memory.pinned_free)

    def free_all_blocks(self) -> None:
        memory.pinned -= sum(memory.pinned_free)
        memory.pinned_free.clear()


pool, pinned_pool = Pool(), PinnedPool()
_default = pool.malloc


def get_allocator() -> Any:
    """Stands in for `cupy.cuda.get_allocator`."""
    return _default if memory.foreign is None else memory.foreign


def set_allocator(allocator: Any = None) -> None:
    """Stands in for `cupy.cuda.set_allocator`."""
    memory.foreign = None if allocator is None or allocator == _default else allocator
