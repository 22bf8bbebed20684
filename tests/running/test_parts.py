"""A table in parts: the same release whatever the parts, the interruptions and the order of the tasks."""

from __future__ import annotations

import os
import resource
from contextlib import suppress

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.arrays.backend import choose
from gpuanon.arrays.rng import Key
from gpuanon.errors import GpuanonError, GuaranteeError, InputError, OutputError
from gpuanon.numerics.cut_tree import grow
from gpuanon.recipe import Recipe
from gpuanon.running.exchange import collect, scatter
from gpuanon.running.part_files import protect_in_parts, work_path
from gpuanon.running.parts import in_turn, protect_parts
from gpuanon.running.sources import parquet_parts
from gpuanon.running.stages import RECORD, CellResult, Cells, records_of
from gpuanon.running.workspace import Workspace
from gpuanon.tables.files import io
from tests.support.every import MASKS, recipe, registry

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
    from gpuanon.running import dask

    with pytest.raises(GpuanonError, match="no Dask cluster"):
        dask.protect(tmp_path, recipe("permute"), tmp_path / "release")


def written(tmp_path, tables, name="input"):
    folder = tmp_path / name
    folder.mkdir()
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{number}.parquet")
    return folder


def protected(source, output, mask, **options):
    options = {"key": KEY, "backend": "numpy", "cell_rows": 200, **options}
    return protect_in_parts(source, Recipe.load(mask if isinstance(mask, dict) else recipe(mask)), output, **options)


def test_row_groups_are_put_together_and_divided(tmp_path):
    table = pa.table({"x": np.arange(1000)})
    pq.write_table(table.slice(0, 700), tmp_path / "0.parquet", row_group_size=700)
    pq.write_table(table.slice(700), tmp_path / "1.parquet", row_group_size=60)
    pq.write_table(table.slice(0, 0), tmp_path / "2.parquet")
    parts = parquet_parts(tmp_path, rows=150)
    assert [part.rows for part in parts] == [140] * 5 + [120, 120, 60]
    rows = pa.concat_tables([part.read() for part in parts])
    assert rows["x"].to_pylist() == list(range(1000))
    assert rows[RECORD].to_pylist() == list(range(1000))
    assert rows.schema.field(RECORD).type == pa.int64()


def test_wide_rows_make_smaller_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuanon.running.sources.PART_BYTES", 8 * 4 * 100)
    pq.write_table(pa.table({name: np.arange(1000) for name in "abcd"}), tmp_path / "0.parquet")
    assert max(part.rows for part in parquet_parts(tmp_path)) <= 100


def test_a_table_in_one_row_group_is_the_same_table(tmp_path):
    table = registry(600)
    pq.write_table(table, tmp_path / "registry.parquet")
    loaded, release = Recipe.load(recipe("permute")), tmp_path / "release"
    release.mkdir()
    workspace = Workspace.begin(tmp_path / "work", {}, resume=False, force=False)
    parts = parquet_parts(tmp_path / "registry.parquet", rows=100)
    assert len(parts) == 6
    protect_parts(parts, loaded, KEY, choose("numpy"), workspace, release, cell_rows=10**9)
    assert pq.read_table(release).equals(gpuanon.protect(table, loaded, rng=KEY, backend="numpy").data)


def test_hidden_files_and_hidden_columns_are_no_part_of_the_table(tmp_path):
    table = registry(300)
    source = written(tmp_path, [table.append_column("__index_level_0__", pa.array(range(300)))])
    pq.write_table(table, source / ".1.parquet")
    pq.write_table(table, source / "_2.parquet")
    manifest = protected(source, tmp_path / "release", "permute")
    assert manifest["rows_in"] == 300
    assert pq.read_table(tmp_path / "release").column_names == table.drop_columns(["person_id"]).column_names


def test_parts_may_have_dictionaries_of_their_own(tmp_path):
    table = registry(600).append_column("region two", registry(600)["region"])
    tables = []
    for part in (table.slice(0, 300), table.slice(300)):
        for name in ("sex", "region", "education", "diagnosis"):
            at = part.column_names.index(name)
            type_ = part.schema.field(name).type
            values = part[name].combine_chunks().cast(pa.string())
            own = values.dictionary_encode()
            column = pa.DictionaryArray.from_arrays(own.indices, own.dictionary, ordered=type_.ordered)
            part = part.set_column(at, name, column)
        tables.append(part)
    assert tables[0]["education"].chunk(0).dictionary != tables[1]["education"].chunk(0).dictionary
    source = written(tmp_path, tables)
    protected(source, tmp_path / "release", "microaggregation", cell_rows=10**9)
    expected = gpuanon.protect(io.read(source), recipe("microaggregation"), rng=KEY, backend="numpy").data
    assert as_rows(pq.read_table(tmp_path / "release")).equals(as_rows(expected))


def test_parts_with_other_columns_are_refused_by_name(tmp_path):
    table = registry(300)
    source = written(tmp_path, [table, table.set_column(1, "age", table["age"].cast(pa.int32()))])
    with pytest.raises(InputError, match=r"1\.parquet: has other columns or types"):
        protected(source, tmp_path / "release", "permute")


def test_a_part_without_values_is_a_part(tmp_path):
    table = registry(600)
    empty = table.slice(300).set_column(
        table.column_names.index("income"), "income", pa.nulls(300, table.schema.field("income").type)
    )
    source = written(tmp_path, [table.slice(0, 300), empty])
    protected(source, tmp_path / "release", "microaggregation", cell_rows=10**9)
    expected = gpuanon.protect(io.read(source), recipe("microaggregation"), rng=KEY, backend="numpy").data
    assert as_rows(pq.read_table(tmp_path / "release")).equals(as_rows(expected))


def test_values_that_no_mask_needs_are_checked_too(tmp_path):
    table = registry(300).append_column("w", pa.array([-1.0] + [1.0] * 299))
    columns = recipe("permute")["columns"] | {"w": {"role": "weight"}}
    with pytest.raises(InputError, match="'w'"):
        protected(written(tmp_path, [table]), tmp_path / "release", recipe("permute") | {"columns": columns})


def test_equal_rows_are_divided_at_random(tmp_path):
    table = pa.table({"x": np.repeat([0.0, 1.0], [1900, 100]), "y": np.arange(2000)})
    rules = {
        "columns": {"x": {"role": "quasi"}, "y": {"role": "other"}},
        "mask": [{"method": "microaggregation", "k": 5}],
    }
    seen = []

    def watching(task, items):
        results = in_turn(task, items)
        seen.extend(result.rows for result in results if isinstance(result, CellResult))
        return results

    protected(written(tmp_path, [table]), tmp_path / "release", rules, cell_rows=200, runner=watching)
    assert len(seen) >= 9
    assert max(seen) < 400
    assert sum(seen) == 2000
    released = pq.read_table(tmp_path / "release")
    assert sorted(released["y"].to_pylist()) == list(range(2000))
    assert sorted(released["x"].to_pylist()) == sorted(table["x"].to_pylist())


def test_files_are_removed_when_no_task_needs_them(tmp_path):
    masks = [MASKS["microaggregation"] | {"columns": ["age", "income"]}, MASKS["permute"] | {"columns": ["sex"]}]
    source = written(tmp_path, [registry(600)])
    output, most = tmp_path / "release", 0

    def watching(task, items):
        nonlocal most
        results = in_turn(task, items)
        kinds = {file.name.split("-0000")[0] for file in work_path(output).glob("*.arrow")}
        most = max(most, len(kinds))
        return results

    protected(source, output, recipe("permute") | {"mask": masks}, runner=watching)
    assert most == 2
    assert not work_path(output).exists()


def test_what_a_second_try_would_meet_again_leaves_no_personal_data(tmp_path):
    source = written(tmp_path, [registry(300)])
    with pytest.raises(InputError):
        protected(source, tmp_path / "release", recipe("permute", nulls="refuse"))
    with pytest.raises(GpuanonError, match="limits"):
        protected(source, tmp_path / "release", recipe("permute") | {"limits": {"uniqueness": 0.5}})

    def stopping(task, items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protected(source, tmp_path / "release", "permute", runner=stopping, resumable=False)
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


def test_an_input_that_changes_during_the_run_is_refused(tmp_path):
    source = written(tmp_path, [registry(300)])

    def meddling(task, items):
        results = in_turn(task, items)
        os.utime(source / "0.parquet", ns=(1, 1))
        return results

    with pytest.raises(InputError, match="was changed"):
        protected(source, tmp_path / "release", "permute", runner=meddling)
    assert not (tmp_path / "release").exists()


def test_a_row_that_is_lost_on_the_way_ends_the_run(tmp_path):
    def losing(task, items):
        results = in_turn(task, items)
        if isinstance(results[0], dict) and all(isinstance(cell, int) for cell in results[0]):
            results[0][next(iter(results[0]))] -= 1
        return results

    with pytest.raises(GuaranteeError, match="300 rows went in and 299 came out"):
        protected(written(tmp_path, [registry(300)]), tmp_path / "release", "permute", runner=losing)


def test_a_damaged_page_of_the_input_is_named_without_its_content(tmp_path):
    source = written(tmp_path, [registry(300)])
    content = bytearray((source / "0.parquet").read_bytes())
    content[60:900] = bytes(840)
    (source / "0.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"0\.parquet: is not a whole parquet file"):
        protected(source, tmp_path / "release", "permute")


def test_a_full_disk_ends_clean_and_the_run_can_be_resumed(tmp_path):
    source, output = written(tmp_path, [registry(600)]), tmp_path / "release"
    protected(source, tmp_path / "expected", "permute")
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, limit[1]))  # Python turns the signal into EFBIG
    try:
        with pytest.raises(OutputError, match=r"could not go on there \(File too large\)[\s\S]*--resume"):
            protected(source, output, "permute")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert {path.name for path in tmp_path.iterdir()} == {
        "input", "expected", "expected.manifest.json", work_path(output).name
    }  # fmt: skip
    protected(source, output, "permute", resume=True)
    assert pq.read_table(output).equals(pq.read_table(tmp_path / "expected"))


def test_a_damaged_file_of_the_workspace_is_named(tmp_path):
    scatter(pa.table({"x": np.arange(100)}), np.zeros(100, np.int64), tmp_path / "a.arrow")
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-20])
    with pytest.raises(OutputError, match=r"a\.arrow: is damaged"):
        collect([tmp_path / "a.arrow"], [0])


def test_a_workspace_that_others_may_enter_is_not_taken_up(tmp_path):
    Workspace.begin(tmp_path / "w", {}, resume=False, force=False)
    (tmp_path / "w").chmod(0o755)
    with pytest.raises(OutputError, match="others may enter"):
        Workspace.begin(tmp_path / "w", {}, resume=True, force=False)


def test_files_of_a_run_are_private_and_those_of_the_release_are_not(tmp_path):
    source, output = written(tmp_path, [registry(300)]), tmp_path / "release"
    modes = {}

    def watching(task, items):
        results = in_turn(task, items)
        modes.update({file.name: file.stat().st_mode & 0o777 for file in work_path(output).glob("*") if file.is_file()})
        return results

    old = os.umask(0o022)
    try:
        protected(source, output, "permute", runner=watching)
    finally:
        os.umask(old)
    assert any(name.endswith(".arrow") for name in modes)
    assert set(modes.values()) == {0o600}
    assert {file.stat().st_mode & 0o777 for file in output.iterdir()} == {0o644}


def test_rows_outlive_the_map_and_the_file_they_come_from(tmp_path):
    scatter(pa.table({"x": np.arange(100_000)}), np.zeros(100_000, np.int64), tmp_path / "a.arrow")
    rows = collect([tmp_path / "a.arrow"], [0])
    (tmp_path / "a.arrow").unlink()
    assert rows["x"].to_pylist() == list(range(100_000))


def test_record_numbers_beyond_a_floats_reach_keep_apart(tmp_path):
    records = np.arange(2**53, 2**53 + 1000)
    rows = pa.table({RECORD: records})
    scatter(rows, np.zeros(1000, np.int64), tmp_path / "a.arrow")
    assert np.array_equal(records_of(collect([tmp_path / "a.arrow"], [0])), records)
    assert len(np.unique(KEY.draws(records, "x").uniform())) == 1000


def test_what_dask_may_log_holds_no_values():
    tree = grow(np.random.default_rng(0).normal(size=(100, 2)), 4)
    assert repr(Cells(tree, 4)) == "Cells(tree=CutTree(4 cells), count=4)"
