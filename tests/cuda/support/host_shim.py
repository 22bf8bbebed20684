"""Layer 3: the same kernel file through g++ and its sanitizers, every CUDA thread a fiber.

AddressSanitizer sees accesses outside of arrays and of shared memory, UndefinedBehaviorSanitizer integers that
overflow, several schedules what depends on the order of threads.  Data races are found by the interpreter, which
knows what barriers order; ThreadSanitizer would add nothing to that but time.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.cuda.support.faults import CudaFault, Endless
from tests.cuda.support.interpreter import Size, _triple
from tests.cuda.support.nvrtc import CACHE

HERE = Path(__file__).parent
COMPILER = shutil.which("g++")
MISSING = None if COMPILER else "g++ is not installed; the interpreter runs the same kernels"

TIMEOUT = 30

_FLAGS = (
    *("-std=c++17", "-O1", "-g1", "-w", "-ffp-contract=off", "-fno-omit-frame-pointer"),
    *("-fsanitize=address,undefined", "-fsanitize-sections=cuda_shared", "-fno-sanitize-recover=undefined"),
)
_KERNEL = re.compile(r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?(\w+)\s*\(')


class SanitizerFault(CudaFault):
    """A sanitizer, or the scheduler of the fibers, stopped the kernel."""


def program(real: str, define: Mapping[str, int | str], text: str) -> Path:
    """The program that launches the kernels of a text, built or taken from the cache."""
    names = _KERNEL.findall(re.sub(r"//[^\n]*", "", text))
    known = "\n".join(f'static const host::Known<{name}> known_{name}("{name}");' for name in names)
    code = f'#include "cuda_on_host.h"\n{text}\n{known}\n'
    macros = (f"-DREAL={real}", *(f"-D{key}={value}" for key, value in sorted(define.items())))
    runtime = _built((HERE / "host_runtime.cpp").read_text(), ("-c",))
    return _built(code, (*macros, str(runtime)))


def _built(code: str, options: tuple[str, ...]) -> Path:
    """What g++ makes of some code, from the cache if it has been made before."""
    header = (HERE / "cuda_on_host.h").read_text()
    key = hashlib.sha256(repr((code, header, _FLAGS, options)).encode()).hexdigest()[:24]
    built = CACHE / f"{key}.o"
    if built.exists():
        return built
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        file, made = Path(folder) / "kernel.cpp", Path(folder) / "made"
        file.write_text(code)
        command = [str(COMPILER), *_FLAGS, "-I", str(HERE), str(file), *options, "-o", str(made)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CudaFault(f"g++ refuses the kernel:\n{done.stderr[:2000]}")
        os.replace(made, built)
    return built


def launch(
    built: Path, name: str, grid: Size, block: Size, args: Sequence[Any], shared: int = 0, schedule: int = 0
) -> None:
    """Launch a kernel on NumPy arrays, which are changed in place."""
    arrays = [value for value in args if isinstance(value, np.ndarray) and value.ndim]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "launch"
        file.write_bytes(_encoded(name, _triple(grid), _triple(block), args, shared, schedule))
        environment = {**os.environ, "ASAN_OPTIONS": "detect_leaks=0:detect_stack_use_after_return=0"}
        try:
            done = subprocess.run(
                [str(built), str(file)], capture_output=True, text=True, check=False, env=environment, timeout=TIMEOUT
            )
        except subprocess.TimeoutExpired:
            raise Endless(f"{name}: ran for more than {TIMEOUT} s on the host") from None
        if done.returncode:
            raise SanitizerFault(f"{name}: {_reason(done.stderr)}")
        content = Path(f"{file}.out").read_bytes()
    at = 0
    for array in arrays:
        array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8, array.nbytes, at)
        at += array.nbytes


def _encoded(
    name: str, grid: tuple[int, ...], block: tuple[int, ...], args: Sequence[Any], shared: int, schedule: int
) -> bytes:
    """A launch as the program reads it."""
    parts = [struct.pack("<Q", len(name)), name.encode(), struct.pack("<6I", *grid, *block)]
    parts.append(struct.pack("<QiQ", shared, schedule, len(args)))
    for value in args:
        is_array = isinstance(value, np.ndarray) and value.ndim > 0
        content = np.ascontiguousarray(value).tobytes()
        parts += [struct.pack("<?Q", is_array, len(content)), content]
    return b"".join(parts)


def _reason(text: str) -> str:
    """The line of a sanitizer's report that says what happened."""
    for pattern in (r"CUDA fault: .*", r"ERROR: AddressSanitizer: .*", r".*runtime error: .*"):
        if found := re.search(pattern, text):
            return found[0]
    return text[-500:] or "the program was stopped"
