"""Layer 8 on problems of 100 000 to a million rows: every kernel that gives numbers or neighbours, against its twin.

Those that form groups are in test_one_lane.py.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.cli.doctor.device_checks import Check
from gpuanon.numerics.distance import distance
from gpuanon.numerics.kernel_values import Kernel, kernel_product
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from gpuanon.numerics.spectral import affinity
from tests.cuda.fixtures import host
from tests.cuda.large import GOWER, LARGE, LARGER, ROUNDED
from tests.cuda.support import one_lane
from tests.cuda.support.fake_cupy import fake_cupy
from tests.cuda.support.fake_device import hardware

pytestmark = pytest.mark.skipif(one_lane.MISSING is not None, reason=str(one_lane.MISSING))

GROUPS = ("cuts", "kmember", "mdav", "refine", "refine_cells", "refine_neighbours", "univariate")


def check_agrees(check: Check, dtype: Any) -> None:
    with fake_cupy(one_lane=True) as cp:
        found = check.run(cp, dtype)
        ran = {name for name, *_ in hardware.shared_memory}
    assert {kernel.split("/")[1] for kernel in check.kernels} <= ran
    assert check.difference(found, check.expected(dtype), dtype) <= check.allowed(dtype)


@pytest.mark.parametrize("check", LARGE, ids=lambda check: check.name)
def test_a_hundred_thousand_rows_agree_with_numpy(check: Check) -> None:
    check_agrees(check, np.float64 if check.allowed(np.float32) == np.inf else np.float32)


@pytest.mark.slow
@pytest.mark.parametrize("check", [*LARGE, *LARGER], ids=lambda check: check.name)
def test_many_rows_agree_with_numpy_in_double(check: Check) -> None:
    check_agrees(check, np.float64)


@pytest.mark.slow
@pytest.mark.parametrize("check", LARGER, ids=lambda check: check.name)
def test_a_million_rows_agree_with_numpy(check: Check) -> None:
    check_agrees(check, np.float32)


def test_every_kernel_that_forms_no_groups_has_a_large_problem() -> None:
    every = {f"{file}/{name}" for file in kernels.files() for name in kernels.names(file)}
    groups = {f"{file}/{name}" for file in GROUPS for name in kernels.names(file)}
    assert {kernel for check in LARGE for kernel in check.kernels} == every - groups


def at_borders(numbers: list[int]) -> list[int]:
    return [number + more for number in numbers for more in (-1, 0, 1)]


@pytest.mark.parametrize("metric", [EUCLIDEAN, GOWER], ids=lambda metric: metric.kind)
def test_distances_at_every_border_of_tiles(metric: Metric) -> None:
    """Numbers of rows and columns just below and above those that fill tiles, steps and chunks."""
    rng = np.random.default_rng(1)
    columns = itertools.cycle([4] if metric.weights else [1, 3, 4, 5, 15, 16, 17, 33])
    with fake_cupy(one_lane=True) as cp:
        for n, m in itertools.product(at_borders([2, 64, 128, 192]), at_borders([2, 8, 16, 32])):
            X, Y = np.split(rng.integers(0, 4, (n + m, next(columns))).astype(np.float64), [n])
            D = distance.distances(X, Y, metric)
            order, least = np.argsort(D, axis=1, kind="stable")[:, : min(m, 5)], D.min(axis=1)
            ties = (least[:, None] == D).sum(axis=1)
            expected = D, order[:, 0], ties, D.argmax(axis=1), order, D.sum(axis=1), least
            x, y = (cp.asarray(table.astype(np.float32)) for table in (X, Y))
            found = (
                *(distance.distances(x, y, metric), distance.nearest(x, y, metric)[1]),
                *(distance.nearest_with_ties(x, y, metric)[1], distance.furthest(x, y, metric)[1]),
                *(distance.k_nearest(x, y, min(m, 5), metric)[1], distance.row_sums(x, y, metric)),
                distance.paired(x, y, metric, index=cp.asarray(order[:, 0])),
            )
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_array_equal(host(one), other, err_msg=f"{n} rows, {m} others, {X.shape[1]} columns")


def test_products_at_every_border_of_tiles() -> None:
    """Parts of 1 to 140 rows; numbers of rows, of vectors and of columns about those that fill tiles."""
    rng = np.random.default_rng(2)
    sizes = np.arange(1, 141)
    n = int(sizes.sum())
    parts = Partition(rng.permutation(n), np.concatenate([[0], np.cumsum(sizes)]))
    square = Kernel(degree=2)
    with fake_cupy(one_lane=True) as cp:
        within = Partition(cp.asarray(parts.order), cp.asarray(parts.starts))
        for d, q, rows, others in ((1, 1, 127, 15), (15, 15, 128, 16), (16, 16, 129, 17), (17, 17, 257, 33)):
            X, V = rng.integers(0, 3, (n, d)).astype(np.float64), rng.random((n, q))
            Y, W = (rng.integers(-3, 4, (others, size)).astype(np.float64) for size in (d, q))
            sums = affinity.degrees(X, 6.0, parts)
            x, v, y, w, degrees = (cp.asarray(array.astype(np.float32)) for array in (X, V, Y, W, sums))
            found = affinity.degrees(x, 6.0, within), affinity.normalised_product(x, 6.0, degrees, v, within)
            expected = sums, affinity.normalised_product(X, 6.0, sums, V, parts)
            for one, other in zip(found, expected, strict=True):
                np.testing.assert_allclose(host(one), other, rtol=ROUNDED[0])
            powers = host(kernel_product(x[:rows], y, w, square))  # of whole numbers: exact
            np.testing.assert_array_equal(powers, kernel_product(X[:rows], Y, W, square))
