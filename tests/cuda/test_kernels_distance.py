"""The distance kernels through NVIDIA's PTX, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.backend import to_host
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import (
    _run_length,
    distances,
    furthest,
    k_nearest,
    k_nearest_with_ties,
    nearest,
    nearest_with_ties,
    paired,
    row_sums,
)
from gpuanon.numerics.metric import EUCLIDEAN, Metric, tie_limit
from tests.cuda.floors import FLOORS
from tests.cuda.support.interpreter import Module

UNITS = 4  # in the last place, of the kernel's type


def metric_of(kind: str, d: int) -> Metric:
    weights = tuple(np.random.default_rng(d).uniform(0.2, 2, d))
    flags = tuple(bool(j % 2) for j in range(d))
    return {"plain": EUCLIDEAN, "weighted": Metric(weights=weights), "gower": Metric("gower", weights, flags)}[kind]


def tables(n: int, m: int, d: int, dtype: Any) -> tuple[Any, Any]:
    rng = np.random.default_rng(n + d)
    return rng.normal(size=(n, d)).astype(dtype), rng.normal(size=(m, d)).astype(dtype)


def within_units(found: Any, expected: Any, dtype: Any, units: float = UNITS) -> bool:
    """Whether `found` is within some units in the last place of its own type of the float64 `expected`."""
    spacing = np.spacing(np.maximum(np.abs(expected), np.finfo(dtype).tiny).astype(dtype)).astype(np.float64)
    return bool((np.abs(found.astype(np.float64) - expected) <= units * spacing).all())


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "weighted", "gower"])
@pytest.mark.parametrize("d", [1, 3, 16, 37])
def test_distances_in_double_are_within_4_units_of_numpy(cp: Any, dtype: Any, kind: str, d: int) -> None:
    X, Y = tables(9, 21, d, dtype)
    metric = metric_of(kind, d)
    exact = distances(X.astype(np.float64), Y.astype(np.float64), metric)
    found = distances(cp.asarray(X), cp.asarray(Y), metric)
    assert isinstance(found, cp.ndarray)
    assert found.dtype == dtype
    assert within_units(found.get(), exact, dtype)
    index = np.arange(9) * 2
    pairs = paired(cp.asarray(X), cp.asarray(Y), metric, index=cp.asarray(index))
    assert np.array_equal(pairs.get(), found.get()[np.arange(9), index])  # the same bits from another kernel


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["plain", "weighted", "gower"])
def test_reductions_equal_those_of_the_matrix_to_the_bit(cp: Any, dtype: Any, kind: str) -> None:
    X, Y = tables(7, 40, 5, dtype)
    X, Y = np.round(X), np.round(Y)  # whole numbers: ties
    metric = metric_of(kind, 5)
    x, y = cp.asarray(X), cp.asarray(Y)
    D = distances(x, y, metric).get()
    least, index = nearest(x, y, metric)
    assert np.array_equal(least.get(), D.min(axis=1))
    assert np.array_equal(index.get(), D.argmin(axis=1))
    assert np.array_equal(nearest_with_ties(x, y, metric)[1].get(), (least.get()[:, None] == D).sum(axis=1))
    most, index = furthest(x, y, metric)
    assert np.array_equal(most.get(), D.max(axis=1))
    assert np.array_equal(index.get(), D.argmax(axis=1))
    values, index = k_nearest(x, y, 4, metric)
    order = np.argsort(D, axis=1, kind="stable")[:, :4]
    assert np.array_equal(index.get(), order)
    assert np.array_equal(values.get(), np.take_along_axis(D, order, 1))
    exact = distances(X.astype(np.float64), Y.astype(np.float64), metric).sum(axis=1)
    np.testing.assert_allclose(row_sums(x, y, metric).get(), exact, rtol=4 * np.finfo(dtype).eps)


def lattice(seed: int, d: int = 3) -> tuple[Any, Any, Any]:
    """Standardised whole numbers, some of them twice, between which other rows lie half way; and exact distances."""
    rng = np.random.default_rng(seed)
    whole = rng.integers(0, 7, (90, d)) * 2
    queries = rng.integers(0, 6, (12, d)) * 2 + 1
    scale, centre = rng.uniform(2, 9), rng.uniform(-3, 3, d)
    return (queries - centre) / scale, (whole - centre) / scale, ((queries[:, None] - whole) ** 2).sum(axis=2)


@pytest.mark.parametrize("seed", range(12))
def test_ties_of_standardised_whole_numbers_survive_rounding_on_both_sides(cp: Any, seed: int) -> None:
    X, Y, exact = lattice(seed)
    least = exact.min(axis=1, keepdims=True)
    ties, first = (exact == least).sum(axis=1), exact.argmin(axis=1)
    for put in (np.asarray, cp.asarray):
        distance, index = nearest(put(X), put(Y))
        assert np.array_equal(to_host(index), first)
        assert np.array_equal(to_host(nearest_with_ties(put(X), put(Y))[1]), ties)
        for k in (1, 2, 5, 40):  # fewer than are tied, and more than a list holds
            near, found, count = k_nearest_with_ties(put(X), put(Y), k)
            near, found = to_host(near), to_host(found)
            assert np.array_equal(to_host(count), ties)
            for row in range(len(X)):
                tied = np.flatnonzero(exact[row] == least[row])[:k]
                assert found[row, : len(tied)].tolist() == tied.tolist()
                assert (near[row, : len(tied)] == near[row, 0]).all()
            assert np.array_equal(near[:, 0], to_host(distance))
            assert (np.diff(near, axis=1) >= 0).all()


def test_a_row_is_among_the_nearest_if_its_own_distance_is_within_the_limit(cp: Any) -> None:
    X, Y, _ = lattice(3)
    for put in (np.asarray, cp.asarray):
        least, ties = nearest_with_ties(put(X), put(Y))
        inside = sum(
            to_host(paired(put(X), put(np.broadcast_to(y, X.shape).copy())) <= tie_limit(least)).astype(int) for y in Y
        )
        assert np.array_equal(inside, to_host(ties))


@pytest.mark.parametrize("name", FLOORS)
def test_kernels_take_floors_of_distances(name: str) -> None:
    FLOORS[name](lambda file: Module.of(file, "float"))


def test_few_rows_are_searched_in_runs_that_are_merged() -> None:
    """600 rows of Y in two runs on this device; a tie across them goes to the lower row."""
    from tests.cuda.support.fake_cupy import fake_cupy

    rng = np.random.default_rng(3)
    Y = rng.integers(0, 3, (600, 2)).astype(np.float32)
    X = rng.integers(0, 3, (3, 2)).astype(np.float32)
    with fake_cupy(multiprocessors=200) as cp:
        x, y = cp.asarray(X), cp.asarray(Y)
        found = [*nearest(x, y), nearest_with_ties(x, y)[1], *furthest(x, y), *k_nearest(x, y, 9)]
        assert _run_length(3, 600) == 300
        device = [array.get() for array in found]
    host = [*nearest(X, Y), nearest_with_ties(X, Y)[1], *furthest(X, Y), *k_nearest(X, Y, 9)]
    for one, other in zip(device, host, strict=True):
        assert np.array_equal(one, other)


def test_as_many_neighbours_as_rows_and_as_the_list_holds(cp: Any) -> None:
    X, Y = tables(2, 33, 2, np.float32)
    for rows, k in ((3, 3), (33, 32)):
        _, index = k_nearest(cp.asarray(X), cp.asarray(Y[:rows]), k)
        assert np.array_equal(index.get(), k_nearest(X, Y[:rows], k)[1])


@pytest.mark.parametrize("metric", [Metric(), Metric(weights=(0.5, 3.0)), Metric("gower")])
@pytest.mark.parametrize("k", [33, 64, 90])
def test_more_neighbours_than_the_list_holds_keep_the_tie_rule(cp: Any, metric: Metric, k: int) -> None:
    rng = np.random.default_rng(k)
    X, Y = (rng.integers(0, 4, (rows, 2)).astype(np.float64) for rows in (5, 90))  # ties across every list
    distance, index = k_nearest(cp.asarray(X), cp.asarray(Y), k, metric)
    expected = k_nearest(X, Y, k, metric)
    assert np.array_equal(index.get(), expected[1])
    np.testing.assert_allclose(distance.get(), expected[0], rtol=1e-14)


def test_arrays_of_two_devices_are_refused(cp: Any) -> None:
    X = np.ones((3, 2))
    with pytest.raises(ParameterError, match="same device"):
        nearest(X, cp.asarray(X))


def test_no_rows_launch_nothing(cp: Any) -> None:
    X, Y = cp.asarray(np.empty((0, 3))), cp.asarray(np.ones((4, 3)))
    assert distances(X, Y).shape == (0, 4)
    assert nearest(X, Y)[1].shape == (0,)
    assert k_nearest(X, Y, 2)[0].shape == (0, 2)
    assert row_sums(Y, X).get().tolist() == [0, 0, 0, 0]
    assert not cp.launches


def test_only_requested_results_are_copied_to_the_host(cp: Any) -> None:
    X, Y = (cp.asarray(table) for table in tables(5, 9, 3, np.float64))
    uploads = len(cp.transfers.uploads)
    nearest(X, Y), k_nearest(X, Y, 3), furthest(X, Y), row_sums(X, Y), distances(X, Y)
    assert len(cp.transfers.uploads) == uploads
    assert not cp.transfers.downloads
