"""Layer 8: the kernel files as plain C++ with one lane per warp, for problems of real size.

A second executor of the same sources, written apart from the interpreter (which runs NVIDIA's PTX) and from the fibers
(which run every thread under sanitizers).  It knows no threads, so it proves nothing of barriers, shuffles and races;
what it runs is the algorithm of a kernel, at native speed: a million rows instead of a few hundred.

Blocks whose threads meet at barriers run with one thread.  Warps that only exchange values among their lanes run with
one lane each, in turn.  Kernels without either run thread by thread.  Kernels whose threads share tiles of fixed size
(distances, affinities, kernel PCA) cannot run this way.
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
_FLAGS = ("-std=c++17", "-O2", "-w", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared")
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')
_BY_WARP = {"sums", "minima", "maxima"}
"""Kernels of which a warp works by itself; a thread block has several."""


class OneLaneFault(CudaFault):
    """A kernel cannot run with one lane, or it wrote beyond its shared memory."""


class _Place(ctypes.Structure):
    _fields_ = [("x", ctypes.c_uint), ("y", ctypes.c_uint), ("z", ctypes.c_uint)]


@functools.cache
def _library(text: str, real: str, define: tuple[tuple[str, str], ...]) -> ctypes.CDLL:
    """The kernels of a text as functions ``run_NAME``, built or taken from the cache."""
    code = re.sub(r"//[^\n]*", "", text)
    if "x_width" in code:
        raise OneLaneFault("threads that share tiles cannot run with one lane")
    calls = "\n".join(
        f'extern "C" int run_{name}(Place grid, Place size, size_t bytes, char* const* given) '
        f"{{ return one_lane::Call<{name}>::run(grid, size, bytes, given); }}"
        for name in _KERNEL.findall(code)
    )
    macros = [f"-DREAL={real}", *(f"-D{key}={value}" for key, value in define)]
    macros += [] if "__syncthreads" in code else ["-DNO_BARRIERS"]
    whole = f'#include "one_lane.h"\n{text}\n{calls}\n'
    header = (HERE / "one_lane.h").read_text()
    built = CACHE / f"{hashlib.sha256(repr((whole, header, _FLAGS, macros)).encode()).hexdigest()[:24]}.so"
    if not built.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=CACHE) as folder:
            file, made = Path(folder) / "kernel.cpp", Path(folder) / "made.so"
            file.write_text(whole)
            command = [str(COMPILER), *_FLAGS, *macros, "-I", str(HERE), str(file), "-o", str(made)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise OneLaneFault(f"g++ refuses the kernel:\n{done.stderr[:2000]}")
            os.replace(made, built)
    return ctypes.CDLL(str(built))


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
    whole = re.sub(r"//[^\n]*", "", text)
    threads = 1 if "__syncthreads" in whole else block[0] // WARP if name in _BY_WARP else block[0]
    held = [np.array([value.ctypes.data]) if _is_array(value) else np.atleast_1d(value) for value in args]
    given = (ctypes.c_void_p * len(held))(*(value.ctypes.data for value in held))
    run = getattr(library, f"run_{name}")
    run.argtypes = [_Place, _Place, ctypes.c_size_t, ctypes.c_void_p]
    if run(_place(grid), _place((threads,)), shared, given):
        raise OneLaneFault(f"{name}: it wrote beyond its {shared} bytes of shared memory")


def _is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.ndim > 0


def _place(size: Sequence[int]) -> _Place:
    return _Place(*size, *[1] * (3 - len(size)))
