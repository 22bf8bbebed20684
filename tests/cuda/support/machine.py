"""Executes a kernel's PTX for all threads of many blocks at once, as lanes of NumPy arrays."""

from __future__ import annotations

import numpy as np

from tests.cuda.support.blocks import Batch
from tests.cuda.support.faults import BadLaunch
from tests.cuda.support.launches import Grid, Launch, Watch
from tests.cuda.support.memory import Region
from tests.cuda.support.ptx import Kernel
from tests.cuda.support.traffic import Traffic

__all__ = ["Grid", "Launch", "Watch", "run"]

LANES_AT_ONCE = 4096


def run(
    kernel: Kernel, shape: Grid, arguments: list[bytes], regions: list[Region], watch: Watch | None = None
) -> Launch:
    """Execute all blocks.

    arguments : the bytes of each parameter, as the driver would copy them
    regions   : the arrays that pointers lead into; region i has the addresses from (i + 1) · 2⁴⁰ on
    """
    watch = watch or Watch()
    _check(kernel, shape, arguments)
    tables = [Region(v.name, np.frombuffer(bytearray(v.data or b""), np.uint8), read_only=True) for v in kernel.tables]
    everything = [*regions, *tables]
    symbols = {v.name: (len(regions) + 1 + i) << 40 for i, v in enumerate(kernel.tables)}
    launch = Launch(
        kernel,
        np.zeros(len(kernel.instructions), np.int64),
        shape.blocks,
        shape.threads,
        kernel.shared_bytes + shape.dynamic_shared,
        traffic=Traffic() if watch.traffic else None,
    )
    at_once = max(1, LANES_AT_ONCE // shape.lanes_per_block)
    chosen = range(shape.blocks) if shape.only is None else shape.only
    for first in range(0, len(chosen), at_once):
        blocks = np.array(chosen[first : first + at_once], np.int64)
        with np.errstate(all="ignore"):
            Batch(kernel, shape, arguments, everything, symbols, blocks, watch, launch).run()
    for region in everything:
        if region.history is not None:
            region.history.finish()
    return launch


def _check(kernel: Kernel, shape: Grid, arguments: list[bytes]) -> None:
    if len(arguments) != len(kernel.parameters):
        raise BadLaunch(f"{kernel.name}: {len(arguments)} arguments for {len(kernel.parameters)} parameters")
    for number, (parameter, given) in enumerate(zip(kernel.parameters, arguments, strict=True)):
        if parameter.size != len(given):
            raise BadLaunch(
                f"{kernel.name}: argument {number} has {len(given)} bytes, the kernel reads {parameter.size}"
            )
    if not 1 <= shape.threads <= min(1024, kernel.max_threads):
        raise BadLaunch(f"{kernel.name}: {shape.threads} threads a block, from 1 to {kernel.max_threads} are allowed")
    if min(shape.grid) < 1 or any(g > most for g, most in zip(shape.grid, (2**31 - 1, 65535, 65535), strict=True)):
        raise BadLaunch(f"{kernel.name}: a grid of {shape.grid} blocks")
