"""NVIDIA's compiler from PyPI, called as CuPy calls it: no nvcc, no driver, no GPU.

`compiled` turns one kernel file into a cubin (with what `ptxas` says of registers, spills, stack and shared
memory) or into PTX for the interpreter.  Results are kept on disk by the hash of source, options and compiler.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import tempfile
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parents[3]
KERNELS = ROOT / "kernels"
CACHE = ROOT / ".pytest_cache" / "d" / "cuda"
"""Where pytest keeps its own cache, so that ``--cache-clear`` empties it and nothing is ever committed."""

ARCHITECTURES = (75, 80, 86, 89, 90, 100, 120)
REALS = ("float", "double")
INTERPRETED_ARCHITECTURE = 80

Real = Literal["float", "double"]


class CompileError(AssertionError):
    """The compiler refused the kernel; the message is its log."""


@dataclass(frozen=True)
class Resources:
    """What one kernel needs on one architecture."""

    registers: int
    stack: int
    spill_stores: int
    spill_loads: int
    shared: int
    barriers: int


@dataclass(frozen=True)
class Cubin:
    """Machine code of one file, and the resources of each of its kernels."""

    image: bytes
    kernels: dict[str, Resources]


def kernel_files() -> list[Path]:
    """Every kernel file of the project."""
    return sorted(KERNELS.glob("*.cu"))


def cubin(source: str | Path, real: Real, arch: int, options: tuple[str, ...] = ()) -> Cubin:
    """Compile to machine code for ``sm_<arch>``, with CuPy's own options."""
    flags = (f"-arch=sm_{arch}", f"-DREAL={real}", "--ptxas-options=-v", *options)
    image, log = _cached(_text(source), flags, "cubin")
    kernels = json.loads(log) if log.startswith("{") else {}
    return Cubin(image, {name: Resources(**values) for name, values in kernels.items()})


def interpreted_options(arch: int = INTERPRETED_ARCHITECTURE) -> tuple[str, ...]:
    """What makes PTX for the interpreter: line numbers change no instruction."""
    return (f"-arch=compute_{arch}", "-lineinfo")


def ptx_with_options(source: str, options: tuple[str, ...]) -> str:
    """Compile to PTX with exactly these options besides CuPy's own."""
    return _cached(source, options, "ptx")[0].decode()


def _text(source: str | Path) -> str:
    return source.read_text() if isinstance(source, Path) else source


def _cached(source: str, flags: tuple[str, ...], method: str) -> tuple[bytes, str]:
    """Compile, or read what an earlier run compiled; the log of a cubin is kept as parsed JSON."""
    key = hashlib.sha256(repr((source, flags, method, _compiler_version())).encode()).hexdigest()[:24]
    image_file, log_file = CACHE / f"{key}.{method}", CACHE / f"{key}.json"
    if image_file.exists() and log_file.exists():
        return image_file.read_bytes(), log_file.read_text()
    image, log = _compile(source, flags, method)
    text = json.dumps({name: asdict(resources) for name, resources in parse_log(log).items()})
    _write(log_file, text.encode())
    _write(image_file, image)
    return image, text


def _write(file: Path, content: bytes) -> None:
    """Write atomically: test processes share the cache."""
    file.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(dir=file.parent)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(content)
    os.replace(name, file)


@cache
def _compiler_version() -> tuple[int, int]:
    from tests.cuda.support.real_cupy import in_place, nvrtc

    with in_place():
        return nvrtc.getVersion()


def cupy_options(options: tuple[str, ...]) -> tuple[str, ...]:
    """`options` with those that CuPy adds to every `RawModule`."""
    from tests.cuda.support.real_cupy import core

    return (*core.assemble_cupy_compiler_options(options), "-ftz=true", "--device-as-default-execution-space")


def _compile(source: str, flags: tuple[str, ...], method: str) -> tuple[bytes, str]:
    from tests.cuda.support.real_cupy import cupy, in_place

    compiler = cupy.cuda.compiler
    log = io.StringIO()
    with in_place():  # it looks itself up by name
        program = compiler._NVRTCProgram(source, "kernel.cu", method=method)
        try:
            image, _ = program.compile(cupy_options(flags), log_stream=log)
        except compiler.CompileException as error:
            raise CompileError(str(error)) from None
    return image.encode() if isinstance(image, str) else image, log.getvalue()


_ENTRY = re.compile(r"Compiling entry function '(\w+)' for")
_FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")


def parse_log(log: str) -> dict[str, Resources]:
    """Read the resources of each kernel out of ``ptxas -v``."""
    found: dict[str, Resources] = {}
    name, frame = "", (0, 0, 0)
    for line in log.splitlines():
        if entry := _ENTRY.search(line):
            name, frame = entry[1], (0, 0, 0)
        elif numbers := _FRAME.search(line):
            frame = (int(numbers[1]), int(numbers[2]), int(numbers[3]))
        elif name and (used := _USED.search(line)):
            found[name] = Resources(
                registers=int(used[1]),
                stack=frame[0],
                spill_stores=frame[1],
                spill_loads=frame[2],
                shared=_count(r"(\d+) bytes smem", line),
                barriers=_count(r"used (\d+) barriers", line),
            )
            name = ""
    return found


def _count(pattern: str, line: str) -> int:
    found = re.search(pattern, line)
    return int(found[1]) if found else 0
