"""Refinement on the device: neighbours and exchanges against their definitions, and the whole against the host's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.arrays import kernels
from gpuanon.arrays.partition import Partition
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.annealing import Schedule, anneal, random_words
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.groups.refine.refine import refine
from gpuanon.numerics.metric import Metric
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support import naive_refine as naive
from tests.support.groups import METRICS, refine_briefly, table

Array = np.ndarray[Any, Any]
COLD = Schedule(turn=0, steps=1, first=0, every=1, heat=0.0)


@pytest.fixture(autouse=True)
def _limits_of_each_device() -> None:
    """The stand-ins of these tests differ in their limits, which are queried once per device."""
    kernels._limits.cache_clear()


@pytest.fixture
def brief_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few steps, in small cells: kernels are interpreted."""
    monkeypatch.setattr("gpuanon.masking.groups.refine.overlapping_cells.CELL", 8)
    refine_briefly(monkeypatch, turns=1, steps=6)


def on(cp: Any, p: Partition) -> Partition:
    """The partition on the device."""
    return Partition(cp.asarray(p.order), cp.asarray(p.starts))


@pytest.mark.parametrize("shared", [100_000, 3500], ids=["staged", "global"])
@pytest.mark.parametrize("most", [4, 1 << 20], ids=["tied", "untied"])
def test_neighbours_are_the_nearest_of_the_cell(shared: int, most: int) -> None:
    cells = Partition.from_labels(np.random.default_rng(2).permutation(np.repeat([0, 1, 2, 3], [140, 3, 1, 20])))
    places = np.random.default_rng(3).integers(-most, most, (cells.n, 3)).astype(np.int32)
    with fake_cupy(races=True, shared_per_block=shared, shared_per_block_optin=shared) as cp:
        near = host(neighbours(cp.asarray(places), on(cp, cells), 5))
    np.testing.assert_array_equal(near, naive.neighbours(places, cells, 5))
    np.testing.assert_array_equal(near, neighbours(places, cells, 5))


def test_reflections_are_rounded_in_the_order_of_the_host(cp: Any) -> None:
    """The centres in double precision, to the bit: the results are rounded further, and hide a fused operation."""
    rng = np.random.default_rng(5)
    places, sizes = rng.integers(-(1 << 20), 1 << 20, (90, 4)).astype(np.int32), rng.integers(2, 4, 40)
    members, mirrors = rng.integers(0, 90, (40, 3)), np.linalg.qr(rng.normal(size=(4, 4)))[0]
    centres, whole, axes = cp.empty((4, 40)), cp.empty((40, 4), dtype=np.int32), cp.empty((40, 4), dtype=np.float32)
    table = [cp.asarray(array) for array in (places, members, sizes, mirrors)]
    arguments = (table[0], 4, table[1], table[2], 40, 3, 1.0, table[3], 4, centres, whole, axes)
    kernels.launch("refine_cells", "locate", *arguments, over=40, threads=128)
    used = np.arange(3) < sizes[:, None]
    expected = (places[members] * used[:, :, None]).sum(axis=1) / sizes[:, None]
    for mirror in mirrors:
        along = np.zeros(40)
        for j in range(4):
            along = along + expected[:, j] * mirror[j]
        for j in range(4):
            expected[:, j] = expected[:, j] - along * (2 * mirror[j])
    np.testing.assert_array_equal(host(centres).T, expected)


@pytest.mark.parametrize("mismatch", [None, [900, -1, 400]], ids=["euclidean", "gower"])
@pytest.mark.parametrize(("most", "shared"), [(2, 100_000), (1000, 300)], ids=["tied shared", "untied scratch"])
@pytest.mark.parametrize("sizes", [(3, 3), (3, 5), (4, 4), (5, 3)])
def test_the_exchange_of_two_groups_is_the_best_one(
    mismatch: list[int] | None, shared: int, sizes: tuple[int, int], most: int
) -> None:
    k, width, g = 3, 5, 12
    rows = np.random.default_rng(sum(sizes)).integers(0, most, (g * 5, 3)).astype(np.int32)
    weights = None if mismatch is None else np.array(mismatch, dtype=np.int32)
    counts = np.tile(sizes, g // 2)
    members = np.arange(g * width).reshape(g, width)
    cells = Partition(np.arange(g), np.arange(0, g + 1, 2))  # six cells of two groups that have no choice
    near = (np.arange(g) ^ 1)[None]
    coin = random_words(np.arange(g), 0) & np.uint64(1) == 1
    assert (coin != coin[near[0]]).any()
    expected = members.copy(), counts.copy()
    gained = naive.anneal(rows, weights, *expected, near, cells, k, COLD)
    with fake_cupy(races=True, shared_per_block=shared, shared_per_block_optin=shared) as cp:
        table, of = cp.asarray(members), cp.asarray(counts)
        weights = weights if weights is None else cp.asarray(weights)
        changed = anneal(cp.asarray(rows), weights, table, of, cp.asarray(near), on(cp, cells), k, COLD)
        assert float(changed.sum()) == pytest.approx(float(gained), rel=1e-14)
        np.testing.assert_array_equal(host(of), expected[1])
        filled = np.arange(width) < expected[1][:, None]
        np.testing.assert_array_equal(host(table)[filled], expected[0][filled])


@pytest.mark.usefixtures("brief_steps")
@pytest.mark.parametrize(
    ("kind", "k", "n", "real"),
    [
        ("untied", 3, 61, np.float64),
        ("untied", 10, 124, np.float64),
        ("weights", 5, 72, np.float32),
        ("lattice", 3, 63, np.float64),
        ("lattice", 5, 72, np.float64),
        ("square", 5, 70, np.float64),
        ("gower", 5, 60, np.float64),
        ("tied gower", 3, 61, np.float32),
        ("tied gower", 10, 104, np.float64),
    ],
)
def test_groups_on_the_device_equal_those_of_the_host(cp: Any, kind: str, k: int, n: int, real: type) -> None:
    X = table(kind, n).astype(real)
    groups = mdav(X, Partition.whole(len(X)), k, METRICS[kind])
    expected = refine(X, groups, k, METRICS[kind], turns=2)
    found = refine(cp.asarray(X), on(cp, groups), k, METRICS[kind], turns=2)
    np.testing.assert_array_equal(host(found.starts), expected.starts)
    np.testing.assert_array_equal(host(found.order), expected.order)
    assert kind == "square" or (expected.order != groups.order).any()


@pytest.mark.usefixtures("brief_steps")
def test_refinement_keeps_its_guarantee_and_copies_no_rows(cp: Any) -> None:
    X = table("untied", 58)
    groups = Partition.from_labels(np.repeat(np.arange(7), [4, 5, 6, 7, 8, 8, 20]))  # three of them are too large
    device = cp.asarray(X), on(cp, groups)
    cp.transfers.clear()
    refined = refine(*device, 4, turns=2)
    noise, mirrors = cp.transfers.uploads  # tables that do not depend on the rows
    assert (noise.bytes, mirrors.bytes) == (8 << 16, 2 * 5 * 3 * 8)
    assert not cp.transfers.downloads
    sizes = host(refined.sizes)
    assert sizes.min() >= 4
    assert sizes.max() <= 7
    np.testing.assert_array_equal(np.sort(host(refined.order)), np.arange(58))
    np.testing.assert_array_equal(host(refined.order), refine(X, groups, 4, turns=2).order)


@pytest.mark.usefixtures("brief_steps")
def test_metrics_without_categories_are_refined(cp: Any) -> None:
    X, metric = table("untied", 40), Metric("gower")
    groups = mdav(X, Partition.whole(40), 4, metric)
    expected = refine(X, groups, 4, metric, turns=1)
    np.testing.assert_array_equal(host(refine(cp.asarray(X), on(cp, groups), 4, metric, turns=1).order), expected.order)
