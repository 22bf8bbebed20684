"""Refinement on the device: neighbours and exchanges against their definitions, and the whole against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.groups.annealing import Schedule, anneal, neighbours, random_words
from gpuanon.groups.device_refine import Rules, refine_cuda
from gpuanon.groups.mdav import mdav
from gpuanon.groups.refine import refine
from gpuanon.numerics.distance import EUCLIDEAN, Metric
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy

Array = np.ndarray[Any, Any]
GOWER = Metric("gower", (1.0, 2.0, 1.0), (True, False, True))
METRICS = [pytest.param(EUCLIDEAN, id="euclidean"), pytest.param(GOWER, id="gower")]
COLD = Schedule(turn=0, steps=1, first=0, every=1, heat=0.0, margin=1e-9)


@pytest.fixture(autouse=True)
def _limits_of_each_device() -> None:
    """The stand-ins of these tests differ in their limits, which are asked for once a device."""
    kernels._limits.cache_clear()


def table(n: int, metric: Metric, seed: int = 0) -> Array:
    X = np.random.default_rng(seed).uniform(size=(n, 3))
    if metric.kind == "gower":
        X[:, [0, 2]] = np.random.default_rng(seed + 1).integers(0, 3, size=(n, 2))
    return X


def distances(X: Array, Y: Array, metric: Metric) -> Array:
    if metric.kind == "euclidean":
        return cdist(X, Y, "sqeuclidean")
    weights = np.asarray(metric.weights) / sum(metric.weights or ())
    gaps = np.abs(X[:, None] - Y[None])
    return np.where(np.asarray(metric.categorical), gaps != 0, gaps) @ weights


def distortion(X: Array, rows: Array, metric: Metric) -> float:
    return float(distances(X[rows], X[rows], metric).sum() / 2 / len(rows))


def total_distortion(X: Array, groups: Partition, metric: Metric) -> float:
    starts = host(groups.starts)
    return sum(distortion(X, rows, metric) for rows in np.split(host(groups.order), starts[1:-1]))


def on(cp: Any, p: Partition) -> Partition:
    """The partition on the device."""
    return Partition(cp.asarray(p.order), cp.asarray(p.starts))


@pytest.mark.parametrize("shared", [100_000, 5500], ids=["staged", "global"])
def test_neighbours_are_the_nearest_of_the_cell(shared: int) -> None:
    cells = Partition.from_labels(np.random.default_rng(2).permutation(np.repeat([0, 1, 2, 3], [140, 3, 1, 20])))
    centres = table(cells.n, EUCLIDEAN)
    with fake_cupy(races=True, shared_per_block=shared, shared_per_block_optin=shared) as cp:
        near = host(neighbours(cp.asarray(centres.astype(np.float32)), on(cp, cells), 5))
        assert near.shape == (5, cells.n)
    for start, end in zip(cells.starts[:-1], cells.starts[1:], strict=True):
        centre = centres.astype(np.float32).astype(float)[cells.order[start:end]]
        apart = distances(centre, centre, EUCLIDEAN)
        np.fill_diagonal(apart, np.inf)
        for place in range(start, end):
            found = near[:, place] - start
            others = found[found != place - start]
            assert len(others) == len(set(others)) == min(5, end - start - 1)
            np.testing.assert_allclose(
                apart[place - start, others], np.sort(apart[place - start])[: len(others)], rtol=1e-5
            )


def naive_exchanges(a: list[int], b: list[int], k: int, width: int) -> list[tuple[list[int], list[int]]]:
    """All that can become of two groups."""
    swaps = [([*a[:i], y, *a[i + 1 :]], [*b[:r], x, *b[r + 1 :]]) for i, x in enumerate(a) for r, y in enumerate(b)]
    if len(a) > k and len(b) < width:
        swaps += [([*a[:i], *a[i + 1 :]], [*b, x]) for i, x in enumerate(a)]
    if len(b) > k and len(a) < width:
        swaps += [([*a, y], [*b[:r], *b[r + 1 :]]) for r, y in enumerate(b)]
    return swaps


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("shared", [100_000, 300], ids=["shared", "scratch"])
@pytest.mark.parametrize("sizes", [(3, 3), (3, 5), (4, 4), (5, 3)])
def test_the_exchange_of_two_groups_is_the_best_there_is(metric: Metric, shared: int, sizes: tuple[int, int]) -> None:
    k, width, g = 3, 5, 12
    X = table(g * 5, metric, seed=sum(sizes))
    counts = np.tile(sizes, g // 2)
    members = np.arange(g * width).reshape(g, width)
    cells = Partition(np.arange(g), np.arange(0, g + 1, 2))  # six cells of two groups that have no choice
    partner = np.arange(g) ^ 1
    with fake_cupy(races=True, shared_per_block=shared, shared_per_block_optin=shared) as cp:
        device = [cp.asarray(array) for array in (X, members, counts, partner[None])]
        changed = float(anneal(*device, on(cp, cells), k, metric, COLD))
        after, sizes_after = host(device[1]), host(device[2])
    coin = random_words(np.arange(g), 0) & np.uint64(1) == 1
    meets = coin != coin[partner]
    assert meets.any()
    gained = 0.0
    for a in np.flatnonzero(meets & (np.arange(g) % 2 == 0)):
        before = [list(members[line, : counts[line]]) for line in (a, a + 1)]
        was = sum(distortion(X, rows, metric) for rows in before)
        best = min(
            sum(distortion(X, np.array(rows), metric) for rows in pair) for pair in naive_exchanges(*before, k, width)
        )
        now = [list(after[line, : sizes_after[line]]) for line in (a, a + 1)]
        assert sorted(now[0] + now[1]) == sorted(before[0] + before[1])
        assert sum(distortion(X, rows, metric) for rows in now) == pytest.approx(min(best, was), abs=1e-12)
        gained += min(best - was, 0)
    assert changed == pytest.approx(gained, abs=1e-12)
    assert (host(after)[~meets] == members[~meets]).all()


RULES = Rules(lambda groups: 3, 6, 3, 0.5)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("n", [60, 63])
def test_refined_groups_equal_those_of_the_same_program_on_numpy(cp: Any, metric: Metric, n: int) -> None:
    X = table(n, metric)
    groups = mdav(X, Partition.whole(n), 4, metric)
    device = refine_cuda(cp.asarray(X), on(cp, groups), 4, metric, RULES, cell=8)
    reference = refine_cuda(X, groups, 4, metric, RULES, cell=8)
    np.testing.assert_array_equal(host(device.starts), reference.starts)
    np.testing.assert_array_equal(host(device.order), reference.order)
    assert total_distortion(X, reference, metric) < total_distortion(X, groups, metric)


@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_refinement_keeps_its_guarantee_and_copies_nothing(cp: Any, real: type) -> None:
    X = table(58, EUCLIDEAN).astype(real)
    groups = Partition.from_labels(np.repeat(np.arange(7), [4, 5, 6, 7, 8, 8, 20]))  # three of them are too large
    device = cp.asarray(X), on(cp, groups)
    cp.transfers.clear()
    refined = refine(*device, 4, turns=2)
    assert not cp.transfers.uploads
    assert not cp.transfers.downloads
    sizes = host(refined.sizes)
    assert sizes.min() >= 4
    assert sizes.max() <= 7
    np.testing.assert_array_equal(np.sort(host(refined.order)), np.arange(58))
    assert total_distortion(X.astype(float), refined, EUCLIDEAN) < total_distortion(X.astype(float), groups, EUCLIDEAN)


@pytest.mark.parametrize("metric", METRICS)
def test_refined_groups_are_as_good_as_those_of_the_host(metric: Metric) -> None:
    # The device's program, run by NumPy: 400 groups are too many for the interpreter.
    X = table(2000, metric)
    groups = mdav(X, Partition.whole(2000), 5, metric)
    theirs = total_distortion(X, refine(X, groups, 5, metric, turns=10), metric)
    ours = total_distortion(X, refine_cuda(X, groups, 5, metric, Rules(lambda groups: 10, 30, 4, 0.5)), metric)
    assert ours < 1.03 * theirs
