"""Groups of single columns on the stand-in for CuPy equal those of NumPy, ties included, and nothing is copied."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuanon.masking.groups import univariate as module
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy

Rows = np.ndarray[Any, Any]


def levels(rng: np.random.Generator, n: int) -> Rows:
    return np.eye(4)[rng.integers(0, 4, n)]


def incomes(rng: np.random.Generator, n: int) -> Rows:
    return rng.lognormal(size=(n, 1))


def integers(rng: np.random.Generator, n: int) -> Rows:
    return rng.integers(0, 9, (n, 1)).astype(np.float64)


def with_nulls(rng: np.random.Generator, n: int) -> Rows:
    null = rng.random(n) < 0.3
    return np.column_stack([np.where(null, 0, rng.integers(-4, 4, n)), np.where(null, 0.7, -0.7)])


def constant(rng: np.random.Generator, n: int) -> Rows:
    return np.full((n, 1), 1 / 3)


def assert_equal_groups(function: Any, values: Rows, k: int, races: bool = False) -> None:
    expected = function(values, k)
    with fake_cupy(races=races) as cp:
        X = cp.asarray(values)
        copied = len(cp.transfers.uploads)
        found = function(X, k)
        assert len(cp.transfers.uploads) == copied
        assert not cp.transfers.downloads
        assert not cp.memory.slow_sorts
        np.testing.assert_array_equal(cp.asnumpy(found.order), expected.order)
        np.testing.assert_array_equal(cp.asnumpy(found.starts), expected.starts)


@pytest.mark.parametrize("make", [levels, incomes, integers, with_nulls, constant])
@pytest.mark.parametrize("function", [module.univariate, module.optimal_univariate])
@pytest.mark.parametrize("chunk", [16, 512])
def test_groups_equal_those_of_the_host(
    function: Any, make: Callable[..., Rows], chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", chunk)
    assert_equal_groups(function, make(np.random.default_rng(chunk), 150), 3, races=chunk == 16)


@pytest.mark.parametrize("make", [levels, incomes, integers, with_nulls, constant])
@pytest.mark.parametrize("k", [2, 5])
def test_optimal_groups_on_either_device(device: Any, make: Callable[..., Rows], k: int) -> None:
    values = make(np.random.default_rng(k), 60)
    found, expected = module.optimal_univariate(device.asarray(values), k), module.optimal_univariate(values, k)
    np.testing.assert_array_equal(host(found.order), expected.order)
    np.testing.assert_array_equal(host(found.starts), expected.starts)


@pytest.mark.parametrize("k", [32, 33, 40])
def test_long_columns_without_chunks_take_several_launches(k: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_NODES", 90)
    assert_equal_groups(module.optimal_univariate, incomes(np.random.default_rng(k), 280), k)


def test_one_launch_of_each_kernel_forms_the_groups() -> None:
    with fake_cupy(execute=False) as cp:
        module.optimal_univariate(cp.asarray(np.arange(20_000.0)), 5)
        launched = [kernel for kernel, _, _ in cp.hardware.shared_memory]
    assert launched == ["chunk_paths", "chunk_entries", "chunk_cuts"]


def test_running_sums_may_wrap_around(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 16)
    values = np.repeat([0.0, 1.0], [700, 20]) + np.random.default_rng(1).normal(0, 1e-3, 720)
    grid = module.grid_of(values[:, None], module.EUCLIDEAN, module._BITS - 2 * np.log2(5)).rows(values[:, None])
    assert sum(int(value) ** 2 for value in grid[:, 0]) > 2**63
    assert_equal_groups(module.optimal_univariate, values, 3)
