"""The whole of `protect` on the stand-in for CuPy, for every method: the same release as NumPy's, in memory and
in parts.  What a mask sees is uploaded once and the result downloaded once.  Columns are uploaded besides to be fitted
and, as they will be written, to be counted; nothing but scalars comes back of that, and a random order of the rows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpuanon
from gpuanon.arrays.backend import choose
from gpuanon.engine import tasks
from gpuanon.engine.store.placement import usual_cell_rows
from gpuanon.errors import BackendError
from gpuanon.masking.claims.drawn_claims import _Drawn
from gpuanon.masking.groups.refine import refine as refinement
from gpuanon.masking.groups.refine.overlapping_cells import Neighbourhood
from gpuanon.numerics.cuts.device_cuts import CutPlan
from tests.cuda.fixtures import real_device
from tests.cuda.support.fake_cupy import fake_cupy
from tests.support.every import MASKS, ON_THE_CPU_ONLY, ON_THE_DEVICE, recipe, registry
from tests.support.groups import refine_briefly
from tests.support.running import in_parts
from tests.support.same_release import assert_same_release


def rows_for(name: str) -> int:
    """Few rows, because kernels are interpreted; cutting every column at once needs more."""
    return 300 if name == "rhs" else 160


@pytest.fixture
def brief_refinement(monkeypatch: pytest.MonkeyPatch) -> None:
    """One short turn on either device: the usual ones are too many to interpret."""
    refine_briefly(monkeypatch, turns=1, steps=6)


USUAL = (2, 1)
"""Uploads: the record numbers, and one matrix of everything that the parts see.  Downloads: one of all that changed."""

CENTROIDS = (
    *("microaggregation", "microaggregation k-member", "microaggregation gower", "microaggregation median"),
    *("rhs", "spectral-rhs", "mondrian", "optimal-boxes diversity"),
)
TRANSFERS = {
    # Centroids: and the groups, whose rows are rounded alike.
    **dict.fromkeys(CENTROIDS, (2, 2)),
    "microaggregation univariate": (2, 7),  # the groups of each column
    "microaggregation optimal-univariate": (2, 7),
    "microaggregation one column": (3, 2),  # and the column that is grouped by
    "microaggregation first-axis": (2, 3),  # and the covariances of the columns, whose axis is found on the host
    "gaussian": (4, 1),  # and the sensitive values, by which the columns are ordered, with their counts
    "gaussian binned": (4, 1),
    "gaussian single": (4, 1),
    "gaussian strata": (4, 1),
    "suppress": (3, 1),  # codes in place of points, and one hierarchy
    "synthetic-rows": (6, 2),  # codes, and the values of columns that have more than a few: four tables of ancestors;
    "synthetic-rows joint": (6, 2),  # how many rows each class wants, and the rows
    "synthetic-rows calibrated": (6, 2),  # the same, of few columns, to learn and again to add
    "recode": (4, 1),  # codes and two hierarchies
    "recode searched": (9, 5),  # codes and hierarchies to learn and again to recode, and small classes; combinations
    "recode local": (9, 5),
    "blank": (9, 3),  # as random-suppress, and how many records of a combination keep which cells
    "random-suppress": (8, 3),  # record numbers, codes and one hierarchy to learn and to blank, and what is blanked
    "pram": (8, 3),  # the same, and the chances
    "mondrian interval": (7, 1),  # points and codes, and four tables of ancestors
    # Points and codes to learn, to dismiss and to form boxes, four tables of ancestors each time, what was learned, and
    # the noise of the search's temperature; the summary, which records are kept, and the new columns.
    "optimal-boxes": (22, 5),
    "noise normal-scores": (7, 2),  # codes, ancestors, and the root of the correlations, which are found on the host
    "rank-swap": (6, 1),  # codes, and four tables of ancestors
    "column-swap": (6, 1),
    "core-swap": (6, 1),  # and the codes of the core
    "cluster-swap": (7, 1),  # points, codes, and four tables of ancestors
    "maximum-entropy": (4, 2),
    "maximum-entropy named": (4, 2),  # to learn and again to draw; moments, and the new points
    "clustered-synthesis": (9, 5),  # sizes of parts, plans of their cuts, and the new points
    "targeted-swap": (4, 1),
    "data-shuffle": (7, 2),
    "univariate-synthesis": (5, 5),  # as the copula
    "latin-hypercube": (24, 6),  # twice
    "copula": (5, 5),  # numbers and points to learn and again to sample, and the factor; sums, and the new points
}


STEPS = (
    (tasks, "summarise", "fit"),
    (tasks, "content", "content"),
    (tasks, "count", "count"),
    (_Drawn, "check", "verify"),
    (CutPlan, "of", "plans of cuts"),
    (Neighbourhood, "_mirrors", "axes of turns"),
    (refinement, "noise_on", "noise"),
)
"""What a run does on the device beside its masks, and tables that do not depend on values."""


def count_transfers(cp: Any, monkeypatch: pytest.MonkeyPatch) -> dict[str, tuple[int, int]]:
    """Uploads and downloads of each of `STEPS`; filled while a run goes on."""
    found: dict[str, tuple[int, int]] = {}

    def counting(function: Callable[..., Any], step: str) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            before = len(cp.transfers.uploads), len(cp.transfers.downloads)
            try:
                return function(*arguments, **keywords)
            finally:
                up, down = found.get(step, (0, 0))
                up += len(cp.transfers.uploads) - before[0]
                found[step] = up, down + len(cp.transfers.downloads) - before[1]

        return run

    for owner, name, step in STEPS:
        monkeypatch.setattr(owner, name, counting(getattr(owner, name), step))
    return found


@pytest.mark.usefixtures("brief_refinement")
@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_every_method_runs_on_the_device_with_few_transfers(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data: Any = registry(rows_for(name))
    expected = gpuanon.protect(data, recipe(name), rng=7, backend="numpy")
    with fake_cupy() as cp:
        steps = count_transfers(cp, monkeypatch)
        found = gpuanon.protect(data, recipe(name), rng=7, backend="cupy")
        uploads, downloads = cp.transfers.uploads, cp.transfers.downloads
    assert found.manifest["backend"] == "cupy"
    assert_same_release(found.data, expected.data)
    assert np.array_equal(found.link, expected.link)
    assert not cp.memory.slow_sorts
    beside = tuple(np.sum(list(steps.values()), axis=0))
    order = (1, 1)  # record numbers, and an order of them
    found_by_masks = len(uploads) - beside[0] - order[0], len(downloads) - beside[1] - order[1]
    assert found_by_masks == TRANSFERS.get(name, USUAL), (uploads, downloads)
    # Each column once or, with nulls, twice: to be fitted, to tell what is masked, to be counted as it is written, and
    # for drawn values before and after.  The sizes of the smallest classes come back as scalars.
    columns, masks = len(data.columns), len(found.manifest["mask"])
    assert steps["fit"][0] <= columns * masks
    assert steps["content"][0] <= (2 * columns + 2) * masks
    assert 0 < steps["count"][0] <= 2 * columns
    assert steps.get("verify", (0, 0))[0] <= 4 * columns + 4
    # Blocks of all rows and of each of three strata, and the cells of a refinement; one turn.
    assert steps.get("plans of cuts", (0, 0)) <= (8, 0)
    assert steps.get("axes of turns", (0, 0)) <= (3, 0)
    assert steps.get("noise", (0, 0)) <= (3, 0)
    assert beside[1] == 0, "the figures of the verification are scalars"


@pytest.mark.usefixtures("brief_refinement")
@pytest.mark.parametrize("name", ON_THE_DEVICE)
@pytest.mark.slow
def test_every_method_runs_on_the_device_in_parts(name: str, tmp_path: Path) -> None:
    data: Any = registry(rows_for(name))
    expected, link, _ = in_parts(tmp_path, data, name, name="host", cell_rows=rows_for(name) // 2)
    with fake_cupy():
        found, its_link, manifest = in_parts(
            tmp_path, data, name, name="device", cell_rows=rows_for(name) // 2, backend="cupy"
        )
    assert manifest["backend"] == "cupy"
    assert_same_release(found, expected)
    assert np.array_equal(its_link, link)


@pytest.mark.parametrize(("gigabytes", "columns", "rows"), [(40, 10, 3_200_000), (8, 10, 3_200_000), (2, 10, 1_600_000),
                                                            (2, 200, 100_000), (1, 2000, 3125)])  # fmt: skip
def test_cells_are_as_large_as_the_memory_allows(gigabytes: int, columns: int, rows: int) -> None:
    assert usual_cell_rows(choose("numpy"), columns) == 100_000
    with fake_cupy(total_memory=gigabytes << 30, free_memory=1 << 20):  # not by what happens to be free
        assert usual_cell_rows(choose("cupy"), columns) == rows
    with fake_cupy(total_memory=40 << 30, pool_limit=gigabytes << 30):
        assert usual_cell_rows(choose("cupy"), columns) == rows


@pytest.mark.usefixtures("brief_refinement")
def test_a_run_in_parts_takes_the_cells_of_its_device(tmp_path: Path) -> None:
    with fake_cupy(total_memory=40 << 30):
        _, _, manifest = in_parts(tmp_path, registry(160), "noise", name="device", cell_rows=None, backend="cupy")
    assert manifest["cell_rows"] == 3_200_000
    _, _, manifest = in_parts(tmp_path, registry(160), "noise", name="host", cell_rows=None)
    assert manifest["cell_rows"] == 100_000


def test_these_run_on_the_cpu_only() -> None:
    parts = {MASKS[name].get("groups", MASKS[name]["method"]) for name in ON_THE_CPU_ONLY}
    synthesis = {"sequential-synthesis", "table-synthesis"}
    assert parts == {"fuzzy", "spanning-tree", "v-mdav", "k-ward", "constrained-k-means"} | synthesis


@pytest.mark.parametrize("name", sorted(ON_THE_CPU_ONLY))
def test_what_runs_on_the_cpu_only_is_refused_before_anything_is_copied(name: str) -> None:
    with fake_cupy() as cp:
        with pytest.raises(BackendError, match=r"runs on the CPU only, and the backend is cupy\nHint: --backend numpy"):
            gpuanon.protect(registry(40), recipe(name), rng=7, backend="cupy")
        assert not cp.transfers.uploads
        assert not cp.transfers.downloads


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_every_method_runs_on_a_real_device(name: str) -> None:
    real_device()
    data: Any = registry(2000)
    expected = gpuanon.protect(data, recipe(name), rng=7, backend="numpy")
    found = gpuanon.protect(data, recipe(name), rng=7, backend="cupy")
    assert_same_release(found.data, expected.data)
    assert np.array_equal(found.link, expected.link)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ON_THE_DEVICE)
def test_every_method_runs_on_a_real_device_in_parts(name: str, tmp_path: Path) -> None:
    real_device()
    expected, link, _ = in_parts(tmp_path, registry(2000), name, name="host", cell_rows=1000)
    found, its_link, _ = in_parts(tmp_path, registry(2000), name, name="device", cell_rows=1000, backend="cupy")
    assert_same_release(found, expected)
    assert np.array_equal(its_link, link)
