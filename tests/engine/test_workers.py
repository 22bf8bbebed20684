"""Runs on real Dask workers: the same release as in this process, also when workers die."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from distributed import Client, LocalCluster, default_client

import gpuanon
from gpuanon.arrays.rng import Key
from gpuanon.engine.outputs import work_path
from gpuanon.engine.protect import protect_in_parts
from gpuanon.engine.workers import clusters as on_dask
from gpuanon.engine.workers import in_turn
from gpuanon.engine.workers.clusters import LOOPBACK
from gpuanon.errors import BackendError, GpuanonError, InputError, OutputError
from gpuanon.recipe import Recipe
from tests.support.every import MASKS, recipe, registry

pytestmark = [
    pytest.mark.slow,
    # Closing a cluster whose worker was killed leaves sockets to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
KEY = Key(b"a key for tests, of sixteen bytes or more")


@pytest.fixture(scope="module")
def client():
    with pytest.MonkeyPatch.context() as patch:
        # Dask sets these while it starts workers, and a value that it finds in the environment has precedence.
        for name in ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"):
            patch.delenv(name, raising=False)
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
    return gpuanon.protect(
        source, recipe("gaussian"), output=output, client=client, rng=KEY, backend="numpy", cell=300, **options
    )


def test_workers_give_the_release_of_one_process(client, source, expected, tmp_path):
    manifest = protect(client, source, tmp_path / "release")
    assert pq.read_table(tmp_path / "release").equals(expected)
    assert manifest["guarantee"][0]["verified"] is True
    assert {path.name for path in tmp_path.iterdir()} == {"release", "release.manifest.json"}


@pytest.fixture(scope="module", params=[1, 2, 4])
def workers(request):
    """So many real workers."""
    with on_dask.cluster("local", request.param) as started:
        assert len(started.scheduler_info(n_workers=-1)["workers"]) == request.param
        yield on_dask.OnWorkers(started)


@pytest.fixture(scope="module")
def alone(source, tmp_path_factory):
    """The release and the link of a mask, by this process."""
    return cache(lambda mask: masked(source, tmp_path_factory.mktemp("alone"), mask, in_turn))


def masked(source, folder, mask, workers):
    link, options = folder / "link.csv", {"key": KEY, "backend": "numpy", "cell_rows": 300}
    protect_in_parts(source, Recipe.load(recipe(mask)), folder / "release", workers=workers, link=link, **options)
    return pq.read_table(folder / "release"), link.read_text()


@pytest.mark.parametrize("mask", MASKS)
def test_every_mask_gives_the_rows_of_one_process_on_workers(workers, source, alone, tmp_path, mask):
    release, link = masked(source, tmp_path, mask, workers)
    assert release.equals(alone(mask)[0])
    assert link == alone(mask)[1]


@pytest.fixture(scope="module")
def partitioned(table, tmp_path_factory):
    """The table in 1, 4, 16 and 64 files."""
    found = {}
    for parts in (1, 4, 16, 64):
        found[parts] = tmp_path_factory.mktemp(f"{parts}-files")
        for number, rows in enumerate(np.array_split(np.arange(table.num_rows), parts)):
            pq.write_table(table.take(pa.array(rows)), found[parts] / f"{number:02d}.parquet")
    return found


def sorted_rows(folder):
    frame = pq.read_table(folder).to_pandas()
    return frame.sort_values(list(frame.columns), ignore_index=True)


@pytest.mark.parametrize("workers", [1, 2, 4])
def test_neither_workers_nor_partitions_change_a_release(workers, partitioned, tmp_path):
    mask, alone = recipe("microaggregation"), tmp_path / "alone"
    protect_in_parts(partitioned[1], Recipe.load(mask), alone, key=KEY, backend="numpy", cell_rows=300)
    with on_dask.cluster("local", workers) as started:
        assert len(started.scheduler_info(n_workers=-1)["workers"]) == workers
        for parts in (4, 16, 64):
            output = tmp_path / f"{parts}"
            gpuanon.protect(partitioned[parts], mask, output=output, client=started, rng=KEY, backend="numpy", cell=300)
            assert sorted_rows(output).equals(sorted_rows(alone))


def test_workers_neither_spill_nor_give_memory_back_at_once(client):
    def settings():
        import dask

        levels = [dask.config.get(f"distributed.worker.memory.{level}") for level in ("target", "spill", "pause")]
        return levels, os.environ["MALLOC_TRIM_THRESHOLD_"], os.environ["GPUANON_THREADS"]

    for levels, kept, threads in client.run(settings).values():
        assert levels == [False, False, False]
        assert int(kept) == 1 << 26
        assert int(threads) >= 1


def test_one_file_instead_of_parts(client, source, expected, tmp_path):
    protect(client, source, tmp_path / "release.parquet")
    assert pq.read_table(tmp_path / "release.parquet").equals(expected)


def test_a_dask_dataframe_goes_in_and_comes_out(client, table, tmp_path):
    import dask.dataframe as dd

    frame = dd.from_pandas(table.select(["age", "visits", "bmi", "cost"]).to_pandas(), npartitions=3)
    columns = {"age": {"role": "quasi"}, "visits": {"role": "quasi"}, "bmi": {"role": "quasi"}}
    rules = {"columns": columns, "others": "keep", "mask": [{"method": "microaggregation", "k": 5}]}
    released = gpuanon.protect(frame, rules, client=client, rng=KEY, scratch=tmp_path).compute()
    assert released.groupby(list(columns)).size().min() >= 5
    assert sorted(released["cost"]) == sorted(table["cost"].to_pylist())
    assert not list(tmp_path.glob(".*"))


def test_an_error_on_a_worker_is_the_users_error_and_leaves_nothing_in_place(client, source, tmp_path):
    rules = recipe("gaussian", nulls="refuse")
    with pytest.raises(InputError, match="income"):
        gpuanon.protect(source, rules, output=tmp_path / "release", client=client, rng=KEY, cell=300)
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


@pytest.mark.parametrize("stage", [1, 3])
def test_a_worker_killed_in_any_stage_costs_time_not_rows(client, source, expected, tmp_path, stage):
    client.cluster.scale(2)
    client.wait_for_workers(2, timeout=120)
    calls = 0

    def killing(task, items):
        nonlocal calls
        calls += 1
        if calls == stage + 1:
            victim = next(iter(client.run(os.getpid).values()))
            killer = threading.Timer(random.Random(stage).random() * 0.3, os.kill, (victim, signal.SIGKILL))
            killer.start()
        return on_dask.OnWorkers(client)(task, items)

    options = {"key": KEY, "backend": "numpy", "cell_rows": 300}
    protect_in_parts(source, Recipe.load(recipe("gaussian")), tmp_path / "release", workers=killing, **options)
    assert calls == 7  # levels, repeats, summarise, place, mask, assemble, count
    assert pq.read_table(tmp_path / "release").equals(expected)


def test_a_lost_result_is_waited_for_on_the_loop_of_its_own_client(client, monkeypatch):
    """A process may have several clients: the newest is Dask's default, and its loop must not wait for others' work."""
    waited_on = []
    gather = client.gather

    def gathering(futures):
        waited_on.extend(future._state._event._loop for future in futures)
        return gather(futures)

    monkeypatch.setattr(client, "gather", gathering)
    with LocalCluster(n_workers=0, processes=False, dashboard_address=LOOPBACK) as other, Client(other) as newest:
        assert newest.loop is not client.loop
        assert default_client() is newest
        assert on_dask.OnWorkers(client)(_slowly, [1, 2, 3]) == [1, 2, 3]
    assert waited_on == [client.loop.asyncio_loop] * 3


def _slowly(item):
    time.sleep(0.2)
    return item


@pytest.fixture
def apart(tmp_path):
    """A scheduler and a worker in processes of their own, and a client."""
    file = tmp_path / "scheduler.json"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    address = ["--scheduler-file", str(file)]
    commands = [
        ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0", "--dashboard-address", "127.0.0.1:0"],
        ["distributed.cli.dask_worker", "--no-nanny", "--no-dashboard", "--nthreads", "1", "--death-timeout", "5"],
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", *command, *address], cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL
        )
        for command in commands
    ]
    try:
        deadline = time.monotonic() + 60
        while not file.exists() and time.monotonic() < deadline:
            time.sleep(0.1)
        with Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(1, timeout=60)
            yield client, started[0]
    finally:
        for process in started:
            process.kill()
            process.wait()


def test_a_lost_scheduler_ends_clean_and_the_run_is_resumed(apart, source, expected, tmp_path):
    client, scheduler = apart
    calls = 0

    def losing(task, items):
        nonlocal calls
        calls += 1
        if calls == 3:
            scheduler.kill()
        return on_dask.OnWorkers(client)(task, items)

    output, loaded = tmp_path / "release", Recipe.load(recipe("gaussian"))
    options = {"key": KEY, "backend": "numpy", "cell_rows": 300}
    with pytest.raises(BackendError, match=r"the scheduler, or every worker, was lost[\s\S]*--resume"):
        protect_in_parts(source, loaded, output, workers=losing, **options)
    assert not output.exists()
    protect_in_parts(source, loaded, output, resume=True, **options)
    assert pq.read_table(output).equals(expected)


def test_a_run_that_every_worker_has_left_does_not_wait_for_ever(monkeypatch):
    monkeypatch.setattr(on_dask, "PATIENCE", 0.5)
    empty = LocalCluster(n_workers=0, processes=False, dashboard_address=LOOPBACK)
    with empty as cluster, Client(cluster) as client, pytest.raises(BackendError, match="every worker"):
        on_dask.OnWorkers(client)(abs, [1, 2])


def test_the_command_line_is_killed_with_its_workers_and_resumed(tmp_path):
    source = tmp_path / "registry"
    source.mkdir()
    for number in range(4):
        pq.write_table(registry(4000).slice(1000 * number, 1000), source / f"{number}.parquet")
    (tmp_path / "recipe.json").write_text(json.dumps(recipe("gaussian")))
    (tmp_path / "key").write_text("a key for tests, of sixteen bytes or more")
    command = [sys.executable, "-m", "gpuanon.cli.app", "protect", "registry", "recipe.json", "--cell", "1000"]
    command += ["--key-file", "key", "--quiet"]
    options = {"cwd": tmp_path, "env": os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}}
    work = work_path(tmp_path / "release")

    process = subprocess.Popen([*command, "-o", "release", "--workers", "2"], start_new_session=True, **options)
    while process.poll() is None and not list(work.glob("place-*.result")):
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not (tmp_path / "release").exists()
    assert list(work.glob("place-*.result"))
    subprocess.run([*command, "-o", "release", "--workers", "0", "--resume"], check=True, **options)
    subprocess.run([*command, "-o", "expected", "--workers", "0"], check=True, **options)
    assert pq.read_table(tmp_path / "release").equals(pq.read_table(tmp_path / "expected"))
    assert not work.exists()


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
        protect_in_parts(source, loaded, output, workers=failing, **options)
    assert not output.exists()
    assert work_path(output).exists()
    with pytest.raises(OutputError, match="--resume"):
        protect_in_parts(source, loaded, output, **options)
    with pytest.raises(InputError, match="another recipe, hierarchy, input"):
        protect_in_parts(source, loaded, output, **options | {"cell_rows": 301, "resume": True})
    protect_in_parts(source, loaded, output, resume=True, **options)
    assert pq.read_table(output).equals(expected)
    assert not work_path(output).exists()


def test_other_formats_are_read_piece_by_piece(client, table, tmp_path):

    plain = table.select(["age", "visits", "cost"])
    pa.csv.write_csv(plain, tmp_path / "registry.csv")
    rules = {
        "columns": {"age": {"role": "quasi"}, "visits": {"role": "quasi"}},
        "others": "keep",
        "mask": [{"method": "distribution-preserving", "dither": "permute", "k": 5}],
    }
    gpuanon.protect(tmp_path / "registry.csv", rules, output=tmp_path / "release.csv", client=client, rng=KEY, cell=300)
    released = pa.csv.read_csv(tmp_path / "release.csv")
    for name in plain.column_names:
        assert sorted(released[name].to_pylist()) == sorted(plain[name].to_pylist())


def test_the_key_is_in_no_file_of_the_run(source, tmp_path):
    output = tmp_path / "release"

    def stopping(task, items):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        protect_in_parts(source, Recipe.load(recipe("permute")), output, key=KEY, backend="numpy", workers=stopping)
    files = [path for path in work_path(output).rglob("*") if path.is_file()]
    assert files
    assert not any(b"a key for tests" in file.read_bytes() for file in files)


def test_a_cluster_that_is_not_installed_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "dask_jobqueue", None)
    with pytest.raises(GpuanonError, match=r"gpuanon\[hpc\]"), on_dask.cluster("slurm", 1):
        pass


def test_what_is_for_clients_is_refused_without_one(table, tmp_path):
    with pytest.raises(GpuanonError, match="client="):
        gpuanon.protect(table, recipe("gaussian"), output=tmp_path / "release")
    assert not list(tmp_path.iterdir())
