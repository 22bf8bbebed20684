"""The kernel-PCA kernels through NVIDIA's PTX, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.numerics.kernel_components import KernelPCA
from gpuanon.numerics.kernel_values import Kernel, kernel_product

TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kernel", [Kernel(), Kernel(degree=1), Kernel(degree=5, constant=0.3), Kernel("rbf", sigma=2)])
@pytest.mark.parametrize(("d", "q"), [(2, 1), (19, 17)])
def test_the_fused_product_equals_numpy(cp: Any, dtype: Any, kernel: Kernel, d: int, q: int) -> None:
    rng = np.random.default_rng(q)
    X, Y, W = (rng.normal(size=shape).astype(dtype) for shape in ((10, d), (35, d), (35, q)))
    expected = kernel_product(*(array.astype(np.float64) for array in (X, Y, W)), kernel)
    found = kernel_product(*(cp.asarray(array) for array in (X, Y, W)), kernel)
    assert isinstance(found, cp.ndarray)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.get(), expected, atol=TOLERANCE[dtype] * np.abs(expected).max())


def test_many_landmarks_are_summed_in_levels(cp: Any) -> None:
    """More steps than one level holds: 300 rows of Y are 19 steps of 16."""
    rng = np.random.default_rng(0)
    X, Y, W = (rng.normal(size=shape).astype(np.float32) for shape in ((3, 1), (300, 1), (300, 1)))
    expected = kernel_product(*(array.astype(np.float64) for array in (X, Y, W)), Kernel("rbf"))
    found = kernel_product(*(cp.asarray(array) for array in (X, Y, W)), Kernel("rbf"))
    np.testing.assert_allclose(found.get(), expected, atol=2e-6 * np.abs(W).sum())


def test_components_are_fitted_and_projected_on_the_device(cp: Any) -> None:
    X = np.random.default_rng(1).normal(size=(60, 3))
    for exact_rows in (100, 10):
        host = KernelPCA.fit(X, share=0.9, exact_rows=exact_rows, landmarks=20)
        device = KernelPCA.fit(cp.asarray(X), share=0.9, exact_rows=exact_rows, landmarks=20)
        np.testing.assert_allclose(device.variances, host.variances, rtol=1e-9)
        scale = np.sqrt(host.variances[0])
        np.testing.assert_allclose(device.project(cp.asarray(X[:9])).get(), host.project(X[:9]), atol=1e-8 * scale)


def test_no_rows_launch_nothing(cp: Any) -> None:
    empty = cp.asarray(np.empty((0, 2)))
    assert kernel_product(empty, cp.asarray(np.ones((3, 2))), cp.asarray(np.ones((3, 4)))).shape == (0, 4)
    assert not cp.launches
