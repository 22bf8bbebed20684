"""A table in parts: the same release whatever the parts, the interruptions and the order of the tasks."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.arrays.backend import choose
from gpuanon.arrays.rng import Key
from gpuanon.engine.exchange import collect, scatter
from gpuanon.engine.parts import protect_parts
from gpuanon.engine.sources import parquet_parts
from gpuanon.engine.workspace import Workspace
from gpuanon.errors import GpuanonError, InputError, OutputError
from gpuanon.recipe import Recipe
from tests.every import MASKS, recipe, registry

KEY = Key(b"a key for tests, of sixteen bytes or more")


def run(tmp_path, table, mask, parts=3, cell_rows=10**9, name="run", **options):
    folder = tmp_path / f"{name}-input"
    folder.mkdir()
    for number, rows in enumerate(np.array_split(np.arange(table.num_rows), parts)):
        pq.write_table(table.take(pa.array(rows)), folder / f"{number:03d}.parquet")
    release = tmp_path / f"{name}-release"
    release.mkdir()
    loaded = Recipe.load(mask if isinstance(mask, dict) else recipe(mask))
    workspace = Workspace.begin(tmp_path / f"{name}-work", {}, resume=False, force=False)
    manifest = protect_parts(
        parquet_parts(folder, rows=10**6),
        loaded,
        KEY,
        choose("numpy"),
        workspace,
        release,
        cell_rows=cell_rows,
        **options,
    )
    return pq.read_table(release), manifest


def as_rows(table):
    """The rows in an order of their own."""
    frame = table.to_pandas()
    return frame.sort_values(list(frame.columns), ignore_index=True)


@pytest.mark.parametrize("mask", MASKS)
def test_one_cell_is_the_release_of_the_memory_engine(tmp_path, mask):
    table = registry()
    released, manifest = run(tmp_path, table, mask)
    expected = gpuanon.protect(table, recipe(mask), rng=KEY, backend="numpy")
    assert released.equals(expected.data)
    assert manifest["guarantee"] == expected.manifest["guarantee"]


@pytest.mark.parametrize("mask", ["microaggregation", "gaussian", "permute", "svd-swap", "pica"])
def test_the_number_of_parts_changes_nothing(tmp_path, mask):
    table = registry(600)
    one, manifest = run(tmp_path, table, mask, parts=1, cell_rows=150, name="one")
    five, other = run(tmp_path, table, mask, parts=5, cell_rows=150, name="five")
    assert as_rows(one).equals(as_rows(five))
    assert manifest["mask"] == other["mask"]
    assert one.num_rows == 600


def test_cells_keep_the_guarantee(tmp_path):
    released, manifest = run(tmp_path, registry(900), "microaggregation", cell_rows=100)
    columns = ["age", "sex", "education", "income", "smoker", "admission"]
    assert released.to_pandas().groupby(columns, dropna=False, observed=True).size().min() >= 4
    assert manifest["guarantee"]["smallest_class"] >= 4
    assert manifest["rows_out"] == 900


def test_masks_follow_each_other(tmp_path):
    masks = [MASKS["microaggregation"] | {"columns": ["age", "income"]}, MASKS["permute"] | {"columns": ["sex"]}]
    table = registry()
    chain = recipe("permute") | {"mask": masks}
    released, manifest = run(tmp_path, table, chain)
    expected = gpuanon.protect(table, chain, rng=KEY, backend="numpy")
    assert released.equals(expected.data)
    assert manifest["guarantee"]["statement"].count(";") == 1


class Interrupted(Exception):
    pass


@pytest.mark.parametrize("tasks", range(1, 13))
def test_a_run_that_is_resumed_equals_one_that_was_not(tmp_path, tasks):
    table = registry(600)
    expected, _ = run(tmp_path, table, "gaussian", parts=4, cell_rows=200, name="whole")
    left = tasks

    def failing(task, items):
        nonlocal left
        results = []
        for item in items:
            if left == 0:
                raise Interrupted
            left -= 1
            results.append(task(item))
        return results

    with suppress(Interrupted):  # with enough tasks left it comes to its end
        run(tmp_path, table, "gaussian", parts=4, cell_rows=200, name="broken", runner=failing)
    workspace = Workspace.begin(tmp_path / "broken-work", {}, resume=True, force=False)
    release = tmp_path / "broken-release"
    parts = parquet_parts(tmp_path / "broken-input", rows=10**6)
    protect_parts(parts, Recipe.load(recipe("gaussian")), KEY, choose("numpy"), workspace, release, cell_rows=200)
    assert pq.read_table(release).equals(expected)


def test_a_workspace_of_another_run_is_not_taken_up(tmp_path):
    Workspace.begin(tmp_path / "w", {"recipe": 1}, resume=False, force=False)
    with pytest.raises(OutputError, match="--resume"):
        Workspace.begin(tmp_path / "w", {"recipe": 1}, resume=False, force=False)
    with pytest.raises(InputError, match="another recipe"):
        Workspace.begin(tmp_path / "w", {"recipe": 2}, resume=True, force=False)
    assert Workspace.begin(tmp_path / "w", {"recipe": 1}, resume=True, force=False).folder == tmp_path / "w"
    assert (tmp_path / "w").stat().st_mode & 0o077 == 0


def test_limits_are_refused_in_parts(tmp_path):
    with pytest.raises(GpuanonError, match="limits"):
        run(tmp_path, registry(), recipe("permute") | {"limits": {"uniqueness": 0.5}})


def test_rows_reach_their_destination_in_order(tmp_path):
    table = registry(500)
    where = np.random.default_rng(0).integers(0, 9, 500)
    counts = scatter(table, where, tmp_path / "a.arrow")
    assert counts == {place: int(count) for place, count in enumerate(np.bincount(where)) if count}
    scatter(table, where, tmp_path / "b.arrow")
    both = collect([tmp_path / "a.arrow", tmp_path / "b.arrow"], [2, 5])
    rows = table.filter(pa.array(np.isin(where, [2, 5])))
    first = both.slice(0, rows.num_rows)
    assert sorted(first["person_id"].to_pylist()) == sorted(rows["person_id"].to_pylist())
    assert both.schema.equals(table.schema)
    assert collect([tmp_path / "a.arrow"], [77]).num_rows == 0


def test_without_a_cluster_dask_is_not_started(tmp_path):
    from gpuanon.engine import dask

    with pytest.raises(GpuanonError, match="no Dask cluster"):
        dask.protect(tmp_path, recipe("permute"), tmp_path / "release")
