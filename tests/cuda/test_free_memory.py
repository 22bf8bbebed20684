"""Free memory under a pool with a limit and under RMM, and uploads through little pinned memory."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import backend, rapids
from gpuanon.arrays.backend import choose
from gpuanon.arrays.device_memory import free_bytes
from tests.cuda.support import fake_cuml
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.real_cupy import cupy as real

MEGABYTE = 1 << 20


def test_the_stand_in_is_full_when_its_memory_is_used_and_its_pool_keeps_blocks() -> None:
    with fake_cupy(free_memory=4 * MEGABYTE) as cp:
        x = cp.zeros(3 * MEGABYTE, dtype=np.uint8)
        with pytest.raises(real.cuda.memory.OutOfMemoryError):
            x + 1
        del x
        assert cp.cuda.Device().mem_info[0] == MEGABYTE  # the pool keeps what was freed
        assert cp.get_default_memory_pool().free_bytes() == 3 * MEGABYTE
        cp.zeros(4 * MEGABYTE, dtype=np.uint8)
        assert cp.memory.peak == 4 * MEGABYTE


def test_free_memory_is_within_the_limit_of_the_pool() -> None:
    with fake_cupy(free_memory=64 * MEGABYTE) as cp:
        x = cp.zeros(MEGABYTE, dtype=np.uint8)
        assert free_bytes() == 63 * MEGABYTE
        cp.get_default_memory_pool().set_limit(size=4 * MEGABYTE)
        assert free_bytes() == 3 * MEGABYTE
        with pytest.raises(real.cuda.memory.OutOfMemoryError):
            cp.zeros(4 * MEGABYTE, dtype=np.uint8)
        del x
        assert free_bytes() == 4 * MEGABYTE


def test_under_rmm_the_pool_of_cupy_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = SimpleNamespace()
    monkeypatch.setitem(
        sys.modules, "rmm", SimpleNamespace(mr=SimpleNamespace(get_current_device_resource=lambda: resource))
    )
    with fake_cupy(free_memory=64 * MEGABYTE, pool_limit=MEGABYTE) as cp:
        cp.cuda.set_allocator(lambda size: None)
        assert free_bytes() == 64 * MEGABYTE
        resource.upstream_mr = SimpleNamespace(pool_size=lambda: 10 * MEGABYTE)
        resource.allocation_counts = SimpleNamespace(current_bytes=3 * MEGABYTE)
        assert free_bytes() == 71 * MEGABYTE


def test_importing_cuml_leaves_the_allocator(monkeypatch: pytest.MonkeyPatch) -> None:
    rapids._problem.cache_clear()
    modules = fake_cuml.modules()
    monkeypatch.setattr(
        rapids.importlib,
        "import_module",
        lambda name, true=rapids.importlib.import_module: _taking_over(name, true, modules),
    )
    with fake_cupy() as cp:
        before = cp.cuda.get_allocator()
        assert rapids.cuml_problem() is None
        assert cp.cuda.get_allocator() == before
    rapids._problem.cache_clear()


def _taking_over(name: str, true: Any, modules: dict[str, ModuleType]) -> Any:
    """Import cuML as 25.12 does: it makes RMM the allocator of CuPy."""
    if not name.startswith("cuml"):
        return true(name)
    sys.modules["cupy"].cuda.set_allocator(lambda size: None)
    return modules[name]


def test_a_large_table_is_uploaded_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "UPLOAD_BYTES", 1 << 16)
    X = np.asfortranarray(np.random.default_rng(0).normal(size=(10_000, 10)))
    with fake_cupy(free_memory=8 * MEGABYTE) as cp:
        found = choose("cupy").upload(X)
        np.testing.assert_array_equal(found.get(), X)
        assert all(copy.bytes <= 1 << 16 for copy in cp.transfers.uploads)
        assert cp.memory.pinned <= 1 << 16
        cp.asarray(X)  # what CuPy does by itself: the next power of two, and it is kept
        assert cp.memory.pinned > X.nbytes
