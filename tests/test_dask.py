"""Runs on real Dask workers: the same release as in this process, also when workers die."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.engine import dask as on_dask
from gpuanon.engine.part_files import protect_in_parts, work_path
from gpuanon.errors import GpuanonError, InputError, OutputError
from gpuanon.recipe import Recipe
from tests.every import recipe, registry

pytestmark = [
    pytest.mark.slow,
    # Closing a cluster whose worker was killed leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEY = Key(b"a key for tests, of sixteen bytes or more")


@pytest.fixture(scope="module")
def client():
    with on_dask.cluster("local", 2) as started:
        yield started


@pytest.fixture(scope="module")
def table():
    return registry(1200)


@pytest.fixture(scope="module")
def source(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("registry")
    for number in range(4):
        pq.write_table(table.slice(300 * number, 300), folder / f"{number}.parquet")
    return folder


@pytest.fixture(scope="module")
def expected(source, tmp_path_factory):
    output = tmp_path_factory.mktemp("expected") / "release"
    protect_in_parts(source, Recipe.load(recipe("gaussian")), output, key=KEY, backend="numpy", cell_rows=300)
    return pq.read_table(output)


def protect(client, source, output, **options):
    return on_dask.protect(
        source, recipe("gaussian"), output, client=client, rng=KEY, backend="numpy", cell=300, **options
    )


def test_workers_give_the_release_of_one_process(client, source, expected, tmp_path):
    manifest = protect(client, source, tmp_path / "release")
    assert pq.read_table(tmp_path / "release").equals(expected)
    assert manifest["guarantee"]["verified"] is True
    assert {path.name for path in tmp_path.iterdir()} == {"release", "release.manifest.json"}


def test_one_file_instead_of_parts(client, source, expected, tmp_path):
    protect(client, source, tmp_path / "release.parquet")
    assert pq.read_table(tmp_path / "release.parquet").equals(expected)


def test_a_dask_dataframe_goes_in_and_comes_out(client, table, tmp_path):
    import dask.dataframe as dd

    frame = dd.from_pandas(table.select(["age", "visits", "bmi", "cost"]).to_pandas(), npartitions=3)
    columns = {"age": {"role": "quasi"}, "visits": {"role": "quasi"}, "bmi": {"role": "quasi"}}
    rules = {"columns": columns, "mask": [{"method": "microaggregation", "k": 5}]}
    released = on_dask.protect(frame, rules, client=client, rng=KEY, scratch=tmp_path).compute()
    assert released.groupby(list(columns)).size().min() >= 5
    assert sorted(released["cost"]) == sorted(table["cost"].to_pylist())
    assert not list(tmp_path.glob(".*"))


def test_an_error_on_a_worker_is_the_users_error_and_leaves_nothing_in_place(client, source, tmp_path):
    rules = recipe("gaussian", nulls="refuse")
    with pytest.raises(InputError, match="income"):
        on_dask.protect(source, rules, tmp_path / "release", client=client, rng=KEY, cell=300)
    assert not (tmp_path / "release").exists()


def test_a_corrupt_part_is_named(client, source, tmp_path):
    broken = tmp_path / "input"
    broken.mkdir()
    for file in source.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    (broken / "2.parquet").write_bytes(b"PAR1" + b"\0" * 100 + b"PAR1")
    with pytest.raises(GpuanonError, match=r"2\.parquet"):
        protect(client, broken, tmp_path / "release")
    assert not (tmp_path / "release").exists()


@pytest.mark.parametrize("delay", [0.3, 0.9, 1.8])
def test_a_killed_worker_costs_time_not_rows(source, expected, tmp_path, delay):
    with on_dask.cluster("local", 2) as client:
        workers = list(client.run(os.getpid).values())
        killer = threading.Thread(target=lambda: (time.sleep(delay), os.kill(workers[0], signal.SIGKILL)))
        killer.start()
        protect(client, source, tmp_path / "release")
        killer.join()
    assert pq.read_table(tmp_path / "release").equals(expected)


def test_an_interrupted_run_waits_for_its_resumption(client, source, expected, tmp_path):
    output = tmp_path / "release"
    calls = 0

    def failing(task, items):
        nonlocal calls
        calls += 1
        if calls == 3:
            raise KeyboardInterrupt
        return on_dask.OnWorkers(client)(task, items)

    loaded = Recipe.load(recipe("gaussian"))
    options = {"key": KEY, "backend": "numpy", "cell_rows": 300}
    with pytest.raises(KeyboardInterrupt):
        protect_in_parts(source, loaded, output, runner=failing, **options)
    assert not output.exists()
    assert work_path(output).exists()
    with pytest.raises(OutputError, match="--resume"):
        protect_in_parts(source, loaded, output, **options)
    with pytest.raises(InputError, match="another recipe, input, key"):
        protect_in_parts(source, loaded, output, **options | {"cell_rows": 301, "resume": True})
    protect_in_parts(source, loaded, output, resume=True, **options)
    assert pq.read_table(output).equals(expected)
    assert not work_path(output).exists()


def test_other_formats_are_read_piece_by_piece(client, table, tmp_path):

    plain = table.select(["age", "visits", "cost"])
    pa.csv.write_csv(plain, tmp_path / "registry.csv")
    rules = {
        "columns": {"age": {"role": "quasi"}, "visits": {"role": "quasi"}},
        "mask": [{"method": "distribution-preserving", "dither": "permute", "k": 5}],
    }
    on_dask.protect(tmp_path / "registry.csv", rules, tmp_path / "release.csv", client=client, rng=KEY, cell=300)
    released = pa.csv.read_csv(tmp_path / "release.csv")
    for name in plain.column_names:
        assert sorted(released[name].to_pylist()) == sorted(plain[name].to_pylist())


def test_the_key_is_in_no_file_of_the_run(source, tmp_path):
    output = tmp_path / "release"

    def stopping(task, items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_in_parts(source, Recipe.load(recipe("permute")), output, key=KEY, backend="numpy", runner=stopping)
    files = [path for path in work_path(output).rglob("*") if path.is_file()]
    assert files
    assert not any(b"a key for tests" in file.read_bytes() for file in files)


def test_a_cluster_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(GpuanonError, match=r"gpuanon\[hpc\]"), on_dask.cluster("slurm", 1):
        pass


def test_public_name_is_reachable():
    assert gpuanon.engine.dask.protect is on_dask.protect
