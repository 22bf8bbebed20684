"""Layer 4: a stand-in for CuPy, so that the whole GPU path runs without a GPU.

>>> with fake_cupy() as cp:
...     labels = kmember(cp.asarray(X), ...)      # the project's own code, its kernels interpreted
...     assert len(cp.transfers.uploads) == 1

Inside the ``with``, ``import cupy`` gives the stand-in.  It has the names and takes the arguments of the installed
CuPy and no others; it refuses NumPy arrays among device arrays and conversions that nobody asked for; it counts
every copy between host and device (`cp.transfers`); `RawModule` goes NVRTC → PTX → interpreter (`cp.launches`).
What it cannot prove: the numerics of cuBLAS, cuSOLVER and CUB, which NumPy and SciPy stand in for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import scipy.special

from tests.cuda.support import fake_device, fake_memory, real_cupy
from tests.cuda.support.fake_array import transfers
from tests.cuda.support.fake_calls import calls
from tests.cuda.support.fake_namespace import CREATION, Namespace
from tests.cuda.support.machine import Watch


@cache
def _modules() -> dict[str, ModuleType]:
    """The stand-in's modules by name, made once: kernels are cached by the module that compiled them."""
    cuda = fake_device.cuda_module()
    linalg = Namespace("cupy.linalg", real_cupy.cupy.linalg, np.linalg, {})
    own: dict[str, Any] = {
        **CREATION,
        "cuda": cuda,
        "linalg": linalg,
        "RawModule": fake_device.RawModule,
        "get_default_memory_pool": lambda: fake_memory.pool,
        "get_default_pinned_memory_pool": lambda: fake_memory.pinned_pool,
        "memory": fake_memory.memory,
        "transfers": transfers,
        "calls": calls,
        "launches": fake_device.hardware.launches,
        "hardware": fake_device.hardware,
        "__version__": real_cupy.cupy.__version__,
        "newaxis": None,
    }
    cupy = Namespace("cupy", real_cupy.cupy, np, own)
    special = Namespace("cupyx.scipy.special", real_cupy.cupyx.scipy.special, scipy.special, {})
    scipy_part = ModuleType("cupyx.scipy")
    scipy_part.__dict__.update(special=special, __path__=[])
    cupyx = ModuleType("cupyx")
    cupyx.__dict__.update(scipy=scipy_part, __path__=[])
    cupy.__dict__["__path__"] = []
    return {
        "cupy": cupy,
        "cupy.cuda": cuda,
        "cupy.linalg": linalg,
        "cupyx": cupyx,
        "cupyx.scipy": scipy_part,
        "cupyx.scipy.special": special,
    }


def module() -> Any:
    """The stand-in for the module ``cupy``."""
    return _modules()["cupy"]


@contextmanager
def fake_cupy(*, races: bool = False, traffic: bool = False, limit: int = 20_000_000, **hardware: Any) -> Iterator[Any]:
    """Install the stand-in as ``cupy`` and ``cupyx``.

    races, traffic, limit : what the interpreter looks at (see `machine.Watch`); races cost about twice the time
    hardware : fields of `fake_device.Hardware`, such as ``free_memory`` or ``shared_per_block_optin``;
               ``schedule=0`` runs kernels as host programs under g++'s sanitizers instead (layer 3), ``one_lane=True``
               as plain C++ at native speed (layer 8)
    """
    from gpuanon.arrays import kernels

    fresh = fake_device.Hardware(watch=Watch(races, traffic, limit), **hardware)
    fake_device.hardware.launches.clear()
    kernels._kernel.cache_clear()  # a kernel keeps the shared memory that was asked for
    fake_device.hardware.shared_memory.clear()
    for field in dataclasses.fields(fresh):
        if field.name not in ("launches", "shared_memory"):  # lists that tests hold stay the same
            setattr(fake_device.hardware, field.name, getattr(fresh, field.name))
    fake_memory.memory.reset(fresh.free_memory, fresh.pool_limit)
    transfers.clear()
    calls.clear()
    kernels._limits.cache_clear()
    with real_cupy.in_place(_modules()):
        try:
            yield module()
        finally:
            kernels._limits.cache_clear()
