"""The stand-in for CuPy: as strict as a device, with the API of the installed CuPy, and every copy counted."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
import scipy.special

from gpuanon.arrays import kernels
from gpuanon.arrays.backend import choose, namespace, on_device, to_host
from gpuanon.errors import BackendError
from tests.cuda.support import faults, host_shim
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.real_cupy import cupy as real
from tests.cuda.support.signatures import signature_of

X = np.random.default_rng(1).normal(size=(12, 3))


def test_it_replaces_cupy_and_restores_it() -> None:
    before = sys.modules.get("cupy")
    with fake_cupy() as cp:
        import cupy
        from cupyx.scipy.special import ndtr

        assert cupy is cp
        array = cupy.asarray(X)
        assert on_device(array)
        assert namespace(array) is cp
        np.testing.assert_array_equal(ndtr(array).get(), scipy.special.ndtr(X))
        assert choose("cupy").name == "cupy"
    assert sys.modules.get("cupy") is before


REFUSED = {
    "a NumPy array meets a device array": (lambda cp, a: a + X, TypeError),
    "a device array meets a NumPy array": (lambda cp, a: X + a, TypeError),
    "a NumPy array as an argument": (lambda cp, a: cp.maximum(a, X), TypeError),
    "a NumPy array as an index": (lambda cp, a: a[np.array([1, 2])], TypeError),
    "assigning a NumPy array": (lambda cp, a: a.__setitem__(slice(None), X), TypeError),
    "implicit conversion": (lambda cp, a: np.asarray(a), TypeError),
    "conversion by a NumPy function that CuPy lacks": (lambda cp, a: np.nanquantile(a, 0.5), AttributeError),
    "a function that CuPy lacks": (lambda cp, a: cp.nanquantile(a, 0.5), AttributeError),
    "a method that CuPy lacks": (lambda cp, a: a.setfield(a, np.float64), AttributeError),
    "an argument that CuPy lacks": (lambda cp, a: cp.argsort(a, stable=True), TypeError),
    "a method's argument that CuPy lacks": (lambda cp, a: a.sum(where=True), TypeError),
    "a sort that CuPy lacks": (lambda cp, a: cp.argsort(a, kind="mergesort"), ValueError),
    "keys of lexsort one by one": (lambda cp, a: cp.lexsort((a[:, 0], a[:, 1])), TypeError),
    "a float from several elements": (lambda cp, a: float(a), TypeError),
    "a truth value of several elements": (lambda cp, a: bool(a > 0), ValueError),
    "element after element": (lambda cp, a: list(a.ravel()), TypeError),
    "objects": (lambda cp, a: cp.asarray(np.array(["a"], dtype=object)), ValueError),
    "strings": (lambda cp, a: cp.asarray(np.array(["a"])), ValueError),
    "sums with atomics": (lambda cp, a: cp.bincount(cp.asarray([0, 1]), weights=a[:2, 0]), TypeError),
    "scattered sums with atomics": (lambda cp, a: cp.add.at(a, cp.asarray([0, 0]), a[:2]), TypeError),
    "a reduction that CuPy has not written": (
        lambda cp, a: cp.maximum.reduceat(a, cp.asarray([0, 4])),
        NotImplementedError,
    ),
    "an index out of range": (lambda cp, a: a[cp.asarray([99])], IndexError),
    "a second device": (lambda cp, a: cp.cuda.Device(1), RuntimeError),
}


@pytest.mark.parametrize("what", REFUSED)
def test_operations_that_a_device_refuses_are_refused(what: str) -> None:
    action, error = REFUSED[what]
    with fake_cupy() as cp, pytest.raises(error):
        action(cp, cp.asarray(X))


ALLOWED = {
    "arithmetic": lambda xp, a: 2 * a - a / 3 + a**2 % 7,
    "comparison and masks": lambda xp, a: xp.where(a > 0, a, -a)[a[:, 0] > 0],
    "reductions": lambda xp, a: xp.stack([a.sum(axis=0), a.mean(axis=0), a.max(axis=0), a.std(axis=0)]),
    "sorting": lambda xp, a: xp.take_along_axis(a, xp.argsort(a, axis=0, kind="stable"), axis=0),
    "segment sums": lambda xp, a: xp.add.reduceat(a, xp.asarray([0, 4, 9]), axis=0),
    "linear algebra": lambda xp, a: xp.linalg.eigh(a.T @ a)[0],
    "stacks of matrices": lambda xp, a: xp.linalg.cholesky(xp.einsum("ni,nj->nij", a, a) + xp.eye(3)),
    "in place": lambda xp, a: a.copy().__iadd__(1),
    "by NumPy's own names": lambda xp, a: np.concatenate([np.exp(a), np.square(a)]),
    "numbers of NumPy": lambda xp, a: a * np.float64(2) + np.int64(1),
    "unique": lambda xp, a: xp.unique(xp.rint(a)),
    "searching": lambda xp, a: xp.searchsorted(xp.sort(a[:, 0]), a[:, 1]),
}


@pytest.mark.parametrize("what", ALLOWED)
def test_supported_operations_give_the_values_of_numpy_on_the_device(what: str) -> None:
    with fake_cupy() as cp:
        found = ALLOWED[what](cp, cp.asarray(X))
        assert isinstance(found, cp.ndarray)
        expected = ALLOWED[what](np, X)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found.get(), expected)


def test_reductions_stay_on_the_device_until_they_are_asked_for() -> None:
    with fake_cupy() as cp:
        total = cp.asarray(X).sum()
        assert isinstance(total, cp.ndarray)
        assert total.shape == ()
        assert not cp.transfers.scalars
        assert float(total) == X.sum()
        assert [copy.how for copy in cp.transfers.scalars] == ["float()"]


def test_copies_are_counted_by_direction_and_size() -> None:
    with fake_cupy() as cp:
        array = cp.asarray(X)
        shape = cp.asarray([3, 4])
        to_host(array * 2)
        int(array.argmax())
        assert [(copy.direction, copy.bytes) for copy in cp.transfers.uploads] == [("up", X.nbytes)]
        assert [(copy.direction, copy.bytes) for copy in cp.transfers.downloads] == [("down", X.nbytes)]
        assert [copy.bytes for copy in cp.transfers.scalars] == [shape.nbytes, 8]
    with fake_cupy() as cp:
        assert not cp.transfers.copies  # each starts with an empty list


def test_uninitialised_memory_spoils_results() -> None:
    with fake_cupy() as cp:
        assert np.isnan(cp.empty(3).get()).all()
        assert (cp.empty(3, dtype=np.int64).get() > 2**60).all()


def test_names_and_arguments_are_read_from_the_installed_cupy() -> None:
    signature = signature_of(real.ndarray.argsort)
    assert signature is not None
    assert list(signature.parameters) == ["self", "axis", "kind"]
    signature = signature_of(real.ndarray.reshape)
    assert signature is not None
    assert signature.parameters["shape"].kind.name == "VAR_POSITIONAL"
    assert signature.parameters["order"].kind.name == "KEYWORD_ONLY"


SAXPY = """
extern "C" __global__ void saxpy(const REAL* __restrict__ x, REAL* y, REAL a, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
"""


@pytest.mark.parametrize("schedule", [None, 0])
def test_a_kernel_is_compiled_and_runs(schedule: Any) -> None:
    if schedule is not None and host_shim.MISSING:
        pytest.skip(host_shim.MISSING)
    with fake_cupy(schedule=schedule) as cp:
        x, y = cp.asarray(X.ravel()), cp.ones(36)
        kernel = cp.RawModule(code=SAXPY, options=("-std=c++17", "-DREAL=double")).get_function("saxpy")
        kernel((2,), (32,), (x, y, np.float64(3), np.int32(36)))
        np.testing.assert_allclose(y.get(), 1 + 3 * X.ravel())


def test_arguments_reach_a_kernel_as_cupy_would_pass_them() -> None:
    with fake_cupy() as cp:
        x, y = cp.zeros(8, dtype=np.float32), cp.zeros(8, dtype=np.float32)
        module = cp.RawModule(code=SAXPY, options=("-DREAL=float",))
        kernel = module.get_function("saxpy")
        with pytest.raises(faults.BadLaunch, match="argument 2 has 8 bytes, the kernel reads 4"):
            kernel((1,), (32,), (x, y, 3.0, np.int32(8)))  # a Python float is 8 bytes: CUDA would read half of it
        with pytest.raises(faults.BadLaunch, match="argument 3"):
            kernel((1,), (32,), (x, y, np.float32(3), 8))
        with pytest.raises(TypeError, match="host memory"):
            kernel((1,), (32,), (X, y, np.float32(3), np.int32(8)))
        with pytest.raises(faults.BadLaunch, match="not contiguous"):
            kernel((1,), (32,), (cp.zeros((8, 2), dtype=np.float32)[:, 0], y, np.float32(3), np.int32(8)))
        with pytest.raises(RuntimeError, match="not found"):
            module.get_function("sasxpy")


def test_a_module_is_lazy_as_cupys_is() -> None:
    with fake_cupy() as cp:
        module = cp.RawModule(code="this is no CUDA")
        with pytest.raises(AssertionError, match="error"):
            module.get_function("any")


def test_limits_of_the_pretended_device_reach_the_launcher() -> None:
    with fake_cupy(shared_per_block_optin=64 << 10, multiprocessors=3, free_memory=1 << 20):
        assert kernels.limits() == kernels.Limits(64 << 10, 1024, 3)
        assert kernels.free_bytes() == 1 << 20
        with pytest.raises(BackendError, match="one piece"):
            kernels.pieces(10, 1 << 20)
    with fake_cupy():
        assert kernels.limits().multiprocessors == 108


def test_large_shared_memory_must_be_requested() -> None:
    with fake_cupy() as cp:
        y = cp.zeros(8)
        kernel = cp.RawModule(code=SAXPY, options=("-DREAL=double",)).get_function("saxpy")
        args = (y, y.copy(), np.float64(1), np.int32(8))
        with pytest.raises(faults.BadLaunch, match="without asking"):
            kernel((1,), (32,), args, shared_mem=60 << 10)
        kernel.max_dynamic_shared_size_bytes = 60 << 10
        kernel((1,), (32,), args, shared_mem=60 << 10)
