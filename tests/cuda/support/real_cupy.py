"""The installed CuPy, whose names and signatures the stand-in is held to, and whose compiler is used.

Imported before any stand-in takes its place in `sys.modules`, and remembered here.
"""

from __future__ import annotations

import sys
from types import ModuleType

import cupy
import cupy.cuda.compiler
import cupyx.scipy.special
from cupy._core import core
from cupy.cuda import nvrtc

__all__ = ["MODULES", "core", "cupy", "cupyx", "nvrtc"]

OWN = ("cupy", "cupyx", "cupy_backends")


def belongs_to_cupy(name: str) -> bool:
    """Whether a module of this name is CuPy's, or stands in for one of CuPy's."""
    return name.split(".")[0] in OWN


MODULES: dict[str, ModuleType] = {name: module for name, module in sys.modules.items() if belongs_to_cupy(name)}

if not getattr(cupy, "__file__", None):
    raise ImportError("the stand-in was installed before the real CuPy was looked at")
