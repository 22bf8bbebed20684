"""What is computed in three ways (NumPy, compiled by numba, a kernel) has one result.

Everything here works on whole numbers, whose sums are exact, so the results are equal to the bit; conditional
distribution functions on the device are within their stated tolerance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import pytest

from gpuanon.arrays import compiled, sorting
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.sorting import argsort_words
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav
from gpuanon.masking.groups.refine.annealing import Schedule, anneal
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.groups.refine.refine import refine
from gpuanon.masking.operations.dither.rosenblatt import conditional_cdfs
from gpuanon.numerics import equal_rows as equal_rows_module
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.distance import distance_search
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from tests.cuda.fixtures import host
from tests.support.groups import METRICS, MIXED, refine_briefly, table

Array: TypeAlias = Any
Way: TypeAlias = Callable[[Any], list[Array]]
"""From `asarray` of NumPy or of the device to the results."""


def greedy(group: Any, metric: Metric) -> Way:
    """Groups inside blocks of 30 rows, with leftovers; rows repeat, so that ties decide."""
    X = np.random.default_rng(1).integers(0, 5, (60, 3)).astype(float)

    def run(put: Any) -> list[Array]:
        rows = put(X)
        return [group(rows, blocks(rows, Partition.whole(len(X), like=rows), 30, metric), 4, metric).labels()]

    return run


def cuts(put: Any) -> list[Array]:
    """Blocks by median cuts."""
    X = put(table("untied", 90))
    found = blocks(X, Partition.whole(90, like=X), 12, multiple=3)
    return [found.labels(), found.sizes]


def near_groups(put: Any) -> list[Array]:
    """The nearest groups inside cells."""
    rng = np.random.default_rng(3)
    cells = Partition.from_labels(np.repeat([0, 1], [20, 13]))
    places = put(rng.integers(-9, 9, (33, 3)).astype(np.int32))
    return [neighbours(places, Partition(put(cells.order), put(cells.starts)), 4)]


def exchanges(mismatch: list[int] | None) -> Way:
    """Groups of three to five rows in two cells after some steps, hot ones first."""
    rng = np.random.default_rng(4)
    rows = rng.integers(0, 50, (60, 3)).astype(np.int32)
    sizes = np.tile([3, 4, 5, 3], 3)
    near = np.array([(np.arange(12) + 1) % 6 + 6 * (np.arange(12) // 6), np.arange(12) ^ 1])
    schedule = Schedule(turn=1, steps=8, first=0, every=7, heat=0.5)

    def run(put: Any) -> list[Array]:
        members, counts = put(np.arange(60).reshape(12, 5)), put(sizes.copy())
        weights = None if mismatch is None else put(np.array(mismatch, dtype=np.int32))
        cells = Partition(put(np.arange(12)), put(np.array([0, 6, 12])))
        anneal(put(rows), weights, members, counts, put(near), cells, 3, schedule)
        held = host(members)
        filled = np.arange(5) < host(counts)[:, None]
        assert not np.array_equal(held, np.arange(60).reshape(12, 5)), "nothing was exchanged"
        return [counts, np.where(filled, held, -1)]

    return run


def refinement(kind: str) -> Way:
    """Groups and their refinement from beginning to end."""

    def run(put: Any) -> list[Array]:
        X = put(table(kind, 75))
        groups = mdav(X, Partition.whole(75, like=X), 3, METRICS[kind])
        return [refine(X, groups, 3, METRICS[kind]).labels()]

    return run


def search(put: Any) -> list[Array]:
    """The five nearest rows; ties go to the lowest."""
    rng = np.random.default_rng(5)
    return list(k_nearest(put(rng.integers(0, 4, (40, 5)) * 1.0), put(rng.integers(0, 4, (300, 5)) * 1.0), 5))


def classes(put: Any) -> list[Array]:
    """The order of hashes of which some share their upper bits, and classes of equal rows."""
    rng = np.random.default_rng(7)
    words = rng.integers(0, 2**64, 900, dtype=np.uint64)[rng.integers(0, 300, 900)]
    words[::50] ^= np.uint64(1)
    return [argsort_words(put(words)), equal_rows(put(rng.integers(0, 2, (500, 9)) / 3))]


def mixtures(put: Any) -> list[Array]:
    """Conditional distribution functions of two mixtures."""
    rng = np.random.default_rng(6)
    factors = np.tril(rng.normal(size=(7, 3, 3))) * 0.4
    factors[:, range(3), range(3)] = rng.uniform(0.5, 1.5, (7, 3))
    given = (
        rng.standard_normal((40, 3)),
        np.array([0, 25, 40]),
        rng.standard_normal((7, 3)),
        np.linalg.inv(factors),
        np.log(rng.dirichlet(np.ones(7))),
        np.array([0, 4, 7]),
    )
    return [conditional_cdfs(*map(put, given))]


COMPUTATIONS: dict[str, Way] = {
    "median cuts": cuts,
    "MDAV": greedy(mdav, EUCLIDEAN),
    "MDAV, Gower": greedy(mdav, MIXED),
    "k-member": greedy(kmember, EUCLIDEAN),
    "k-member, Gower": greedy(kmember, MIXED),
    "near groups": near_groups,
    "exchanges": exchanges(None),
    "exchanges, Gower": exchanges([30, -1, 12]),
    "refinement": refinement("lattice"),
    "refinement, Gower": refinement("gower"),
    "nearest rows": search,
    "equal rows": classes,
    "conditional distributions": mixtures,
}
ROUNDED = {"conditional distributions": 1e-12}
"""Tolerance of results that are not whole numbers; the kernel's, for the compiled function is equal to the bit."""


@pytest.mark.parametrize("name", COMPUTATIONS)
def test_numpy_compiled_functions_and_kernels_agree(name: str, cp: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    monkeypatch.setattr("gpuanon.masking.groups.refine.overlapping_cells.CELL", 8)
    monkeypatch.setattr(distance_search, "_SMALL", 0)
    for place in (sorting, equal_rows_module):
        monkeypatch.setattr(place, "LEAST_COMPILED", 0)
    refine_briefly(monkeypatch, turns=2, steps=4)
    work, numba = COMPUTATIONS[name], compiled.use_compiled(0)
    monkeypatch.setenv("GPUANON_COMPILED", "0")
    expected = work(np.array)
    for one, mine in zip(work(cp.asarray), expected, strict=True):
        np.testing.assert_allclose(host(one), mine, rtol=0, atol=ROUNDED.get(name, 0), err_msg="kernel")
    if not numba:
        pytest.skip("numba is not installed or is turned off: NumPy and the kernel agree")
    monkeypatch.setenv("GPUANON_COMPILED", "1")
    reached: list[int] = []
    monkeypatch.setattr(compiled, "_works", lambda: bool(reached.append(1)) or True)
    for one, mine in zip(work(np.array), expected, strict=True):
        np.testing.assert_array_equal(one, mine, err_msg="compiled")
    assert reached, "no compiled function was asked for"
