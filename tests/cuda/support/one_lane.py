"""Layer 8: the kernel files as plain C++ with optimisation and without sanitizers, for problems of real size.

A second executor of the same sources, written apart from the interpreter (which runs NVIDIA's PTX) and from the fibers
(which run every thread under sanitizers).  What it runs is the algorithm of a kernel, at native speed: a million rows
instead of a few hundred.  The source says how:

- Kernels without barriers (`random`, `empirical_inverse`, `refine_cells`, `rosenblatt`, `segment`): thread by thread,
  each to its end.  Warps of `segment` exchange values among their lanes and run with one lane each.
- Kernels that count their warps' lanes by the macro LANES (`cuts`, `kmember`, `mdav`, `refine`,
  `refine_neighbours`, `univariate`): one thread per block, so that a barrier or a shuffle is nothing.
- Kernels whose threads share tiles of fixed size (`distance`, `affinity`, `kernel_pca`): all threads of a block, in
  step from barrier to barrier, with the tiles and launch shapes of a device.

Barriers are thus checked for the last of these only, and in one order of threads.  Writes beside an array or beyond
dynamic shared memory are noticed up to some distance.  Shuffles, races and reads outside of arrays are left to the
other two executors.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.cuda.support.faults import CudaFault
from tests.cuda.support.host_shim import COMPILER, MISSING
from tests.cuda.support.nvrtc import CACHE

__all__ = ["MISSING", "OneLaneFault", "launch"]

HERE = Path(__file__).parent
WARP = 32
_FLAGS = (
    *("-std=c++17", "-O2", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared"),
    "-U_FORTIFY_SOURCE",  # it forbids jumps from stack to stack
)
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
_BY_WARP = {"sums", "minima", "maxima"}
"""Kernels of which a warp works by itself; a thread block has several."""

_FENCE = 1 << 16  # bytes before and after an array
_BEYOND_SHARED, _DIFFERENT_BARRIERS = 1, 2  # Fault in one_lane.h


class OneLaneFault(CudaFault):
    """g++ refuses a kernel, it wrote beyond its memory, or its threads wait at different barriers."""


class _Place(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


@functools.cache
def _library(text: str, real: str, define: tuple[tuple[str, str], ...]) -> ctypes.CDLL:
    """The kernels of a text as functions ``run_NAME``, built or taken from the cache."""
    code = _without_comments(text)
    calls = "\n".join(
        f'extern "C" int run_{name}(Place grid, Place size, size_t bytes, char* const* given) '
        f"{{ return one_lane::Call<{name}>::run(grid, size, bytes, given); }}"
        for name in _KERNEL.findall(code)
    )
    flags = (*_FLAGS, *_vector_options())
    macros = [f"-DREAL={real}", *(f"-D{key}={value}" for key, value in define)]
    macros += [] if (way := _way(code)) is None else [f"-D{way}"]
    whole = f'#include "one_lane.h"\n{text}\n{calls}\n'
    headers = [(HERE / name).read_text() for name in ("one_lane.h", "in_step.h")]
    built = CACHE / f"{hashlib.sha256(repr((whole, headers, flags, macros)).encode()).hexdigest()[:24]}.so"
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            file, made = Path(folder) / "kernel.cpp", Path(folder) / "made.so"
            file.write_text(whole)
            command = [str(COMPILER), *flags, *macros, "-I", str(HERE), str(file), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OneLaneFault(f"g++ refuses the kernel:\n{done.stderr[:2000]}")
            os.replace(made, built)
    return ctypes.CDLL(str(built))


@functools.cache
def _vector_options() -> tuple[str, ...]:
    """Options for vectors and fused multiplication and addition, if this processor has them; else `fma` is a call."""
    try:
        features = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:  # not Linux
        return ()
    return ("-mavx2", "-mfma") if {"avx2", "fma"} <= features else ()


def launch(
    text: str,
    macros: Mapping[str, str],
    name: str,
    grid: Sequence[int],
    block: Sequence[int],
    args: Sequence[Any],
    shared: int = 0,
) -> None:
    """Launch a kernel on NumPy arrays, which are changed in place."""
    define = tuple(sorted((key, value) for key, value in macros.items() if key != "REAL"))
    library = _library(text, macros.get("REAL", "float"), define)
    way = _way(_without_comments(text))
    threads = 1 if way is None else block[0] // WARP if name in _BY_WARP else block[0]
    arrays = {number: _Fenced(value) for number, value in enumerate(args) if _is_array(value)}
    held = [arrays[i].address() if i in arrays else np.atleast_1d(value) for i, value in enumerate(args)]
    given = (ctypes.c_void_p * len(held))(*(value.ctypes.data for value in held))
    run = getattr(library, f"run_{name}")
    run.argtypes = [_Place, _Place, ctypes.c_size_t, ctypes.c_void_p]
    fault = run(_place(grid), _place((threads,)), shared, given)
    if fault == _BEYOND_SHARED:
        raise OneLaneFault(f"{name}: it wrote beyond its {shared} bytes of shared memory")
    if fault == _DIFFERENT_BARRIERS:
        raise OneLaneFault(f"{name}: threads of a block wait at different barriers")
    for number, array in arrays.items():
        if not array.copy_back():
            raise OneLaneFault(f"{name}: it wrote beyond the array that is its argument {number}")


class _Fenced:
    """A copy of an array between bytes that a kernel must not write; read as numbers, they are NaN or −1."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        self._bytes = np.full(array.nbytes + 2 * _FENCE, 0xFF, dtype=np.uint8)
        self._inside = self._bytes[_FENCE : _FENCE + array.nbytes]
        self._inside[:] = array.reshape(-1).view(np.uint8)

    def address(self) -> np.ndarray[Any, Any]:
        """Where the copy is, as the bytes of an argument."""
        return np.array([self._inside.ctypes.data])

    def copy_back(self) -> bool:
        """Change the array as its copy was changed; False if the kernel wrote beside it."""
        self._array.reshape(-1).view(np.uint8)[:] = self._inside
        return bool((self._bytes[:_FENCE] == 0xFF).all() and (self._bytes[-_FENCE:] == 0xFF).all())


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*", "", text)


def _way(code: str) -> str | None:
    """How the threads of a block run, as a macro of one_lane.h: IN_TURN, IN_STEP, or None for one thread."""
    if "__syncthreads" not in code:
        return "IN_TURN"
    return None if "LANES" in code else "IN_STEP"


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _place(size: Sequence[int]) -> _Place:
    return _Place(*size, *[1] * (3 - len(size)))
