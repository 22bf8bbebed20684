"""Clusters that are started for a run: closed to other users of the machine, and without rows in Dask's own folders."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow.parquet as pq
import pytest

from gpuanon.engine.workers import clusters
from gpuanon.engine.workers.clusters import OnWorkers
from gpuanon.errors import BackendError, GpuanonError, ParameterError
from tests.support.every import recipe, registry

pytest.importorskip("distributed")
pytest.importorskip("cryptography")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
ROOT = str(Path(__file__).parents[2])
ENVIRONMENT = os.environ | {"PYTHONPATH": os.pathsep.join([ROOT, os.environ.get("PYTHONPATH", "")])}


@pytest.fixture(scope="module")
def client():
    with clusters.cluster("local", 2) as started:
        yield started


INTRUDER = """
import os, sys
from distributed import Client
def attack(address):
    try:
        with Client(address, timeout="3s") as client:
            return f"got in as {client.submit(os.getuid).result(timeout=10)}"
    except BaseException as error:
        return "refused"
attack("tcp://127.0.0.1:1")     # loads what another user may not be able to read
os.setgroups([]); os.setgid(65534); os.setuid(65534); os.chdir("/")
for address in sys.argv[1:]:
    print(os.getuid(), attack(address), flush=True)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_is_refused(client):
    from distributed import LocalCluster

    scheduler = client.scheduler.address
    worker = next(iter(client.scheduler_info()["workers"]))
    assert scheduler.startswith("tls://127.0.0.1:")
    assert worker.startswith("tls://127.0.0.1:")
    plain = [address.replace("tls://", "tcp://") for address in (scheduler, worker)]
    with LocalCluster(n_workers=1, processes=False, protocol="tcp", dashboard_address=clusters.LOOPBACK) as unlocked:
        program = [sys.executable, "-c", INTRUDER, unlocked.scheduler_address, scheduler, *plain]
        answer = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    lines = answer.stdout.splitlines()
    assert lines == [f"65534 got in as {os.getuid()}", *["65534 refused"] * 3]  # a scheduler of Dask's own is open


def test_somebody_with_other_certificates_is_refused(client):
    from distributed import Client
    from distributed.security import Security

    with pytest.raises(OSError, match=r"(?i)timed out|connect|certificate"):
        Client(client.scheduler.address, security=Security.temporary(), timeout="3s")


def test_the_client_of_the_run_works(client):
    assert OnWorkers(client)(abs, [-1, -2]) == [1, 2]


def test_pages_are_on_this_machine_only_and_show_no_call_stacks(client):
    port = client.cluster.scheduler.http_server.port
    assert client.cluster.scheduler.http_server.address == "127.0.0.1"
    workers = client.run(lambda dask_worker: (dask_worker.http_server.address, dask_worker.http_server.port))
    assert {address for address, _ in workers.values()} == {"127.0.0.1"}
    for number in (port, *(number for _, number in workers.values())):
        for page in ("info/main/workers.html", "info/call-stacks/x.html", "json/identity.json", "metrics"):
            with pytest.raises(HTTPError, match="404"):
                urlopen(f"http://127.0.0.1:{number}/{page}", timeout=5)


def test_folders_of_workers_are_private_without_rows_and_removed(tmp_path):
    with clusters.cluster("local", 1) as started:
        (folder,) = started.run(lambda dask_worker: dask_worker.local_directory).values()
        private = next(path for path in Path(folder).parents if path.name.startswith("gpuanon-"))
        assert stat.S_IMODE(private.stat().st_mode) == 0o700
        OnWorkers(started)(len, ["rows" * 1000])
        assert not [path for path in private.rglob("*") if path.is_file() and path.stat().st_size > 100]
    assert not private.exists()


def test_names_of_tasks_hold_no_values(client):
    with_names = []
    wrapped = client.map
    client.map = lambda *a, **k: with_names.extend(wrapped(*a, **k)) or with_names
    try:
        OnWorkers(client)(str.upper, ["a secret value"])
    finally:
        del client.map
    assert with_names
    assert not [future.key for future in with_names if "secret" in str(future.key)]


def test_without_the_means_for_certificates_no_cluster_is_started(monkeypatch):
    from distributed.security import Security

    def missing(**options):
        raise ImportError("cryptography")

    monkeypatch.setattr(Security, "temporary", missing)
    with pytest.raises(BackendError, match=r"cryptography[\s\S]*gpuanon\[dask\]"), clusters.cluster("local", 1):
        pass


def test_certificates_in_files_are_private_and_let_in(tmp_path):
    from distributed import Client, LocalCluster

    security = clusters._certificates()
    in_files = clusters._in_files(security, tmp_path)
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, security=in_files, protocol="tls", dashboard_address=clusters.LOOPBACK
        ) as started,
        Client(started.scheduler_address, security=security) as client,
    ):
        assert client.submit(abs, -1).result(timeout=30) == 1


def test_jobs_get_the_settings_that_keep_rows_off_the_disk(tmp_path):
    script = "\n".join([*clusters.prologue(), f"{sys.executable} -c '{PRINT}'"])
    answer = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    found = json.loads(answer.stdout)
    assert found == {"levels": [False, False, False], "umask": 0o77, "log": "critical", "trim": str(1 << 26),
                     "routes": clusters._ROUTES}  # fmt: skip


PRINT = """
import json, os, dask, distributed
get = dask.config.get
print(json.dumps({
    "levels": [get(f"distributed.worker.memory.{level}") for level in ("target", "spill", "pause")],
    "umask": os.umask(0), "log": get("distributed.logging.distributed"), "trim": os.environ["MALLOC_TRIM_THRESHOLD_"],
    "routes": get("distributed.worker.http.routes")}))
"""


@pytest.fixture
def two_gpus(monkeypatch):
    """A dask_cuda of two GPUs that sets the environment of its workers, as the real one does."""
    from distributed import LocalCluster

    started = []

    class LocalCUDACluster(LocalCluster):
        def __init__(self, n_workers=None, data=None, **options):
            started.append(options)
            self.given_data = data
            super().__init__(n_workers=0, **options)
            self.scale(n_workers)
            self.sync(self._correct_state)

        def new_worker_spec(self):
            ((name, spec),) = super().new_worker_spec().items()
            options = {**spec["options"], "env": {"CUDA_VISIBLE_DEVICES": str(name)}}
            return {name: {**spec, "options": options}}

    module, utils = ModuleType("dask_cuda"), ModuleType("dask_cuda.utils")
    module.LocalCUDACluster, utils.get_n_gpus = LocalCUDACluster, lambda: 2
    monkeypatch.setitem(sys.modules, "dask_cuda", module)
    monkeypatch.setitem(sys.modules, "dask_cuda.utils", utils)
    return started


def test_more_workers_than_gpus_are_refused_before_anything_starts(two_gpus):
    with pytest.raises(ParameterError, match="there are 2, got 3"), clusters.cluster("cuda", 3):
        pass
    assert not two_gpus


def test_workers_on_gpus_are_closed_too_and_share_the_cores(two_gpus, monkeypatch):
    monkeypatch.setenv("GPUANON_THREADS", "6")
    with clusters.cluster("cuda", None) as started:
        started.wait_for_workers(2, timeout=60)
        settings = started.run(lambda: (os.environ["GPUANON_THREADS"], os.environ["CUDA_VISIBLE_DEVICES"]))
        assert sorted(settings.values()) == [("3", "0"), ("3", "1")]
        assert started.scheduler.address.startswith("tls://")
        assert started.cluster.scheduler.http_server.address == "127.0.0.1"
        assert started.cluster.given_data is dict


def test_an_error_of_the_input_reads_the_same_on_workers_as_in_memory(tmp_path):
    table = registry(400)
    pq.write_table(table, tmp_path / "registry.parquet")
    rules = recipe("permute", nulls="refuse")
    (tmp_path / "recipe.json").write_text(json.dumps(rules))
    run = [sys.executable, "-m", "gpuanon.cli.app", "protect", "registry.parquet", "recipe.json", "-o", "r.parquet"]
    said = []
    for more in ([], ["--workers", "0"], ["--workers", "1"]):
        answer = subprocess.run(
            [*run, "--quiet", *more], cwd=tmp_path, capture_output=True, text=True, check=False, env=ENVIRONMENT
        )
        assert answer.returncode == 2
        said.append(answer.stderr)
    assert said[0] == said[1] == said[2]
    assert said[0].startswith("error: ")
    assert "Traceback" not in said[0]


def test_an_error_that_nobody_foresaw_is_not_taken_for_a_lost_cluster(client):
    def full(item):
        raise OSError(28, "No space left on device")

    with pytest.raises(GpuanonError, match="No space left"):
        OnWorkers(client)(full, [1])
