"""A launch: its shape, its checks, and its statistics."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.cuda.support.lanes import WARP, Lanes
from tests.cuda.support.ptx import Kernel
from tests.cuda.support.traffic import Traffic


@dataclass
class Launch:
    """Statistics of one launch.

    executed : how often a warp executed each instruction of the kernel
    blocks, threads, shared : blocks of the grid, threads of a block, its bytes of static and dynamic shared memory
    steps    : how many instructions the interpreter took
    traffic  : counters of global sectors and shared banks, when asked for
    """

    kernel: Kernel
    executed: Lanes
    blocks: int
    threads: int
    shared: int
    steps: int = 0
    traffic: Traffic | None = None


@dataclass(frozen=True)
class Watch:
    """Checks of the interpreter.

    races   : data races in shared and global memory
    traffic : sectors and bank conflicts of every request
    limit   : instructions after which a launch counts as endless
    """

    races: bool = True
    traffic: bool = False
    limit: int = 20_000_000


@dataclass
class Grid:
    """Shape of a launch."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_shared: int = 0
    only: Sequence[int] | None = None
    """Numbers of the blocks that are executed; None for all."""

    @property
    def threads(self) -> int:
        return int(np.prod(self.block))

    @property
    def blocks(self) -> int:
        return int(np.prod(self.grid))

    @property
    def lanes_per_block(self) -> int:
        """Threads of a block, padded to whole warps."""
        return -(-self.threads // WARP) * WARP
