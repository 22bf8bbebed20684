"""Stores: memory and a folder of files hold rows alike; and what files alone have to stand."""

from __future__ import annotations

from itertools import chain

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.engine.store import RECORD, FolderStore, MemoryPart, MemoryStore, StoredPart
from gpuanon.engine.store.shuffle import collect, scatter
from gpuanon.engine.store.workspace import Workspace
from gpuanon.errors import OutputError
from gpuanon.tables.rows import ADDED, Rows
from gpuanon.tables.table import Table
from tests.support.every import registry
from tests.support.running import KEY


@pytest.fixture(params=["memory", "folder"])
def store(request, tmp_path):
    if request.param == "memory":
        return MemoryStore()
    return FolderStore(Workspace.begin(tmp_path / "work", {"run": "one", "key": "digest"}, resume=False, force=False))


def rows_of(count, first=0):
    return Rows(Table.of(registry(count)), np.arange(first, first + count))


def values(rows):
    """Record numbers and all cells, in the order of the rows."""
    return rows.records.tolist(), rows.table.to_arrow().to_pylist()


def expected(pieces):
    """The same of several rows, one after the other."""
    return [list(chain(*found)) for found in zip(*map(values, pieces), strict=True)]


def test_rows_reach_their_destination_in_order(store):
    one, other = rows_of(500), rows_of(300, first=500)
    random = np.random.default_rng(0)
    where, there = random.integers(0, 9, 500), random.integers(0, 9, 300)
    counts = store.put("a", one, where)
    assert counts == {place: int(count) for place, count in enumerate(np.bincount(where)) if count}
    store.put("b", other, there)
    wanted = [part.take(np.flatnonzero(at == 5)) for part, at in ((one, where), (other, there))]
    assert list(values(store.get(["a", "b"], [5]))) == expected(wanted)
    both = store.get(["a", "b"], [2, 5]).sorted()
    wanted = [part.take(np.flatnonzero(np.isin(at, [2, 5]))) for part, at in ((one, where), (other, there))]
    assert list(values(both)) == expected(wanted)
    assert both.table.to_arrow().schema.equals(one.table.to_arrow().schema)


def test_a_destination_without_rows_has_the_columns(store):
    rows = rows_of(40)
    store.put("a", rows, np.zeros(40, np.int64))
    found = store.get(["a"], [77])
    assert len(found) == 0
    assert found.table.names == rows.table.names
    assert found.table.to_arrow().schema.equals(rows.table.to_arrow().schema)


def test_no_rows_can_be_put_and_collected(store):
    nothing = rows_of(40).take(np.empty(0, np.int64))
    assert store.put("a", nothing, np.empty(0, np.int64)) == {}
    found = store.get(["a"], [0])
    assert len(found) == 0
    assert found.table.names == nothing.table.names


def test_only_wanted_records_are_collected(store):
    rows = rows_of(200)
    store.put("a", rows, np.arange(200) % 2)
    found = store.get(["a"], [1], lambda records: records % 3 == 0)
    assert list(values(found)) == list(values(rows.take(np.arange(3, 200, 6))))


def test_rows_put_again_under_a_name_take_the_place_of_the_first(store):
    store.put("a", rows_of(30), np.zeros(30, np.int64))
    store.put("a", rows_of(20), np.zeros(20, np.int64))
    assert len(store.get(["a"], [0])) == 20


def test_what_is_forgotten_is_gone_and_may_be_forgotten_again(store):
    store.put("a", rows_of(30), np.zeros(30, np.int64))
    store.forget(["a", "never there"])
    store.forget(["a"])
    assert store.size(["a"]) == 0
    with pytest.raises((KeyError, OutputError, OSError)):
        store.get(["a"], [0])


def test_release_parts_keep_their_rows_order_and_origin(store):
    rows = rows_of(50)
    rows = Rows(rows.table, np.where(rows.records % 5 == 0, ADDED + rows.records, rows.records))
    order = np.random.default_rng(1).permutation(50)
    assert store.release(0, rows.take(order)) == 50
    assert store.release(3, rows.take(order[:7])) == 7
    assert store.released(0).to_arrow().to_pylist() == rows.table.take(order).to_arrow().to_pylist()
    assert store.released(0, ["age", "sex"]).names == ("age", "sex")
    assert store.origin(0).tolist() == [-1 if record % 5 == 0 else record for record in order]
    assert len(store.origin(3)) == 7


def test_a_stored_part_reads_what_a_cell_left(store):
    rows = rows_of(60)
    store.put("masked", rows, np.zeros(60, np.int64))
    part = StoredPart(store, "masked", 60)
    assert list(values(part.read())) == list(values(rows))
    assert part.read(["cost", "age"]).table.names == ("cost", "age")
    whole = MemoryPart(rows.table)
    assert (whole.rows, list(values(whole.read()))) == (60, list(values(rows)))


def test_a_task_that_is_done_once_gives_its_result_again(store):
    done = []

    def task():
        done.append(1)
        return {"rows": 7}

    assert store.once("task", task) == store.once("task", task) == {"rows": 7}
    assert len(done) == (2 if isinstance(store, MemoryStore) else 1)  # memory is not resumed


def test_record_numbers_beyond_a_floats_reach_keep_apart(store):
    records = np.arange(2**53, 2**53 + 1000)
    rows = Rows(Table.of(pa.table({"x": np.arange(1000)})), records)
    store.put("a", rows, np.zeros(1000, np.int64))
    assert np.array_equal(store.get(["a"], [0]).records, records)
    assert len(np.unique(KEY.draws(records, "x").uniform())) == 1000


def test_the_column_of_record_numbers_never_leaves(store):
    store.put("a", rows_of(20), np.zeros(20, np.int64))
    rows = store.get(["a"], [0])
    store.release(0, rows)
    assert RECORD not in rows.table.names
    assert RECORD not in store.released(0).names


# Files only.


def test_a_damaged_file_of_the_workspace_is_named(tmp_path):
    scatter(pa.table({"x": np.arange(100)}), np.zeros(100, np.int64), tmp_path / "a.arrow")
    (tmp_path / "a.arrow").write_bytes((tmp_path / "a.arrow").read_bytes()[:-20])
    with pytest.raises(OutputError, match=r"a\.arrow: is damaged"):
        collect([tmp_path / "a.arrow"], [0])


def test_rows_outlive_the_map_and_the_file_they_come_from(tmp_path):
    scatter(pa.table({"x": np.arange(100_000)}), np.zeros(100_000, np.int64), tmp_path / "a.arrow")
    rows = collect([tmp_path / "a.arrow"], [0])
    (tmp_path / "a.arrow").unlink()
    assert rows["x"].to_pylist() == list(range(100_000))


def test_files_keep_the_types_of_a_table(tmp_path):
    table = registry(500)
    where = np.random.default_rng(0).integers(0, 9, 500)
    scatter(table, where, tmp_path / "a.arrow")
    scatter(table, where, tmp_path / "b.arrow")
    both = collect([tmp_path / "a.arrow", tmp_path / "b.arrow"], [2, 5])
    rows = table.filter(pa.array(np.isin(where, [2, 5])))
    assert sorted(both.slice(0, rows.num_rows)["person_id"].to_pylist()) == sorted(rows["person_id"].to_pylist())
    assert both.schema.equals(table.schema)
    assert collect([tmp_path / "a.arrow"], [77]).num_rows == 0
