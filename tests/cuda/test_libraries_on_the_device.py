"""Library calls that are slow on a device are avoided: stacked decompositions, sorts that compare, long launches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.sorting import argsort_rows, lexicographic_order, sort_rows
from gpuanon.masking.operations.dither import rosenblatt
from gpuanon.masking.operations.dither.empirical import lexicographic
from gpuanon.masking.operations.dither.rosenblatt import conditional_cdfs
from gpuanon.numerics.svd import principal_axes
from tests.cuda.support.fake_cupy import fake_cupy


@given(st.integers(0, 2**32), st.integers(1, 5), st.integers(1, 40))
def test_chained_sorts_are_numpys(seed: int, rows: int, length: int) -> None:
    values = np.random.default_rng(seed).integers(0, 4, (rows, length)).astype(np.float64)
    with fake_cupy() as cp:
        x = cp.asarray(values)
        np.testing.assert_array_equal(argsort_rows(x).get(), np.argsort(values, axis=1, kind="stable"))
        np.testing.assert_array_equal(sort_rows(x).get(), np.sort(values, axis=1))
        np.testing.assert_array_equal(lexicographic_order(list(x)).get(), np.lexsort(values))
        np.testing.assert_array_equal(
            lexicographic(x.T.copy(), Partition.whole(length, like=x)).get(),
            lexicographic(values.T.copy(), Partition.whole(length)),
        )
        assert not cp.memory.slow_sorts


@pytest.mark.parametrize(("sizes", "d"), [((60, 50, 50), 40), ((20, 30), 45), ((100, 100), 33)])
def test_axes_of_more_than_32_columns_are_those_of_the_host(sizes: tuple[int, ...], d: int) -> None:
    rng = np.random.default_rng(d)
    X = rng.normal(size=(sum(sizes), d)) * np.geomspace(1, 1e-3, d)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    expected = principal_axes(X, Partition(np.arange(len(X)), starts))
    with fake_cupy() as cp:
        found = principal_axes(cp.asarray(X), Partition(cp.arange(len(X)), cp.asarray(starts)))
        np.testing.assert_allclose(found.s.get(), expected.s, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(found.V.get(), expected.V, atol=1e-7)


@pytest.mark.parametrize(("work", "loop"), [(1, 10**9), (10**12, 6), (1, 3)])
def test_short_launches_give_the_bits_of_one_long_launch(monkeypatch: pytest.MonkeyPatch, work: int, loop: int) -> None:
    rng = np.random.default_rng(3)
    d, samples, components = 3, np.array([0, 37, 90]), np.array([0, 4, 11])
    W = np.tril(rng.normal(size=(11, d, d)))
    W[:, range(d), range(d)] = rng.uniform(0.5, 2, (11, d))
    given = rng.normal(size=(90, d)), samples, rng.normal(size=(11, d)), W, rng.normal(size=11), components
    with fake_cupy() as cp:
        expected = conditional_cdfs(*map(cp.asarray, given)).get()
        whole = len(cp.launches)
        monkeypatch.setattr(rosenblatt, "_WORK", work)
        monkeypatch.setattr(rosenblatt, "_FEWEST", 25)
        monkeypatch.setattr(rosenblatt, "_LONGEST_LOOP", loop)
        found = conditional_cdfs(*map(cp.asarray, given)).get()
        assert len(cp.launches) > 2 * whole
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_allclose(found, conditional_cdfs(*given), rtol=1e-11)


def test_ten_million_rows_of_ten_columns_are_cut_into_short_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []

    def launches(x: Any, *other: Any) -> Any:
        rows.append(len(x))
        return x

    monkeypatch.setattr(rosenblatt, "_launches", launches)
    with fake_cupy() as cp:
        x = cp.zeros((200_000, 10), dtype=np.float32)
        W = cp.asarray(np.tile(np.eye(10, dtype=np.float32), (256, 1, 1)))
        starts = cp.asarray([0, 200_000]), cp.asarray([0, 256])
        conditional_cdfs(x, starts[0], x[:256], W, x[:256, 0], starts[1])
    # 2 s on a display GPU of 90 GFLOP/s in float64 are 9e10 multiply-adds; a launch stays far below.
    assert sum(rows) == 200_000
    assert max(rows) * 256 * 10 * (10 + 60) <= 10**10


@pytest.mark.parametrize("path", sorted(kernels.folder().glob("*.cu*")), ids=lambda path: path.name)
def test_kernel_sources_are_ascii(path: Path) -> None:
    assert path.read_bytes().isascii()
