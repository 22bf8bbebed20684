"""The benchmarks cover every kernel and every method, and their tables and plots come from the stored results."""

from __future__ import annotations

import ast
import importlib
import json
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.mdav.mdav_models import Mdav
from gpuanon.masking.groups.refine.neighbours import neighbours
from gpuanon.masking.groups.univariate import optimal_univariate
from gpuanon.masking.methods import METHODS
from gpuanon.masking.operations.dither.empirical import conditional_inverse
from gpuanon.numerics.cuts.median_blocks import blocks

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "bench"

KERNELS = {
    "affinity": "test_affinity_product",
    "cuts": "test_blocks",
    "distance": "test_k_nearest",
    "empirical_inverse": "test_empirical_inverse",
    "kernel_pca": "test_kernel_components",
    "kmember": "test_greedy_groups_in_blocks",
    "mdav": "test_greedy_groups_in_blocks",
    "random": "test_normal_draws",
    "refine": "test_exchanges",
    "refine_cells": "test_exchanges",
    "refine_neighbours": "test_neighbours_of_groups",
    "rosenblatt": "test_rosenblatt",
    "segment": "test_segment_sums",
    "univariate": "test_optimal_groups_of_a_column",
}
"""The benchmark of each file of kernels."""


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module of bench/ by name; its folder is where they look for each other."""
    monkeypatch.syspath_prepend(str(BENCH))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def ways_of_benchmarks() -> dict[str, list[str]]:
    """The ways that each benchmark is run in, from its decorators."""
    found = {}
    for path in BENCH.glob("test_*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                calls = [item for item in node.decorator_list if isinstance(item, ast.Call)]
                named = [call for call in calls if getattr(call.func, "id", "") == "ways"]
                found[node.name] = [str(word.value) for call in named for word in call.args]  # type: ignore[attr-defined]
    return found


def test_every_file_of_kernels_has_a_benchmark_on_the_host_and_on_a_device() -> None:
    assert set(KERNELS) == {path.stem for path in (ROOT / "kernels").glob("*.cu")}
    ways = ways_of_benchmarks()
    for name in KERNELS.values():
        assert {"numpy", "cupy"} <= set(ways[name]), name


def test_every_method_has_a_benchmark(bench: Any) -> None:
    families = bench("bench_families")
    measured = {mask.get("method") for mask in families.MASKS.values()}
    assert set(METHODS) == measured - {None}


def test_the_exponent_is_that_of_the_large_sizes(bench: Any) -> None:
    pictures = bench("pictures")
    rows = [1_000, 100_000, 1_000_000, 10_000_000]
    assert pictures.exponent(rows, [5.0, *(1e-9 * n**1.25 for n in rows[1:])]) == pytest.approx(1.25)
    assert pictures.exponent(rows[:2], [1.0, 2.0]) is None  # one size is no slope
    assert pictures.exponent([100_000, 200_000], [1.0, 2.0]) is None  # nor are two that are near


def point(group: str, way: str, rows: int, columns: int = 4) -> dict[str, Any]:
    figures = {"group": group, "way": way, "rows": rows, "columns": columns, "quality": {"loss %": 1e6 / rows}}
    return figures | {"seconds": rows * 1e-6, "processor_seconds": rows * 1e-6}


def test_a_family_has_a_picture_of_its_ways_and_one_of_its_methods(bench: Any, tmp_path: Path) -> None:
    sizes = (100_000, 1_000_000)
    some = [point(f"groups: {name}", way, n) for name in "ab" for way in ("numpy", "compiled") for n in sizes]
    assert bench("pictures").draw("groups", some, tmp_path) == ["groups.png", "groups-4-columns.png"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("groups.png", "groups-4-columns.png"))
    assert bench("pictures").draw("groups", some[:1], tmp_path) == []  # one size


def test_a_thing_that_has_more_columns_at_more_rows_is_one_curve(bench: Any) -> None:
    curves = bench("pictures").curves
    grown = [point("protect: a", "numpy", 1_000, 8), point("protect: a", "numpy", 9_000, 10)]
    assert list(curves(grown)) == [("protect: a", 8)]
    by_columns = [point("groups: by columns", "numpy", 1_000, d) for d in (5, 20)]
    assert curves(by_columns) == {}


def test_of_two_runs_the_newest_counts(bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figures = bench("figures")
    monkeypatch.setattr(figures, "RESULTS", tmp_path)
    for name, day, seconds in (("bench-full", "2026-01-01", 9.0), ("bench", "2026-02-01", 5.0)):
        info = {"rows": 10, "columns": 2, "way": "numpy", "load": 1.0, "processor_seconds": seconds, "quality": {}}
        one = {"group": "kernel: a", "stats": {"min": seconds}, "extra_info": info}
        (tmp_path / f"{name}.json").write_text(json.dumps({"datetime": day, "benchmarks": [one]}))
    assert [one["seconds"] for one in figures.benchmarks()] == [5.0]


def test_the_tables_of_the_readme_are_those_of_the_stored_results(bench: Any) -> None:
    figures = bench("figures")
    text = (BENCH / "README.md").read_text()
    found, _, plots = figures.section(figures.benchmarks(), []).partition("**Plots**")
    assert plots
    assert found in text, "run make bench-figures"


def test_naive_versions_compute_what_they_are_compared_with(bench: Any) -> None:
    """A speed-up over something else would be none."""
    naive, frame = bench("naive"), bench("frame")
    X = frame.normals(1203, 6)
    whole, draws = Partition.whole(len(X)), Key(b"a test's key is no secret").draws(np.arange(len(X)))
    for labels, model in ((naive.naive_mdav(X, 5), Mdav), (naive.naive_kmember(X, 5), KMember)):
        formed = model(k=5, block=0, refine=False).form(X, draws)
        assert frame.loss_of(X, Partition.from_labels(labels)) == pytest.approx(frame.loss_of(X, formed), rel=1e-9)
    best = Partition.from_labels(naive.naive_optimal(X[:, 0], 5))
    assert frame.loss_of(X[:, :1], best) == pytest.approx(frame.loss_of(X[:, :1], optimal_univariate(X[:, 0], 5)))
    rough, u = X[:, :3].round(1), np.random.default_rng(0).random((len(X), 3))
    parts = blocks(rough, whole, 300)
    rows = conditional_inverse(u, rough, parts)
    np.testing.assert_array_equal(naive.naive_inverse(u, rough, parts), rough[rows])
    places, cells = np.rint(1e5 * X).astype(np.int32), blocks(X, whole, 128)
    same = naive.naive_neighbours(places, cells, 8) == neighbours(places, cells, 8)
    assert same.mean() > 0.99  # distances that are equal to one part in 2^15 count as ties
