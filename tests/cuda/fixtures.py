"""Fixtures for code that runs on either device: import what you need into a conftest."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np
import pytest


@cache
def device_problem() -> str | None:
    """Why the real CuPy cannot be used here, or None."""
    from gpuanon.arrays.backend import choose

    backend = choose("auto")
    return None if backend.name == "cupy" else backend.reason


@pytest.fixture(params=["stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def cp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The stand-in for CuPy, with race detection, and the real CuPy where there is a device.

    A test that asks for what only the stand-in has (counted copies and launches) is skipped on a device.
    """
    from tests.cuda.support.fake_cupy import fake_cupy

    if request.param == "stand-in":
        with fake_cupy(races=True) as module:
            yield module
        return
    yield RealCupy(real_device())


@pytest.fixture(params=["stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The stand-in for CuPy without race detection, for many or large problems, and the real CuPy."""
    from tests.cuda.support.fake_cupy import fake_cupy

    if request.param == "stand-in":
        with fake_cupy() as module:
            yield module
        return
    yield real_device()


def real_device() -> Any:
    """The real CuPy; the test is skipped where it has no device."""
    problem = device_problem()
    if problem is not None:
        pytest.skip(f"needs a CUDA device: {problem}")
    import cupy

    return cupy


class RealCupy:
    """The real CuPy, under the name that tests use for either; what only the stand-in counts skips the test."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        if name in ("transfers", "calls", "launches", "hardware", "memory"):
            pytest.skip(f"cp.{name} is the stand-in's")
        return getattr(self._module, name)


@pytest.fixture
def cuml(cp: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The stand-in for cuML, importable beside the stand-in for CuPy; returns its clustering module."""
    from gpuanon.arrays import rapids
    from tests.cuda.support import fake_cuml

    if isinstance(cp, RealCupy):
        yield pytest.importorskip("cuml.cluster", reason="needs cuML beside the device")
        return

    modules = fake_cuml.modules()
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    rapids._problem.cache_clear()
    yield modules["cuml.cluster"]
    rapids._problem.cache_clear()


@pytest.fixture(params=["numpy", "stand-in", pytest.param("cupy", marks=pytest.mark.gpu)])
def xp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """NumPy, the stand-in for CuPy, and the real CuPy where there is a device."""
    if request.param == "numpy":
        yield np
    elif request.param == "stand-in":
        from tests.cuda.support.fake_cupy import fake_cupy

        with fake_cupy() as module:
            yield module
    else:
        yield real_device()


def host(array: Any) -> np.ndarray[Any, Any]:
    """A result as a NumPy array."""
    cupy = sys.modules.get("cupy")
    if cupy is not None and isinstance(array, cupy.ndarray):
        return array.get()
    return np.asarray(array)
