"""Shared memory at its borders: 48 KB less the kernel's static share, and the device's maximum.

A launch has to ask for more than 48 KB, counted with the kernel's own static arrays.  Part sizes and columns are swept
across both borders for every kernel with dynamic shared memory.  The stand-in checks each launch; it computes nothing
in the sweeps.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import kernels
from gpuanon.arrays.kernels import launch
from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.annealing import Schedule, anneal
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.operations.dither import rosenblatt
from gpuanon.numerics.distance import distance
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.fake_device import DEFAULT_SHARED
from tests.cuda.support.faults import BadLaunch

OPTIN = 64 * 1024
"""Of a small device, such as a T4."""

BOTH = """
#ifndef DYN_SHARED
#define DYN_SHARED(type, name) extern __shared__ __align__(16) unsigned char memory_[]; type* name = (type*)memory_
#endif
extern "C" __global__ void both(float* out, int n) {
    __shared__ float fixed[192];
    DYN_SHARED(float, dynamic);
    fixed[threadIdx.x] = 1;
    if (threadIdx.x == 0) dynamic[n - 1] = 2;
    __syncthreads();
    if (threadIdx.x == 31) out[0] = fixed[threadIdx.x ^ 1] + dynamic[n - 1];
}
"""


def parts_of(cp: Any, size: int) -> Partition:
    return Partition(cp.arange(size), cp.asarray([0, size]))


def run_mdav(cp: Any, size: int, d: int) -> None:
    mdav(cp.asarray(np.zeros((size, d))), parts_of(cp, size), 4)


def run_kmember(cp: Any, size: int, d: int) -> None:
    kmember(cp.asarray(np.zeros((size, d))), parts_of(cp, size), 4)


def run_neighbours(cp: Any, size: int, d: int) -> None:
    neighbours(cp.asarray(np.zeros((size, d), dtype=np.int32)), parts_of(cp, size), 4)


def run_anneal(cp: Any, size: int, d: int) -> None:
    rows, members = cp.asarray(np.zeros((4 * size, d), dtype=np.int32)), cp.arange(4 * size).reshape(size, 4)
    near, schedule = cp.zeros((4, size), dtype=np.int64), Schedule(turn=0, steps=1, first=0, every=1, heat=0.0)
    anneal(rows, None, members, cp.asarray(np.full(size, 4)), near, parts_of(cp, size), 3, schedule)


def run_rosenblatt(cp: Any, d: int, _: int) -> None:
    starts = cp.asarray([0, 3])
    x, W = cp.asarray(np.zeros((3, d))), cp.asarray(np.tile(np.eye(d), (3, 1, 1)))
    rosenblatt.conditional_cdfs(x, starts, x, W, cp.asarray(np.zeros(3)), starts)


def run_k_nearest(cp: Any, k: int, d: int) -> None:
    distance.k_nearest(cp.asarray(np.zeros((5, d))), cp.asarray(np.zeros((40, d))), k)


Run = Callable[[Any, int, int], None]
SWEEPS: dict[str, tuple[Run, str, Iterable[int], tuple[int, ...]]] = {
    "mdav": (run_mdav, "mdav", range(4, 4200, 17), (4, 5, 10)),
    "kmember": (run_kmember, "kmember", range(4, 4200, 17), (4, 5, 10)),
    "neighbours": (run_neighbours, "neighbours", range(8, 4600, 23), (5, 10)),
    "anneal": (run_anneal, "anneal", range(8, 520, 9), (5, 103, 142, 388)),
    "rosenblatt": (run_rosenblatt, "rosenblatt", range(1, 70), (0,)),
    "k_nearest": (run_k_nearest, "k_nearest", range(1, 33), (3,)),
}


def swept(name: str, optin: int) -> list[tuple[int, int]]:
    """Dynamic and static bytes of the launches of one sweep."""
    run, kernel, sizes, columns = SWEEPS[name]
    with fake_cupy(execute=False, shared_per_block_optin=optin) as cp:
        for d in columns:
            for size in sizes:
                run(cp, size, d)
        return [(dynamic, static) for kernel_, dynamic, static in cp.hardware.shared_memory if kernel_ == kernel]


@pytest.mark.parametrize("optin", [DEFAULT_SHARED, OPTIN, 163 * 1024])
@pytest.mark.parametrize("name", SWEEPS)
def test_every_size_across_the_borders_can_be_launched(name: str, optin: int) -> None:
    used = swept(name, optin)
    totals = np.array([dynamic + static for dynamic, static in used])
    assert totals.max() <= optin
    if name != "k_nearest":  # its lists are bounded: 32 neighbours stay below 48 KB
        assert totals.min() < DEFAULT_SHARED - 1024
        assert ((totals > DEFAULT_SHARED - 1024) & (totals < DEFAULT_SHARED + 1024)).any()
        assert totals.max() > optin - 8192


@pytest.fixture
def both(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel with 768 bytes of static and any number of dynamic shared memory."""
    (tmp_path / "both.cu").write_text(BOTH)
    monkeypatch.setattr(kernels, "_PACKAGED", tmp_path)
    cached = (kernels.source, kernels.parameters, kernels._kernel, kernels._module)
    for function in cached:
        function.cache_clear()
    yield
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("both")
@pytest.mark.parametrize("border", [DEFAULT_SHARED - 768, DEFAULT_SHARED, OPTIN - 768])
@pytest.mark.parametrize("beyond", [-4, 0, 4])
def test_static_shared_memory_counts(border: int, beyond: int) -> None:
    size = border + beyond
    with fake_cupy(shared_per_block_optin=OPTIN) as cp:
        out = cp.empty(1, dtype=np.float32)
        if size > OPTIN - 768:
            with pytest.raises(kernels.BackendError, match=f"{size + 768} bytes of shared memory"):
                launch("both", "both", out, size // 4, over=1, threads=32, shared=size)
            return
        launch("both", "both", out, size // 4, over=1, threads=32, shared=size)
        assert out.get().tolist() == [3]


@pytest.mark.usefixtures("both")
def test_the_stand_in_refuses_what_cuda_refuses() -> None:
    with fake_cupy(shared_per_block_optin=OPTIN) as cp:
        kernel = cp.RawModule(code=kernels.source("both"), options=("-std=c++17",)).get_function("both")
        out = cp.empty(1, dtype=np.float32)
        assert kernel.attributes["shared_size_bytes"] == 768
        assert kernel.attributes["max_dynamic_shared_size_bytes"] == DEFAULT_SHARED - 768
        kernel((1,), (32,), (out, np.int32(100)), shared_mem=DEFAULT_SHARED - 768)
        with pytest.raises(BadLaunch, match=re.escape("besides 768 static ones without asking")):
            kernel((1,), (32,), (out, np.int32(100)), shared_mem=DEFAULT_SHARED - 767)
        with pytest.raises(BadLaunch, match="INVALID_VALUE"):
            kernel.max_dynamic_shared_size_bytes = OPTIN - 767


@pytest.mark.parametrize("d", [11, 12, 13, 16, 17])
def test_conditional_distributions_are_right_on_either_side(d: int) -> None:
    rng = np.random.default_rng(d)
    starts, x, means = np.array([0, 5]), rng.normal(size=(5, d)), rng.normal(size=(5, d))
    factors = rng.normal(size=(5, d, 2 * d))
    _, W = rosenblatt.whiten(factors @ factors.transpose(0, 2, 1) / (2 * d), 0.3)
    given = (x, starts, means, W, np.zeros(5), starts)
    with fake_cupy(shared_per_block_optin=OPTIN) as cp:
        found = rosenblatt.conditional_cdfs(*map(cp.asarray, given)).get()
    np.testing.assert_allclose(found, rosenblatt.conditional_cdfs(*given), rtol=1e-11)
