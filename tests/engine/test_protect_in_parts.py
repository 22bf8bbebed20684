"""A table in parts: the same release whatever the parts, the interruptions and the order of the tasks."""

from __future__ import annotations

import os
import resource
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.engine.outputs import work_path
from gpuanon.engine.protect import protect_in_parts
from gpuanon.engine.sources import parquet_parts
from gpuanon.engine.store.placement import Placing, grow
from gpuanon.engine.store.workspace import Workspace
from gpuanon.engine.tasks import CellResult
from gpuanon.engine.workers import in_turn
from gpuanon.errors import GpuanonError, GuaranteeError, InputError, OutputError
from gpuanon.recipe import Recipe
from gpuanon.tables.formats import io
from gpuanon.tables.registry import make_registry
from gpuanon.tables.table import Table
from tests.support.every import COLUMNS, MASKS, QUASI, recipe, registry
from tests.support.running import (
    KEY,
    Interrupted,
    InterruptedWorkers,
    ShuffledWorkers,
    as_rows,
    in_parts,
    protected,
    read_link,
    written,
)

every_mask = pytest.mark.parametrize("mask", MASKS)
QUICK = ("microaggregation", "gaussian", "svd-swap", "suppress", "synthetic-rows", "mondrian interval", "copula")
some_masks_are_slow = pytest.mark.parametrize(
    "mask", [mask if mask in QUICK else pytest.param(mask, marks=pytest.mark.slow) for mask in MASKS]
)


@pytest.fixture(scope="module")
def in_memory():
    """The release of each mask in memory, made once."""
    made = {}

    def release(mask):
        if mask not in made:
            made[mask] = gpuanon.protect(registry(), recipe(mask), rng=KEY, backend="numpy")
        return made[mask]

    return release


@every_mask
def test_one_cell_is_the_release_in_memory(tmp_path, mask, in_memory):
    released, link, manifest = in_parts(tmp_path, registry(), mask)
    expected = in_memory(mask)
    assert released.equals(expected.data)
    assert np.array_equal(link, expected.link)
    assert manifest["guarantee"] == expected.manifest["guarantee"]
    assert manifest["mask"] == expected.manifest["mask"]
    assert manifest["quasi"] == expected.manifest["quasi"]


@some_masks_are_slow
def test_neither_workers_nor_their_order_change_a_release(tmp_path, mask):
    table = registry(300)
    expected, link, manifest = in_parts(tmp_path, table, mask, name="alone", cell_rows=100)
    for count in (1, 2, 4):
        workers = ShuffledWorkers(count, seed=count)
        found, its_link, its_manifest = in_parts(
            tmp_path, table, mask, name=f"{count}", parts=4, cell_rows=100, workers=workers
        )
        assert found.equals(expected)
        assert np.array_equal(its_link, link)
        assert its_manifest["guarantee"] == manifest["guarantee"]
        assert its_manifest["mask"] == manifest["mask"]


@some_masks_are_slow
def test_a_run_that_is_interrupted_at_every_task_comes_to_the_same_end(tmp_path, mask, monkeypatch):
    table = registry(240)
    expected, link, _ = in_parts(tmp_path, table, mask, name="whole", parts=2, cell_rows=120)
    whole_once = Workspace.once
    lost = set()

    def once(self, name, task):
        """Every task is lost the first time after it has written its rows, and before its result is kept."""
        if name not in lost and not (self.folder / f"{name}.result").exists():
            lost.add(name)
            task()
            raise Interrupted
        return whole_once(self, name, task)

    monkeypatch.setattr(Workspace, "once", once)
    resumed = 0
    while True:
        try:
            protected(
                tmp_path / "whole-input", tmp_path / "broken", mask, link=tmp_path / "broken.csv", cell_rows=120,
                resume=resumed > 0,
            )  # fmt: skip
            break
        except Interrupted:
            resumed += 1
    assert resumed == len(lost) >= 8
    assert pq.read_table(tmp_path / "broken").equals(expected)
    assert np.array_equal(read_link(tmp_path / "broken.csv"), link)


@pytest.mark.slow
@pytest.mark.parametrize("mask", ["gaussian", "synthetic-rows", "copula"])
def test_a_run_that_is_interrupted_at_any_task_and_resumed_is_the_same_run(tmp_path, mask):
    table = registry(400)
    counting = InterruptedWorkers(-1)
    expected, link, _ = in_parts(tmp_path, table, mask, name="whole", parts=2, cell_rows=200, workers=counting)
    for tasks in range(counting.done):
        output, linked = tmp_path / f"broken-{tasks}", tmp_path / f"broken-{tasks}.csv"
        with pytest.raises(Interrupted):
            protected(tmp_path / "whole-input", output, mask, workers=InterruptedWorkers(tasks), link=linked)
        assert not list(tmp_path.glob(f"broken-{tasks}*"))
        protected(tmp_path / "whole-input", output, mask, resume=True, link=linked)
        assert pq.read_table(output).equals(expected)
        assert np.array_equal(read_link(linked), link)


def other_hierarchy(tmp_path):
    """A recipe with a hierarchy in a file, and what edits that file: same size, same time, other labels."""
    file = tmp_path / "age.csv"
    file.write_text(Path(COLUMNS["age"]["hierarchy"]).read_text())
    rules = recipe("recode")
    rules |= {"columns": rules["columns"] | {"age": COLUMNS["age"] | {"hierarchy": str(file)}}}

    def edit():
        was = file.stat()
        file.write_text(file.read_text().replace("-", "_"))
        os.utime(file, ns=(was.st_atime_ns, was.st_mtime_ns))

    return rules, edit


def test_a_run_is_not_resumed_with_another_hierarchy(tmp_path):
    source = written(tmp_path, [registry(400)])
    rules, edit = other_hierarchy(tmp_path)
    output = tmp_path / "release.parquet"
    with pytest.raises(Interrupted):
        protected(source, output, rules, workers=InterruptedWorkers(6))
    edit()
    with pytest.raises(InputError, match="another recipe, hierarchy"):
        protected(source, output, rules, resume=True)
    assert not output.exists()
    protected(source, output, rules, force=True)
    assert not any("-" in label for label in pq.read_table(output)["age"].cast(pa.string()).to_pylist() if label)


def test_a_run_is_not_resumed_with_another_reference_or_with_other_rows(tmp_path):
    source = written(tmp_path, [registry(400)])
    output, part = tmp_path / "release.parquet", source / "000.parquet"
    reference = [Table.of(make_registry(100, seed=seed)) for seed in (3, 4)]
    with pytest.raises(Interrupted):
        protected(source, output, "gaussian", workers=InterruptedWorkers(3), reference=reference[0])
    with pytest.raises(InputError, match="reference"):
        protected(source, output, "gaussian", resume=True, reference=reference[1])
    before, was = part.read_bytes(), part.stat()
    part.write_bytes(before[:200] + bytes([before[200] ^ 1]) + before[201:])
    os.utime(part, ns=(was.st_atime_ns, was.st_mtime_ns))
    with pytest.raises(InputError, match="another recipe, hierarchy, input"):
        protected(source, output, "gaussian", resume=True, reference=reference[0])
    part.write_bytes(before)  # the same content at another time
    source = source.rename(tmp_path / "moved")
    assert protected(source, output, "gaussian", resume=True, reference=reference[0])["rows_out"] == 400


def test_a_hierarchy_that_is_edited_during_the_run_ends_it(tmp_path):
    source = written(tmp_path, [registry(400)])
    rules, _ = other_hierarchy(tmp_path)

    def workers(task, items):
        found = in_turn(task, items)
        if not edited:
            edited.append(True)
            file = Path(rules["columns"]["age"]["hierarchy"])
            file.write_text(file.read_text().replace("-", " to "))
        return found

    edited: list[bool] = []
    with pytest.raises(GpuanonError, match="changed while it was read"):
        protected(source, tmp_path / "release.parquet", rules, workers=workers)
    assert not (tmp_path / "release.parquet").exists()


@some_masks_are_slow
def test_the_link_leads_to_the_original_rows(tmp_path, mask):
    table = registry(600)
    released, link, manifest = in_parts(tmp_path, table, mask, cell_rows=150)
    assert len(link) == released.num_rows == manifest["rows_out"]
    kept = link >= 0
    assert len(np.unique(link[kept])) == kept.sum()
    assert manifest["rows_added"] == (~kept).sum()
    assert manifest["rows_dropped"] == 600 - kept.sum()
    original = table.take(pa.array(link[kept]))
    found = released.filter(pa.array(kept))
    columns = MASKS[mask].get("columns", QUASI)
    untouched = set(table.column_names) & set(released.column_names) - set(columns) - {"person_id"}
    assert untouched
    for name in untouched:
        assert found[name].to_pylist() == original[name].to_pylist(), name


def test_a_link_file_is_private_and_all_or_nothing(tmp_path):
    in_parts(tmp_path, registry(), "permute")
    assert (tmp_path / "run-link.csv").stat().st_mode & 0o077 == 0
    with pytest.raises(GuaranteeError):
        in_parts(tmp_path, registry(), recipe("permute", limits={"k_anonymity": 1000}), name="other")
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("other-r", "other-l", ".other"))]


@every_mask
def test_the_number_of_parts_changes_nothing(tmp_path, mask):
    table = registry(600)
    one, _, manifest = in_parts(tmp_path, table, mask, parts=1, cell_rows=150, name="one")
    five, _, other = in_parts(tmp_path, table, mask, parts=5, cell_rows=150, name="five")
    assert one.equals(five)
    assert manifest["mask"] == other["mask"]
    assert one.num_rows == manifest["rows_out"]


def test_cells_keep_the_guarantee(tmp_path):
    released, _, manifest = in_parts(tmp_path, registry(900), "microaggregation", cell_rows=100)
    columns = ["age", "sex", "education", "income", "smoker", "admission"]
    assert released.to_pandas().groupby(columns, dropna=False, observed=True).size().min() >= 4
    assert manifest["guarantee"][0]["smallest_class"] >= 4
    assert manifest["rows_out"] == 900


def test_masks_follow_each_other(tmp_path):
    masks = [MASKS["microaggregation"] | {"columns": ["age", "income"]}, MASKS["permute"] | {"columns": ["sex"]}]
    table = registry()
    chain = recipe(*masks)
    released, _, manifest = in_parts(tmp_path, table, chain)
    expected = gpuanon.protect(table, chain, rng=KEY, backend="numpy")
    assert released.equals(expected.data)
    assert [guarantee["k"] for guarantee in manifest["guarantee"]] == [4, 4]
    assert [guarantee["verified"] for guarantee in manifest["guarantee"]] == [True, True]


def test_what_is_for_clusters_is_refused_without_a_client(tmp_path):
    with pytest.raises(GpuanonError, match="Dask client"):
        gpuanon.protect(tmp_path, recipe("permute"), output=tmp_path / "release")


def test_row_groups_are_put_together_and_divided(tmp_path):
    table = pa.table({"x": np.arange(1000)})
    pq.write_table(table.slice(0, 700), tmp_path / "0.parquet", row_group_size=700)
    pq.write_table(table.slice(700), tmp_path / "1.parquet", row_group_size=60)
    pq.write_table(table.slice(0, 0), tmp_path / "2.parquet")
    parts = parquet_parts(tmp_path, rows=150)
    assert [part.rows for part in parts] == [140] * 5 + [120, 120, 60]
    rows = [part.read() for part in parts]
    assert [value for part in rows for value in part.table.to_arrow()["x"].to_pylist()] == list(range(1000))
    assert np.concatenate([part.records for part in rows]).tolist() == list(range(1000))
    assert all(part.records.dtype == np.int64 for part in rows)


def test_wide_rows_make_smaller_parts(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuanon.engine.sources.PART_BYTES", 8 * 4 * 100)
    pq.write_table(pa.table({name: np.arange(1000) for name in "abcd"}), tmp_path / "0.parquet")
    assert max(part.rows for part in parquet_parts(tmp_path)) <= 100


def test_a_table_in_one_row_group_is_the_same_table(tmp_path, monkeypatch):
    table = registry(600)
    pq.write_table(table, tmp_path / "registry.parquet")
    assert len(parquet_parts(tmp_path / "registry.parquet", rows=100)) == 6
    monkeypatch.setattr("gpuanon.engine.inputs.parquet_parts", lambda path: parquet_parts(path, rows=100))
    protected(tmp_path / "registry.parquet", tmp_path / "release", "permute", cell_rows=10**9)
    expected = gpuanon.protect(table, recipe("permute"), rng=KEY, backend="numpy")
    assert pq.read_table(tmp_path / "release").equals(expected.data)


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
    with pytest.raises(InputError, match=r"001\.parquet: has other columns or types"):
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
        "others": "keep",
        "mask": [{"method": "microaggregation", "k": 5}],
    }
    seen = []

    def watching(task, items):
        results = in_turn(task, items)
        seen.extend(result.rows for result in results if isinstance(result, CellResult))
        return results

    protected(written(tmp_path, [table]), tmp_path / "release", rules, cell_rows=200, workers=watching)
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

    protected(source, output, recipe(*masks), workers=watching)
    assert most == 2
    assert not work_path(output).exists()


def test_what_a_second_try_would_meet_again_leaves_no_personal_data(tmp_path):
    source = written(tmp_path, [registry(300)])
    with pytest.raises(InputError):
        protected(source, tmp_path / "release", recipe("permute", nulls="refuse"))
    with pytest.raises(GuaranteeError, match="limits"):
        protected(source, tmp_path / "release", recipe("permute") | {"limits": {"k_anonymity": 1000}})

    def stopping(task, items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protected(source, tmp_path / "release", "permute", workers=stopping, resumable=False)
    assert [path.name for path in tmp_path.iterdir()] == ["input"]


def test_an_input_that_changes_during_the_run_is_refused(tmp_path):
    source = written(tmp_path, [registry(300)])

    def meddling(task, items):
        results = in_turn(task, items)
        pq.write_table(registry(299), source / "000.parquet")
        return results

    with pytest.raises(InputError, match=r"was changed|holds other rows"):
        protected(source, tmp_path / "release", "permute", workers=meddling)
    assert not (tmp_path / "release").exists()


def test_a_row_that_is_lost_on_the_way_ends_the_run(tmp_path):
    def losing(task, items):
        results = in_turn(task, items)
        if isinstance(results[0], tuple) and isinstance(results[0][0], dict):  # rows for each cell
            results[0][0][next(iter(results[0][0]))] -= 1
        return results

    with pytest.raises(GuaranteeError, match="300 rows went in and 299 came out"):
        protected(written(tmp_path, [registry(300)]), tmp_path / "release", "permute", workers=losing)


def test_a_damaged_page_of_the_input_is_named_without_its_content(tmp_path):
    source = written(tmp_path, [registry(300)])
    content = bytearray((source / "000.parquet").read_bytes())
    content[60:900] = bytes(840)
    (source / "000.parquet").write_bytes(content)
    with pytest.raises(InputError, match=r"000\.parquet: is not a whole parquet file"):
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


def test_a_workspace_that_others_may_enter_is_not_taken_up(tmp_path):
    Workspace.begin(tmp_path / "w", {"run": "one", "key": "digest"}, resume=False, force=False)
    (tmp_path / "w").chmod(0o755)
    with pytest.raises(OutputError, match="others may enter"):
        Workspace.begin(tmp_path / "w", {"run": "one", "key": "digest"}, resume=True, force=False)


def test_files_of_a_run_are_private_and_those_of_the_release_are_not(tmp_path):
    source, output = written(tmp_path, [registry(300)]), tmp_path / "release"
    modes = {}

    def watching(task, items):
        results = in_turn(task, items)
        modes.update({file.name: file.stat().st_mode & 0o777 for file in work_path(output).glob("*") if file.is_file()})
        return results

    old = os.umask(0o022)
    try:
        protected(source, output, "permute", workers=watching)
    finally:
        os.umask(old)
    assert any(name.endswith(".arrow") for name in modes)
    assert set(modes.values()) == {0o600}
    assert {file.stat().st_mode & 0o777 for file in output.iterdir()} == {0o644}


def test_what_dask_may_log_holds_no_values():
    tree = grow(np.random.default_rng(0).normal(size=(100, 2)), 4)
    assert repr(Placing(False, tree, 4)) == "Placing(by_class=False, tree=CutTree(4 cells), count=4, by_person=False)"


@pytest.mark.parametrize("follower", [[], [{"method": "microaggregation", "k": 3}]])
def test_a_cell_of_which_nothing_is_left_is_a_cell(tmp_path, follower):
    table = pa.table({"x": np.concatenate([np.zeros(300, np.int64), np.arange(1, 301)]), "y": np.arange(600)})
    rules = {"columns": {"x": {"role": "quasi"}}, "others": "keep", "mask": [{"method": "suppress", "k": 3}, *follower]}
    seen = []

    def watching(task, items):
        results = in_turn(task, items)
        seen.extend(result.rows for result in results if isinstance(result, CellResult))
        return results

    released, link, manifest = in_parts(tmp_path, table, rules, cell_rows=100, workers=watching)
    assert 0 in seen
    assert sorted(released["y"].to_pylist()) == sorted(link) == list(range(300))
    assert manifest["rows_dropped"] == 300
    expected = gpuanon.protect(table, rules, rng=KEY, backend="numpy")
    assert as_rows(expected.data).equals(as_rows(released))


def test_a_release_without_rows_is_refused_in_memory_and_in_parts(tmp_path):
    table = pa.table({"x": np.arange(600), "y": np.arange(600)})
    rules = {"columns": {"x": {"role": "quasi"}}, "others": "keep", "mask": [{"method": "suppress", "k": 3}]}
    for follower in ([], [{"method": "microaggregation", "k": 3}]):
        chain = rules | {"mask": rules["mask"] + follower}
        with pytest.raises(GuaranteeError, match="no row is left"):
            gpuanon.protect(table, chain, rng=KEY, backend="numpy")
        with pytest.raises(GuaranteeError, match="no row is left"):
            in_parts(tmp_path, table, chain, cell_rows=100)
    assert [path.name for path in tmp_path.iterdir()] == ["run-input"]


@pytest.mark.parametrize("name", ["release.csv", "release.sav"])
def test_a_format_that_cannot_store_a_column_leaves_no_workspace(tmp_path, name):
    """A second try would meet the same: personal data must not wait for it."""
    table = pa.table({"age": list(range(40)), "photo": [b"x"] * 40})
    pq.write_table(table, tmp_path / "input.parquet")
    columns = {"age": {"role": "quasi"}, "photo": {"role": "other"}}
    loaded = Recipe.load({"columns": columns, "mask": [{"method": "microaggregation", "k": 4}]})
    with pytest.raises(OutputError, match="cannot be stored"):
        protect_in_parts(tmp_path / "input.parquet", loaded, tmp_path / name, key=gpuanon.Key(b"0123456789abcdef"))
    assert [path.name for path in tmp_path.iterdir()] == ["input.parquet"]
