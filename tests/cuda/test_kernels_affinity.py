"""The affinity kernels through NVIDIA's PTX, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.partition import Partition
from gpuanon.numerics.spectral.affinity import degrees, normalised_product

TOLERANCE = {np.float32: 2e-6, np.float64: 1e-14}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("d", "q"), [(1, 1), (3, 9), (18, 17)])
def test_degrees_and_product_equal_numpy(cp: Any, dtype: Any, d: int, q: int) -> None:
    rng = np.random.default_rng(d)
    n = 45
    X, V = rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(n, q)).astype(dtype)
    labels, sigma = rng.integers(0, 3, n), np.array([0.8, 1.5, 3.0]) * np.sqrt(d)
    host, device = Partition.from_labels(labels), Partition.from_labels(cp.asarray(labels))
    expected = degrees(X.astype(np.float64), sigma, host)
    found = degrees(cp.asarray(X), cp.asarray(sigma), device)
    assert found.dtype == dtype
    np.testing.assert_allclose(found.get(), expected, rtol=TOLERANCE[dtype])
    product = normalised_product(cp.asarray(X), cp.asarray(sigma), found, cp.asarray(V), device)
    assert product.dtype == dtype
    reference = normalised_product(X.astype(np.float64), sigma, expected, V.astype(np.float64), host)
    np.testing.assert_allclose(product.get(), reference, atol=TOLERANCE[dtype] * np.abs(reference).max())


def test_one_sigma_for_the_whole_table_and_more_rows_than_a_block_owns(cp: Any) -> None:
    X = np.random.default_rng(1).normal(size=(150, 2))
    np.testing.assert_allclose(degrees(cp.asarray(X), 0.7).get(), degrees(X, 0.7), rtol=1e-13)


def test_a_single_row_in_its_part_has_degree_zero(cp: Any) -> None:
    labels = cp.asarray(np.array([0, 1, 1]))
    X, p = cp.asarray(np.arange(6.0).reshape(3, 2)), Partition.from_labels(labels)
    found = degrees(X, 2.0, p)
    assert found.get()[0] == 0
    assert normalised_product(X, 2.0, found, X, p).get()[0].tolist() == [0, 0]


def test_no_rows_launch_nothing(cp: Any) -> None:
    assert degrees(cp.asarray(np.empty((0, 2))), 1.0).shape == (0,)
    assert not cp.launches
