"""The installed CuPy, whose names and signatures the stand-in must have, and whose compiler is used.

Imported before any stand-in takes its place in `sys.modules`, and remembered here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import cupy
import cupy.cuda.compiler
import cupyx.scipy.special
from cupy._core import core
from cupy.cuda import nvrtc

__all__ = ["MODULES", "belongs_to_cupy", "core", "cupy", "cupyx", "in_place", "nvrtc"]

OWN = ("cupy", "cupyx", "cupy_backends")


def belongs_to_cupy(name: str) -> bool:
    """Whether a module of this name is CuPy's, or stands in for one of CuPy's."""
    return name.split(".")[0] in OWN


MODULES: dict[str, ModuleType] = {name: module for name, module in sys.modules.items() if belongs_to_cupy(name)}

if not getattr(cupy, "__file__", None):
    raise ImportError("the stand-in was installed before the real CuPy was looked at")


@contextmanager
def in_place(modules: dict[str, ModuleType] | None = None) -> Iterator[None]:
    """Install these modules (by default the real ones) for ``import cupy``, and restore the previous ones."""
    before = {name: module for name, module in sys.modules.items() if belongs_to_cupy(name)}
    _replace(MODULES if modules is None else modules)
    try:
        yield
    finally:
        if modules is None:  # the real CuPy imports parts of itself when they are first needed
            MODULES.update({name: module for name, module in sys.modules.items() if belongs_to_cupy(name)})
        _replace(before)


def _replace(modules: dict[str, ModuleType]) -> None:
    for name in [name for name in sys.modules if belongs_to_cupy(name)]:
        del sys.modules[name]
    sys.modules.update(modules)
