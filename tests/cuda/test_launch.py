"""The launcher: sources, argument checks, device limits, and work cut into pieces."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import kernels
from gpuanon.arrays.kernels import launch, pieces, pieces_of_parts
from gpuanon.errors import BackendError
from gpuanon.numerics.distance.distance import distances, row_sums
from tests.cuda.support.fake_cupy import fake_cupy

ADD = r"""
#include "shape.cuh"
// extern "C" __global__ void not_a_kernel(int n)
extern "C" __global__ void __launch_bounds__(THREADS)
add(const real* __restrict__ x, long long n, int d, real step, unsigned int mask, real* out)
{
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i < n) out[i] = x[i] + step * d + real(mask == 4294967295u);
}
extern "C" __global__ void big(real* out)
{
    __shared__ real room[3000];
    room[threadIdx.x] = 1;
    out[threadIdx.x] = room[threadIdx.x];
}
extern "C" __global__ void missing(const real* x, double* out) { if (threadIdx.x == 0) out[0] = x ? 1 : 2; }
"""
SHAPE = """
#ifndef REAL
#define REAL float
#endif
typedef REAL real;
#ifndef THREADS
#define THREADS 64
#endif
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A temporary folder of kernels."""
    (tmp_path / "add.cu").write_text(ADD)
    (tmp_path / "shape.cuh").write_text(SHAPE)
    (tmp_path / "broken.cu").write_text('extern "C" __global__ void broken(float* x) { x[0] = nonsense; }')
    monkeypatch.setattr(kernels, "_PACKAGED", tmp_path)
    cached = (kernels.source, kernels.parameters, kernels._kernel, kernels._module)
    for function in cached:
        function.cache_clear()
    yield tmp_path
    for function in cached:
        function.cache_clear()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numbers_reach_the_kernel_as_the_types_it_declares(cp: Any, dtype: Any) -> None:
    x, out = cp.asarray(np.arange(100, dtype=dtype)), cp.empty(100, dtype=dtype)
    launch("add", "add", x, 100, np.int64(3), 0.5, 2**32 - 1, out, over=100, threads=64)
    assert out.get().tolist() == (np.arange(100) + 2.5).tolist()
    launch("add", "add", x, 100, 3, 1, 0, out, over=100, threads=32, define={"THREADS": 32})
    assert out.get().tolist() == (np.arange(100) + 3.0).tolist()


@pytest.mark.usefixtures("folder")
def test_a_null_pointer_is_allowed_and_no_work_launches_nothing(cp: Any) -> None:
    out = cp.empty(1, dtype=np.float64)
    launch("add", "missing", None, out, over=1, threads=32)
    assert out.get().tolist() == [2]
    before = len(cp.launches)
    launch("add", "missing", None, out, over=0, threads=32)
    launch("add", "missing", None, out, over=(4, 0), each=(1, 1), threads=32)
    assert len(cp.launches) == before


@pytest.mark.usefixtures("folder")
def test_arguments_that_cuda_would_misread_are_refused(cp: Any) -> None:
    x, out = cp.asarray(np.arange(8, dtype=np.float32)), cp.empty(8, dtype=np.float32)
    good: list[Any] = [x, 8, 1, 0.5, 0, out]

    def refused(place: int, value: Any, message: str) -> None:
        args = [*good[:place], value, *good[place + 1 :]]
        with pytest.raises(BackendError, match=message):
            launch("add", "add", *args, over=8, threads=64)

    refused(0, x.astype(np.float64), "arrays of one floating type are needed, got float32 and float64")
    refused(0, x.astype(np.int32), "arrays of one floating type|float32 or float64")
    refused(0, np.arange(8, dtype=np.float32), "x: a device array is needed, got ndarray")
    refused(0, cp.asarray(np.zeros((8, 2), dtype=np.float32))[:, 0], "x: a C-contiguous array is needed")
    refused(1, 2**63, "n: a whole number within int64")
    refused(1, 1.5, "n: a whole number within int64")
    refused(2, 2**31, "d: a whole number within int32")
    refused(4, -1, "mask: a whole number within uint32")
    refused(3, np.ones(3), "step: a number is needed")
    refused(1, x, "n: a number is needed")
    with pytest.raises(BackendError, match="6 arguments are needed, got 5"):
        launch("add", "add", *good[:5], over=8, threads=64)
    with pytest.raises(BackendError, match=r"kernel nobody: not found in add\.cu"):
        launch("add", "nobody", over=1)
    with pytest.raises(BackendError, match=re.escape("kernel file nothing.cu: not found")):
        launch("nothing", "nobody", over=1)
    launch("add", "add", *good, over=8, threads=64)


@pytest.mark.usefixtures("folder")
def test_launches_beyond_device_limits_are_refused_with_a_reason() -> None:
    with fake_cupy(shared_per_block_optin=49_152) as cp:
        x, out = cp.asarray(np.arange(8, dtype=np.float32)), cp.empty(8, dtype=np.float32)
        with pytest.raises(BackendError, match="128 threads per block are needed, the device allows 64"):
            launch("add", "add", x, 8, 1, 0.5, 0, out, over=8, threads=128)
        with pytest.raises(BackendError, match="larger than CUDA allows"):
            launch("add", "add", x, 8, 1, 0.5, 0, out, over=(1, 70_000), each=(1, 1), threads=64)
        with pytest.raises(BackendError, match=r"52000 bytes of shared memory per block are needed, .* has 49152"):
            launch("add", "big", out, over=1, threads=32, shared=40_000)


@pytest.mark.usefixtures("folder")
def test_a_kernel_that_does_not_compile_raises(cp: Any) -> None:
    with pytest.raises(BackendError, match=r"kernel broken of broken\.cu: cannot be compiled"):
        launch("broken", "broken", cp.empty(1, dtype=np.float32), over=1, threads=32)


@pytest.mark.usefixtures("folder")
def test_a_module_is_compiled_once_for_a_set_of_options(cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    raw = cp.RawModule

    def counted(**arguments: Any) -> Any:
        compiled.append(arguments["options"])
        return raw(**arguments)

    monkeypatch.setattr(cp, "RawModule", counted)
    for dtype in (np.float32, np.float32, np.float64):
        out = cp.empty(8, dtype=dtype)
        launch("add", "add", out, 8, 1, 0.5, 0, out, over=8, threads=64)
        launch("add", "add", out, 8, 1, 0.5, 0, out, over=8, threads=32, define={"THREADS": 32})
    assert len(compiled) == len(set(compiled)) == 4
    assert {option for options in compiled for option in options if "REAL" in option} == {
        "-DREAL=float",
        "-DREAL=double",
    }


@pytest.mark.usefixtures("folder")
def test_includes_are_expanded_and_line_numbers_kept() -> None:
    text = kernels.source("add")
    assert "typedef REAL real" in text
    lines = text.splitlines()
    assert lines[lines.index('// extern "C" __global__ void not_a_kernel(int n)') - 1] == '#line 3 "add.cu"'
    assert kernels.files() == ("add", "broken")
    assert kernels.names("add") == ("add", "big", "missing")


def test_every_kernel_of_the_project_declares_what_the_launcher_knows() -> None:
    for file in kernels.files():
        assert kernels.names(file)
        assert kernels.variants(file)
        for name in kernels.names(file):
            assert kernels.parameters(file, name)
    assert kernels.variants("distance") == ({"FORMULA": 0}, {"FORMULA": 1}, {"FORMULA": 2})
    assert kernels.variants("segment") == ({},)


@pytest.mark.parametrize(("count", "each", "budget", "expected"), [
    (10, 3, 10, [(0, 3), (3, 6), (6, 9), (9, 10)]), (10, 3, 100, [(0, 10)]), (0, 3, 1, []), (2, 5, 5, [(0, 1), (1, 2)]),
])  # fmt: skip
def test_work_is_cut_into_pieces_that_fit(count: int, each: int, budget: int, expected: list[tuple[int, int]]) -> None:
    assert [(piece.start, piece.stop) for piece in pieces(count, each, budget=budget)] == expected


def test_parts_are_cut_into_ranges_that_fit() -> None:
    starts = np.array([0, 4, 5, 9, 10, 18])
    cut = pieces_of_parts(starts, 2, bytes_per_part=1, budget=17)
    assert [(piece.start, piece.stop) for piece in cut] == [(0, 2), (2, 4), (4, 5)]
    for piece in cut:
        assert (2 * np.diff(starts) + 1)[piece].sum() <= 17
    assert pieces_of_parts(starts[:1], 2, budget=1) == []
    with pytest.raises(BackendError, match=r"one piece \(the largest part\) needs 17 bytes, 16 may be used"):
        pieces_of_parts(starts, 2, bytes_per_part=1, budget=16)


def test_what_does_not_fit_the_device_is_cut_or_refused() -> None:
    X = np.random.default_rng(0).normal(size=(400, 2))
    with fake_cupy(free_memory=40_000) as cp:
        x = cp.asarray(X)
        with pytest.raises(BackendError, match=r"device memory: one piece \(all distances\) needs 1280000 bytes"):
            distances(x, x)
    with fake_cupy(free_memory=14_000) as cp:
        x = cp.asarray(X)
        np.testing.assert_allclose(row_sums(x, x).get(), row_sums(X, X), rtol=1e-13)
