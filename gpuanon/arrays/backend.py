"""NumPy or CuPy, chosen by the type of the array.

Functions on arrays never choose a device: they take `namespace(X)` and work on the device of `X`.  The entry points
(command line, `protect`) choose a backend once with `choose`, upload once and download once.  CuPy is imported only
when it is requested.
"""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from gpuanon.errors import BackendError, ParameterError

Array: TypeAlias = Any
"""A NumPy or a CuPy array."""

Host: TypeAlias = np.ndarray[Any, Any]
"""A NumPy array."""

UPLOAD_BYTES = 1 << 28
"""Of a table that are copied to a device at once."""

BackendName = Literal["auto", "numpy", "cupy"]


def on_device(array: Array) -> bool:
    """Whether `array` is on a GPU (is a CuPy array)."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def namespace(array: Array) -> ModuleType:
    """The module, `numpy` or `cupy`, whose functions take `array`."""
    return sys.modules["cupy"] if on_device(array) else np


def to_host(array: Array) -> Host:
    """Return a NumPy array: a copy if `array` is on a GPU, else `array` itself."""
    return np.asarray(sys.modules["cupy"].asnumpy(array) if on_device(array) else array)


def like(values: Any, reference: Array) -> Array:
    """Host `values` as an array on the device of `reference`."""
    return namespace(reference).asarray(values)


@dataclass(frozen=True)
class Backend:
    """The device of the arrays of a run, and the reason for the choice."""

    name: Literal["numpy", "cupy"]
    reason: str
    real: type[np.floating[Any]] = np.float64

    @property
    def xp(self) -> ModuleType:
        return np if self.name == "numpy" else importlib.import_module("cupy")

    def upload(self, array: Host) -> Array:
        """Copy a host array to the device of this backend (no copy for NumPy).

        A large array is copied in slices: CuPy copies through pinned memory, of which it keeps the next power of two.
        """
        if self.name == "numpy" or array.nbytes <= UPLOAD_BYTES:
            return self.xp.asarray(array)
        array = np.ascontiguousarray(array)
        out = self.xp.empty(array.shape, dtype=array.dtype)
        rows = max(1, UPLOAD_BYTES * len(array) // array.nbytes)
        for at in range(0, len(array), rows):
            out[at : at + rows].set(array[at : at + rows])
        return out


HOST = Backend("numpy", "asked for")
"""NumPy, where nobody chooses."""


def choose(name: BackendName = "auto") -> Backend:
    """Choose the backend of a run.

    ``"cupy"`` uses a GPU or raises; it never falls back.  ``"auto"`` uses a GPU if a test computation succeeds there,
    else NumPy, and gives the reason in `Backend.reason`.
    """
    if name == "numpy":
        return HOST
    if name not in ("auto", "cupy"):
        raise ParameterError(f"backend: {name!r} is not one of auto, numpy, cupy")
    problem = _device_problem()
    if problem is None:
        return Backend("cupy", "asked for" if name == "cupy" else "a CUDA device answered")
    if name == "cupy":
        raise BackendError(
            f"backend: cupy was asked for, but {problem}", hint="use --backend numpy, or see 'gpuanon doctor'"
        )
    return Backend("numpy", problem)


def _device_problem() -> str | None:
    """Why no GPU can be used, or None.  CuPy imports without a GPU, so a small computation is run."""
    if "cupy" not in sys.modules and importlib.util.find_spec("cupy") is not None and not _has_driver():
        return "no CUDA device was found"  # and a fifth of a second for CuPy's import is saved
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return "CuPy is not installed"
    try:
        if not cupy.cuda.is_available():
            return "no CUDA device was found"
        if int(cupy.arange(4).sum()) != 6:
            return "the CUDA device computes wrongly"
    except Exception as error:  # drivers fail in many ways; after any of them the device is not usable
        return f"the CUDA device does not answer ({type(error).__name__})"
    return None


def _has_driver() -> bool:
    """Whether NVIDIA's driver library can be loaded; on other systems than Linux CuPy has to find out."""
    if not sys.platform.startswith("linux"):
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True
