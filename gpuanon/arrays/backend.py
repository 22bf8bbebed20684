"""NumPy or CuPy, decided by the array.

Functions below the edges never choose a device: they take `namespace(X)` and stay where `X` lives.
The edges (command line, `protect`) choose once with `choose`, upload once and download once.
CuPy is imported only when it is asked for.
"""

from __future__ import annotations

import importlib
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Literal, TypeAlias

import numpy as np

from gpuanon.errors import BackendError, ParameterError

Array: TypeAlias = Any
"""A NumPy or a CuPy array."""

BackendName = Literal["auto", "numpy", "cupy"]


def on_device(array: Array) -> bool:
    """Whether `array` lives on a GPU (is a CuPy array)."""
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(array, cupy.ndarray)


def namespace(array: Array) -> ModuleType:
    """The module, `numpy` or `cupy`, whose functions take `array`."""
    return sys.modules["cupy"] if on_device(array) else np


def to_host(array: Array) -> np.ndarray[Any, Any]:
    """Return a NumPy array: a copy when `array` lives on a GPU, `array` itself otherwise."""
    return np.asarray(sys.modules["cupy"].asnumpy(array) if on_device(array) else array)


def like(values: Any, reference: Array) -> Array:
    """Put host `values` where `reference` lives."""
    return namespace(reference).asarray(values)


@dataclass(frozen=True)
class Backend:
    """Where the arrays of one run live, and why."""

    name: Literal["numpy", "cupy"]
    reason: str
    real: type[np.floating[Any]] = np.float64

    @property
    def xp(self) -> ModuleType:
        return np if self.name == "numpy" else importlib.import_module("cupy")

    def upload(self, array: np.ndarray[Any, Any]) -> Array:
        """Put a host array on this backend's device (no copy for NumPy)."""
        return self.xp.asarray(array)


def choose(name: BackendName = "auto") -> Backend:
    """Choose the backend once, at the edge.

    ``"cupy"`` runs on a GPU or raises: it never falls back.  ``"auto"`` takes a GPU when one answers a
    real launch, NumPy otherwise, and says why in `Backend.reason`.
    """
    if name == "numpy":
        return Backend("numpy", "asked for")
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
    """Why no GPU can be used, or None.  Importing CuPy proves nothing: a real launch does."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError:
        return "CuPy is not installed"
    try:
        if not cupy.cuda.is_available():
            return "no CUDA device was found"
        if int(cupy.arange(4).sum()) != 6:
            return "the CUDA device computes wrongly"
    except Exception as error:  # drivers fail in many ways, and any of them means: not usable
        return f"the CUDA device does not answer ({type(error).__name__})"
    return None
