"""Layer 2: run a kernel on NumPy arrays by interpreting the PTX that NVIDIA's compiler emitted for it.

>>> module = Module.of("distance", real="double")                            # kernels/distance.cu
>>> module.launch("nearest", grid=(4,), block=(128,), args=(X, Y, np.int64(n), np.int64(m), np.int32(d), out, index))

Arrays are changed in place.  Numbers are passed as CuPy passes them: by their own bytes, never converted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tests.cuda.support import nvrtc
from tests.cuda.support.faults import BadLaunch
from tests.cuda.support.machine import Grid, Launch, Watch, run
from tests.cuda.support.memory import Region
from tests.cuda.support.ptx import Kernel
from tests.cuda.support.ptx_kernels import parse

Size = int | Sequence[int]


@lru_cache(maxsize=128)
def kernels_of(source: str, options: tuple[str, ...]) -> dict[str, Kernel]:
    """Compile and read a kernel file's text."""
    return parse(nvrtc.ptx_with_options(source, options))


@dataclass(frozen=True)
class Module:
    """The kernels of one file, compiled for one type."""

    kernels: dict[str, Kernel]

    @classmethod
    def of(
        cls,
        file: str,
        real: nvrtc.Real = "double",
        *,
        define: dict[str, int] | None = None,
        arch: int = nvrtc.INTERPRETED_ARCHITECTURE,
    ) -> Module:
        """The kernels of ``kernels/<file>.cu``."""
        from gpuanon.arrays.kernels import source

        return cls.from_source(source(file), real, define=define, arch=arch)

    @classmethod
    def from_source(
        cls,
        source: str,
        real: nvrtc.Real = "double",
        *,
        define: dict[str, int] | None = None,
        arch: int = nvrtc.INTERPRETED_ARCHITECTURE,
    ) -> Module:
        """The kernels of a text."""
        defined = tuple(f"-D{key}={value}" for key, value in sorted((define or {}).items()))
        return cls(kernels_of(source, ("-std=c++17", f"-DREAL={real}", *defined, *nvrtc.interpreted_options(arch))))

    def launch(
        self,
        name: str,
        grid: Size,
        block: Size,
        args: Sequence[Any],
        shared: int = 0,
        watch: Watch | None = None,
        only: Sequence[int] | None = None,
    ) -> Launch:
        """Launch a kernel on NumPy arrays (changed in place) and NumPy numbers; `only` some of its blocks."""
        return launch(self.kernels[name], grid, block, args, shared, watch, only)


def launch(
    kernel: Kernel,
    grid: Size,
    block: Size,
    args: Sequence[Any],
    shared: int = 0,
    watch: Watch | None = None,
    only: Sequence[int] | None = None,
) -> Launch:
    """Pass arguments as the driver would and execute."""
    regions: list[Region] = []
    given: list[bytes] = []
    for number, value in enumerate(args):
        if isinstance(value, np.ndarray) and value.ndim:
            given.append(_pointer(kernel.name, number, value, regions))
        else:
            given.append(np.asarray(value).tobytes())
    return run(kernel, Grid(_triple(grid), _triple(block), shared, only), given, regions, watch)


def _pointer(kernel: str, number: int, array: np.ndarray[Any, Any], regions: list[Region]) -> bytes:
    """Make an array reachable, and give its address."""
    if not array.flags.c_contiguous:
        raise BadLaunch(f"{kernel}: argument {number} is not contiguous: the kernel would read other elements")
    skew = _skew(array)
    grain = 4 if array.itemsize >= 4 else array.itemsize
    content = array.reshape(-1).view(np.uint8)
    regions.append(Region(f"argument {number}", content, skew, not array.flags.writeable, None, grain))
    return ((len(regions) << 40) + skew).to_bytes(8, "little")


def _skew(array: np.ndarray[Any, Any]) -> int:
    """How far into its allocation an array begins, as far as alignment can tell (allocations are aligned to 256)."""
    owner = array
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    return (array.ctypes.data - owner.ctypes.data) % 256


def _triple(size: Size) -> tuple[int, int, int]:
    values = (size,) if isinstance(size, int) else tuple(size)
    padded = [int(value) for value in (*values, 1, 1)]
    return padded[0], padded[1], padded[2]
