"""The workers of a Dask cluster, and the clusters that the command line starts, closed to everybody else.

`gpuanon.protect` takes an existing `Client` and never starts a cluster; `on_cluster` starts one for the command line.
Workers exchange rows through a folder that all of them reach (a shared file system), so a lost worker costs the task it
was doing, and an interrupted run can be continued where it ended.

Whoever reaches a Dask scheduler can run code on its workers, so scheduler, workers and client know each other by a
certificate that is made for the run and never leaves it: on one machine it stays in memory, Slurm's jobs read it from
a private folder, the ranks of an MPI job send it to each other.  Dashboards listen on this machine only, and show the
names and times of tasks.  Workers keep rows in the files of the run, never in Dask's own folders.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from gpuanon.arrays import progress
from gpuanon.arrays.threads import thread_count
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.errors import BackendError, ParameterError
from gpuanon.tables.formats.places import PARTIAL, open_locked

if TYPE_CHECKING:
    from distributed import Client
    from distributed.security import Security


ClusterKind: TypeAlias = Literal["none", "local", "cuda", "slurm", "mpi"]

LOOPBACK = "127.0.0.1:0"
"""Where dashboards listen: any free port, this machine only."""

_ROUTES = ["distributed.http.health", "distributed.http.statics"]
"""Pages beside the dashboard; those that show call stacks and logs of workers are left out."""


@contextmanager
def cluster(kind: ClusterKind, workers: int | None) -> Iterator[Client | None]:
    """Start a cluster for the command line, and end it; nothing for ``"none"``."""
    if kind == "none":
        yield None
        return
    try:
        from distributed import Client
    except ImportError:
        raise BackendError(
            f"cluster: {kind} needs Dask, which is not installed", hint="pip install 'gpuanon[dask]'"
        ) from None
    with ExitStack() as stack:
        count = _worker_count(kind, workers)
        stack.enter_context(worker_settings())
        started, security = stack.enter_context(_started(kind, count))
        client = stack.enter_context(Client(started, security=security))
        client.wait_for_workers(1, timeout=600)
        yield client


def worker_settings() -> Any:
    """Dask's settings for workers that are started inside this context.

    Rows lie in files, never in a worker's results, so Dask has nothing to spill (it would write personal data to a
    folder of its own) and nothing to wait for when memory runs short: a worker that exceeds its limit is ended, and
    its task is done by another.  And Dask has glibc give every freed block back at once, which doubles the time of
    array arithmetic: here blocks of up to 32 MB are kept, as in any other process.  Dask's log of a failed task quotes
    its arguments and the error's own text: it is not written, the error reaches the driver.
    """
    import dask

    return dask.config.set(
        {
            **{f"distributed.worker.memory.{level}": False for level in _LEVELS},
            **{f"distributed.nanny.pre-spawn-environ.{name}": value for name, value in _MALLOC.items()},
            **{f"distributed.{server}.http.routes": _ROUTES for server in ("scheduler", "worker")},
            "distributed.logging": {"distributed": "critical"},
        }
    )


_LEVELS = ("target", "spill", "pause")
_MALLOC = {"MALLOC_TRIM_THRESHOLD_": 1 << 26, "MALLOC_MMAP_THRESHOLD_": 1 << 25}


def worker_environment(workers: int) -> dict[str, str]:
    """The environment of each of so many workers on one machine: they share its cores."""
    return {"GPUANON_THREADS": str(max(1, thread_count() // workers))}


def prologue() -> list[str]:
    """Lines of a job's script that give its worker the settings of `worker_settings`, which do not travel with jobs."""
    settings = {f"WORKER__MEMORY__{level.upper()}": "False" for level in _LEVELS}
    settings |= {"WORKER__HTTP__ROUTES": f'"{_ROUTES}"', "LOGGING__DISTRIBUTED": "critical"}
    environment = {f"DASK_DISTRIBUTED__{name}": value for name, value in settings.items()}
    environment |= {name: str(value) for name, value in _MALLOC.items()}
    return ["umask 077", *(f"export {name}={value}" for name, value in environment.items())]


def _worker_count(kind: ClusterKind, workers: int | None) -> int | None:
    """Number of workers to start; refuses more than one for each GPU."""
    if kind == "local":
        return workers or max(1, os.cpu_count() or 1)
    if kind != "cuda":
        return workers
    with _needed("cuda"):
        from dask_cuda.utils import get_n_gpus
    try:
        devices = int(get_n_gpus())
    except Exception:  # NVIDIA's library raises errors of its own
        raise BackendError("cluster: cuda needs a GPU, and no driver answers", hint="--cluster local") from None
    if (workers or 1) > devices:
        raise ParameterError(
            f"workers: each needs a GPU of its own, and there are {devices}, got {workers}",
            hint="fewer --workers, or none for one on each GPU",
        )
    return workers or devices


@contextmanager
def _started(kind: ClusterKind, workers: int | None) -> Iterator[tuple[Any, Security | None]]:
    """A cluster of the kind that was asked for, and what a client needs to be let in."""
    security = _certificates()
    with ExitStack() as stack:
        private = stack.enter_context(TemporaryDirectory(prefix="gpuanon-"))  # mode 0700
        with _needed(kind):
            if kind == "mpi":
                _mpi(security, private)
            elif kind == "slurm":
                started = stack.enter_context(_slurm(stack, security, workers))
            else:
                with progress.interrupts_here():
                    local = _on_this_machine(kind, security, workers or 1, private)
                started = stack.enter_context(local)
        yield (None, None) if kind == "mpi" else (started, security)


def _on_this_machine(kind: ClusterKind, security: Security, workers: int, private: str) -> Any:
    """Workers of this machine, one for each GPU or sharing the cores."""
    options: dict[str, Any] = {
        "n_workers": workers, "threads_per_worker": 1, "security": security, "protocol": "tls", "host": "127.0.0.1",
        "dashboard_address": LOOPBACK, "local_directory": private, "silence_logs": logging.CRITICAL,
    }  # fmt: skip
    environment = worker_environment(workers)
    if kind == "local":
        from distributed import LocalCluster

        return LocalCluster(env=environment, **options)
    from dask_cuda import LocalCUDACluster

    class Sharing(LocalCUDACluster):  # type: ignore[misc]
        """dask-cuda sets each worker's environment itself: ours is added."""

        def new_worker_spec(self) -> Any:
            found = super().new_worker_spec()
            for spec in found.values():
                spec["options"]["env"] = {**environment, **spec["options"].get("env", {})}
            return found

    return Sharing(data=dict, **options)  # a plain dict never spills; dask-cuda's own store writes to disk


def _slurm(stack: ExitStack, security: Security, workers: int | None) -> Any:
    """Workers as jobs of Slurm; cores, memory and queue come from Dask's configuration (jobqueue.slurm)."""
    import dask
    from dask_jobqueue import SLURMCluster

    def given(name: str) -> Any:
        """What the user's configuration says."""
        return dask.config.get(f"jobqueue.slurm.{name}", None)

    shared = given("shared-temp-directory") or os.getcwd()
    folder = stack.enter_context(TemporaryDirectory(prefix=".gpuanon-", suffix=PARTIAL, dir=shared))  # mode 0700
    number, _ = open_locked(Path(folder))
    stack.callback(os.close, number)
    lines = [*(given("job-script-prologue") or []), *prologue()]
    started = SLURMCluster(
        security=_in_files(security, Path(folder)),
        protocol="tls://",
        job_script_prologue=lines,
        scheduler_options={**(given("scheduler-options") or {}), "dashboard_address": LOOPBACK},
        silence_logs="critical",
    )
    started.scale(jobs=workers or 1)
    return started


def _in_files(security: Security, folder: Path) -> Security:
    """The certificate in files of a private folder: a job's script names files."""
    from distributed.security import Security

    found = {}
    for name in security.__slots__:
        value = getattr(security, name)
        if isinstance(value, str) and "\n" in value:
            found[name] = folder / f"{name}.pem"
            with open(os.open(found[name], os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "w") as file:
                file.write(value)
    return Security(require_encryption=True, **{name: str(path) for name, path in found.items()})


def _mpi(security: Security, private: str) -> None:
    """The ranks of an MPI job: rank 0 schedules, rank 1 goes on here, the others work until it is done.

    dask-mpi takes no certificates, but Dask's configuration does: rank 0 sends its own to the others before any of
    them listens.  MPI itself is not encrypted, so this is as safe as the network between the ranks.
    """
    import dask
    from dask_mpi import initialize
    from mpi4py import MPI

    names = ("tls_ca_file", "tls_client_cert", "tls_client_key")
    authority, certificate, key = MPI.COMM_WORLD.bcast([getattr(security, name) for name in names], root=0)
    roles = ("client", "scheduler", "worker")
    dask.config.set(  # for good: dask-mpi connects once more when the process exits, to end the other ranks
        {
            "distributed.comm.require-encryption": True,
            "distributed.comm.tls.ca-file": authority,
            **{f"distributed.comm.tls.{role}.cert": certificate for role in roles},
            **{f"distributed.comm.tls.{role}.key": key for role in roles},
        }
    )
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # its log of a failed task quotes arguments
    interface = os.environ.get("GPUANON_INTERFACE")
    initialize(
        interface=interface, nthreads=1, exit=True, protocol="tls", dashboard_address=LOOPBACK, local_directory=private,
        worker_options={"dashboard_address": LOOPBACK},
    )  # fmt: skip


def _certificates() -> Security:
    """A certificate for the time of the run; it is kept in memory."""
    from distributed.security import Security

    try:
        security: Security = Security.temporary()
    except ImportError:
        raise BackendError(
            "cluster: certificates need the package cryptography, which is not installed",
            hint="pip install 'gpuanon[dask]'",
        ) from None
    return security


@contextmanager
def _needed(kind: ClusterKind) -> Iterator[None]:
    """Say which extra of this package has what a kind of cluster needs."""
    try:
        yield
    except ImportError as error:
        extra = {"cuda": "rapids", "slurm": "hpc", "mpi": "mpi"}.get(kind, "dask")
        raise BackendError(
            f"cluster: {kind} needs {error.name}, which is not installed", hint=f"pip install 'gpuanon[{extra}]'"
        ) from None


PATIENCE = 600.0
"""Seconds that a run waits for workers when it has none."""


def greeting(kind: ClusterKind, client: Client) -> str:
    """A line that says what the run works on."""
    link = client.dashboard_link if find_spec("bokeh") else "needs bokeh"
    return f"cluster: {kind}, {len(client.scheduler_info()['workers'])} workers, dashboard {link}"


class OnWorkers:
    """A runner: every task goes to a worker of the client's cluster; the tasks of a lost worker go to another."""

    def __init__(self, client: Client) -> None:
        self.client = client

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        from distributed import CancelledError, KilledWorker, as_completed

        try:
            futures = self.client.map(task, items, pure=False)
            watchdog = NoWorkersWatchdog(self.client, futures)
            try:
                for done, future in enumerate(as_completed(futures, loop=self.client.loop, raise_errors=False), 1):
                    if future.status == "error":  # the first failure ends the run: nobody waits for the rest
                        _raise(future)
                    progress.report(0.99 * done / len(items))
                return list(self.client.gather(futures))
            finally:
                watchdog.stop()
                with suppress(Exception):  # the scheduler is gone
                    self.client.cancel(futures)
        except KilledWorker:
            raise BackendError(
                "a task ended its worker several times",
                hint="it may need more memory than a worker has: fewer workers, or a smaller --cell",
            ) from None
        except (CancelledError, OSError, TimeoutError):  # CommClosedError is an OSError
            raise BackendError(
                "the connection to the scheduler, or every worker, was lost; no release was written",
                hint="--resume, with the same --key-file, goes on where the run ended",
            ) from None


def _raise(future: Any) -> None:
    """Raise the error of a task; one of the worker's file system is not taken for a lost connection."""
    error = future.exception()
    if isinstance(error, OSError) and error.errno:
        raise BackendError(f"a worker could not read or write ({os.strerror(error.errno)}); no release was written")
    future.result()


class NoWorkersWatchdog:
    """Cancels what waits for workers when there have been none for `PATIENCE` seconds: nobody waits for ever."""

    def __init__(self, client: Client, futures: list[Any]) -> None:
        self._client, self._futures = client, futures
        self._over = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        seen = time.monotonic()
        while not self._over.wait(min(5.0, PATIENCE / 4)):
            with suppress(Exception):  # a scheduler that is lost shows elsewhere
                if self._client.scheduler_info(n_workers=-1)["workers"]:
                    seen = time.monotonic()
                elif time.monotonic() - seen > PATIENCE:
                    self._client.cancel(self._futures, force=True)
                    return

    def stop(self) -> None:
        """The stage is over."""
        self._over.set()


@contextmanager
def on_cluster(
    kind: ClusterKind, count: int | None, report: Path | None, log: Callable[[str], None]
) -> Iterator[Workers]:
    """The workers that the command line asks for: this process, or those of a cluster that is started for the run.

    count  : number of workers; without a cluster None or 0 is this process
    report : file for Dask's performance report, or None
    """
    kind = "local" if kind == "none" and count else kind
    with cluster(kind, count) as client, performance_report(client, report):
        if client is None:
            yield in_turn
        else:
            log(greeting(kind, client))
            yield OnWorkers(client)


@contextmanager
def performance_report(client: Client | None, file: Path | None) -> Iterator[None]:
    """Write Dask's own report of what its workers did to `file`, if one is asked for."""
    if file is None:
        yield
        return
    if client is None:
        raise ParameterError("dask-report: there are no workers to report on", hint="--workers N, or --cluster")
    from distributed import performance_report

    try:
        import bokeh  # noqa: F401
    except ImportError:
        raise BackendError(
            "dask-report: Dask draws it with bokeh, which is not installed", hint="pip install bokeh"
        ) from None
    with performance_report(filename=str(file)):
        yield
