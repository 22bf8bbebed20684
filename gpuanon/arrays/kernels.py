"""CUDA kernels: located, compiled, checked and launched here, and nowhere else.

The kernels are ``extern "C"`` functions in ``kernels/*.cu`` (``gpuanon/_cuda`` in a wheel), written for a type
``REAL`` that is defined at launch.  The parameter list of a kernel is read from its source, so that an argument of the
wrong type, whose bytes CUDA would misread, is an error here.
"""

from __future__ import annotations

import functools
import importlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from gpuanon.arrays import ledger
from gpuanon.arrays.backend import Array, on_device
from gpuanon.arrays.device_memory import free_bytes, pieces, pieces_of_parts, require
from gpuanon.errors import BackendError

__all__ = [
    "launch", "limits", "Limits", "Parameter", "parameters",
    "files", "folder", "names", "source", "variants",
    "free_bytes", "pieces", "pieces_of_parts", "require",
]  # fmt: skip

_PACKAGED = Path(__file__).resolve().parents[1] / "_cuda"
_CHECKOUT = Path(__file__).resolve().parents[2] / "kernels"
_TYPES = {
    "float": "float32",
    "double": "float64",
    "int": "int32",
    "unsigned int": "uint32",
    "long long": "int64",
    "unsigned long long": "uint64",
    "unsigned char": "uint8",
    "bool": "bool",
}
_KERNEL = r'extern\s+"C"\s+__global__\s+void\s+(?:__launch_bounds__\s*\([^)]*\)\s*)?{name}\s*\({list}'
_REALS = {np.dtype(np.float32): "float", np.dtype(np.float64): "double"}
_GRID_LIMITS = (2**31 - 1, 65535, 65535)  # of every compute capability
_PLAIN_SHARED = 48 * 1024  # more shared memory than this, static and dynamic together, must be requested


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its C type, without the pointer, and whether it is a pointer."""

    name: str
    type: str
    pointer: bool


@dataclass(frozen=True)
class Limits:
    """What a thread block may use on the current device, and how many multiprocessors there are.

    shared : bytes of shared memory, static and dynamic together
    """

    shared: int
    threads: int
    multiprocessors: int


def folder() -> Path:
    """The folder of the ``.cu`` files."""
    return _PACKAGED if _PACKAGED.is_dir() else _CHECKOUT


@functools.cache
def source(file: str) -> str:
    """The text of ``file`` (a name without its ending), its ``#include "…"`` lines expanded.

    They are expanded here because CuPy's compile cache on disk does not depend on included files.  ``#line`` directives
    keep the compiler's messages pointing at the original files.
    """
    return _expanded(folder() / f"{file}.cu")


def _expanded(path: Path) -> str:
    """The text of one file with its includes expanded."""
    if not path.is_file():
        raise BackendError(f"kernel file {path.name}: not found", hint="the installation is incomplete: install again")
    lines = [f'#line 1 "{path.name}"']
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        include = re.fullmatch(r'\s*#\s*include\s+"([\w.]+)"\s*', line)
        lines += [_expanded(path.parent / include[1]), f'#line {number + 1} "{path.name}"'] if include else [line]
    return "\n".join(lines)


def files() -> tuple[str, ...]:
    """The names of all kernel files, without their ending."""
    return tuple(sorted(path.stem for path in folder().glob("*.cu")))


def names(file: str) -> tuple[str, ...]:
    """The kernels in `file`."""
    return tuple(re.findall(_KERNEL.format(name=r"(\w+)", list=""), _code(file)))


def variants(file: str) -> tuple[dict[str, int], ...]:
    """The sets of constants that `file` is compiled with, from its line ``// variants: NAME=value …``."""
    found = re.search(r"^// variants:(.*)$", source(file), flags=re.M)
    if found is None:
        return ({},)
    return tuple({name: int(value)} for name, value in re.findall(r"(\w+)=(\d+)", found[1]))


def _code(file: str) -> str:
    """The source without its comments."""
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", source(file), flags=re.S)


@functools.cache
def parameters(file: str, name: str) -> tuple[Parameter, ...]:
    """The parameters of the kernel `name` in `file`, as its source declares them."""
    found = re.search(_KERNEL.format(name=name, list=r"([^)]*)\)"), _code(file))
    if found is None:
        raise BackendError(f"kernel {name}: not found in {file}.cu")
    return tuple(_parameter(declared) for declared in found[1].split(",") if declared.strip())


def _parameter(declared: str) -> Parameter:
    """Read one declaration such as ``const real* __restrict__ X``."""
    words = re.sub(r"\b(const|__restrict__)\b|\*", " ", declared).split()
    kind = " ".join(words[:-1])
    kind = {"real": "REAL", "unsigned": "unsigned int"}.get(kind, kind)
    if kind != "REAL" and kind not in _TYPES:
        raise BackendError(f"kernel parameter {declared.strip()!r}: its type is not one of {', '.join(_TYPES)}, real")
    return Parameter(words[-1], kind, "*" in declared)


def launch(
    file: str,
    name: str,
    *args: Any,
    over: int | tuple[int, ...],
    each: int | tuple[int, ...] | None = None,
    threads: int | tuple[int, ...] = 256,
    shared: int = 0,
    define: Mapping[str, int] | None = None,
) -> None:
    """Launch the kernel `name` of ``kernels/file.cu``.

    Parameters
    ----------
    file, name
        File and name of the kernel.
    *args
        One per parameter: C-contiguous device arrays (None for a null pointer) and Python or NumPy numbers, which
        are converted to the declared type.  All arrays declared ``real`` have one dtype, which defines ``REAL``.
    over
        Work items along each grid axis (rows, parts, tiles).  Nothing is launched if one is 0.
    each
        Work items per thread block along each axis; by default `threads`.
    threads
        Threads per thread block, along each axis.
    shared
        Bytes of dynamic shared memory.
    define
        Compile-time constants; each set of values is compiled once.
    """
    declared = parameters(file, name)
    if len(args) != len(declared):
        raise BackendError(f"kernel {name}: {len(declared)} arguments are needed, got {len(args)}")
    real = _real(name, declared, args)
    values = tuple(_argument(name, parameter, value, real) for parameter, value in zip(declared, args, strict=True))
    block = _axes(threads)
    shares = _axes(block if each is None else each)
    grid = tuple(-(-work // share) for work, share in zip(_axes(over), shares, strict=True))
    if min(grid) <= 0:
        return
    cupy = importlib.import_module("cupy")
    define = {} if define is None else define
    options = ("-std=c++17", f"-DREAL={_REALS[real]}", *(f"-D{key}={int(define[key])}" for key in sorted(define)))
    kernel = _kernel(cupy, cupy.cuda.Device().id, file, name, options)
    _check_limits(name, kernel, grid, block, shared)
    kernel(grid, block, values, shared_mem=shared)
    if (written := ledger.current()) is not None:
        written.launches[name] += 1


def _axes(size: int | tuple[int, ...]) -> tuple[int, ...]:
    """A size along one or several axes, as plain integers."""
    return tuple(int(value) for value in size) if isinstance(size, tuple) else (int(size),)


def _real(name: str, declared: Sequence[Parameter], args: Sequence[Any]) -> np.dtype[Any]:
    """The dtype of the arrays declared ``real``; float32 when there is none."""
    pairs = zip(declared, args, strict=True)
    found = {np.dtype(a.dtype) for p, a in pairs if p.pointer and p.type == "REAL" and a is not None and on_device(a)}
    if len(found) > 1:
        raise BackendError(f"kernel {name}: arrays of one floating type are needed, got {_names(found)}")
    real = found.pop() if found else np.dtype(np.float32)
    if real not in _REALS:
        raise BackendError(f"kernel {name}: float32 or float64 arrays are needed, got {real}")
    return real


def _names(dtypes: set[np.dtype[Any]]) -> str:
    """The dtypes, for a message."""
    return " and ".join(sorted(str(dtype) for dtype in dtypes))


def _argument(kernel: str, parameter: Parameter, value: Any, real: np.dtype[Any]) -> Any:
    """Check one argument against its declaration; numbers are converted to the declared type."""
    dtype = real if parameter.type == "REAL" else np.dtype(_TYPES[parameter.type])
    where = f"kernel {kernel}: {parameter.name}"
    if parameter.pointer:
        return np.uint64(0) if value is None else _checked_array(where, value, dtype)
    if on_device(value) or np.ndim(value) != 0:
        raise BackendError(f"{where}: a number is needed, got an array")
    if dtype.kind in "iu":
        if int(value) != value or not np.iinfo(dtype).min <= int(value) <= np.iinfo(dtype).max:
            raise BackendError(f"{where}: a whole number within {dtype} is needed")
        value = int(value)
    return dtype.type(value)


def _checked_array(where: str, value: Any, dtype: np.dtype[Any]) -> Array:
    """`value`, checked to be a contiguous device array of `dtype`."""
    if not on_device(value):
        raise BackendError(f"{where}: a device array is needed, got {type(value).__name__}")
    if value.dtype != dtype:
        raise BackendError(f"{where}: an array of {dtype} is needed, got {value.dtype}")
    if not value.flags.c_contiguous:
        raise BackendError(f"{where}: a C-contiguous array is needed")
    return value


@functools.cache
def _kernel(cupy: ModuleType, device: int, file: str, name: str, options: tuple[str, ...]) -> Any:
    """The compiled kernel.  A `RawModule` is lazy: `get_function` compiles it and raises the compiler's errors."""
    try:
        return _module(cupy, device, file, options).get_function(name)
    except Exception as error:
        raise BackendError(
            f"kernel {name} of {file}.cu: cannot be compiled for this device ({type(error).__name__})",
            hint="run 'gpuanon doctor', which prints the compiler's message",
        ) from error


@functools.cache
def _module(cupy: ModuleType, device: int, file: str, options: tuple[str, ...]) -> Any:
    """One module per device and set of options."""
    return cupy.RawModule(code=source(file), options=options)


def limits() -> Limits:
    """The limits of the current device."""
    cupy = importlib.import_module("cupy")
    return _limits(cupy, cupy.cuda.Device().id)


@functools.cache
def _limits(cupy: ModuleType, device: int) -> Limits:
    """The limits of one device, queried once."""
    attributes = cupy.cuda.Device(device).attributes
    shared = max(attributes.get("MaxSharedMemoryPerBlockOptin", 0), attributes["MaxSharedMemoryPerBlock"])
    return Limits(shared, attributes["MaxThreadsPerBlock"], attributes["MultiProcessorCount"])


def _check_limits(name: str, kernel: Any, grid: tuple[int, ...], block: tuple[int, ...], shared: int) -> None:
    """Raise, with the reason, if the device cannot run this launch; request large shared memory where needed."""
    threads = int(np.prod(block))
    device = limits()
    allowed = min(device.threads, kernel.max_threads_per_block)
    if threads > allowed:
        raise BackendError(f"kernel {name}: {threads} threads per block are needed, the device allows {allowed}")
    if any(size > limit for size, limit in zip(grid, _GRID_LIMITS, strict=False)):
        raise BackendError(f"kernel {name}: a grid of {grid} blocks is larger than CUDA allows")
    needed = shared + kernel.shared_size_bytes
    if needed > device.shared:
        raise BackendError(
            f"kernel {name}: {needed} bytes of shared memory per block are needed, the device has {device.shared}"
        )
    if needed > _PLAIN_SHARED:
        kernel.max_dynamic_shared_size_bytes = shared
