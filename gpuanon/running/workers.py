"""Runs on a Dask cluster: the tasks of `gpuanon.running.tasks`, done by whatever workers there are.

`protect` takes an existing `Client` and never starts a cluster by itself; `cluster` starts one for the command line.
Workers exchange rows through a folder that all of them reach (a shared file system), so a lost worker costs the task
it was doing, and an interrupted run can be taken up where it ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName
from gpuanon.arrays.rng import as_key
from gpuanon.arrays.threads import thread_count
from gpuanon.errors import BackendError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.running.pipeline import CELL_ROWS, Workers, in_turn
from gpuanon.running.protect import ClusterKind, InParts, protect_in_parts

if TYPE_CHECKING:
    from distributed import Client


PATIENCE = 600.0
"""Seconds that a run waits for workers when it has none."""

LOOPBACK = "127.0.0.1:0"
"""Where a local cluster's dashboard listens: any free port, this machine only."""


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
                for done, future in enumerate(as_completed(futures, raise_errors=False), 1):
                    if future.status == "error":  # the first failure ends the run: nobody waits for the rest
                        future.result()
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


def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    output: str | Path | None = None,
    *,
    client: Client | None = None,
    rng: Any = None,
    backend: BackendName = "auto",
    cell: int = CELL_ROWS,
    scratch: str | Path | None = None,
    resume: bool = False,
    force: bool = False,
) -> Any:
    """Mask a table that is larger than memory on the workers of a Dask cluster.

    Parameters
    ----------
    data : a dask.dataframe, or the path of a file or folder of Parquet parts
    recipe, rng, backend : as for `gpuanon.protect`
    output : file or folder to write; None gives a dask.dataframe, which needs `scratch`
    client : the cluster; None for the current one
    cell : rows that are masked together, about; the same data, recipe, key and cell give the same release
    scratch : folder that all workers reach, for personal data on the way; by default beside `output`
    resume : continue an interrupted run of the same path, recipe, `rng` and cell

    Returns
    -------
    The manifest when `output` was given, else the release as a dask.dataframe over Parquet parts in `scratch`.
    """
    from distributed import get_client

    try:
        client = get_client() if client is None else client
    except ValueError:
        raise ParameterError(
            "client: there is no Dask cluster", hint="pass client=, or use gpuanon.protect for a table in memory"
        ) from None
    if output is None and scratch is None:
        raise ParameterError("output: a file or folder is needed, or a scratch folder for a dask.dataframe")
    target = Path(output) if output is not None else Path(str(scratch)) / "release"
    with _as_files(data, Path(scratch) if scratch is not None else target.absolute().parent) as source:
        manifest = protect_in_parts(
            source,
            Recipe.load(recipe),
            target,
            key=as_key(rng),
            backend=backend,
            workers=OnWorkers(client),
            cell_rows=cell,
            resume=resume,
            resumable=rng is not None and isinstance(data, (str, Path)),
            force=force,
        )
    if output is not None:
        return manifest
    import dask.dataframe as dd

    return dd.read_parquet(target)


@contextmanager
def _as_files(data: Any, scratch: Path) -> Iterator[Path]:
    """The table as files: a path as it is, a dask.dataframe as private Parquet parts for the time of the run."""
    if isinstance(data, (str, Path)):
        yield Path(data)
        return
    if not hasattr(data, "to_parquet") or not hasattr(data, "npartitions"):
        raise ParameterError(f"data: a path or a dask.dataframe is needed, got {type(data).__name__}")
    with TemporaryDirectory(prefix=".gpuanon-", dir=scratch) as folder:
        data.to_parquet(folder, write_index=False)
        yield Path(folder)


@contextmanager
def on_cluster(how: InParts, log: Callable[[str], None]) -> Iterator[Workers]:
    """The workers that the command line asks for: this process, or those of a cluster that is started for the run."""
    kind = "local" if how.cluster == "none" and how.workers else how.cluster
    with cluster(kind, how.workers) as client, performance_report(client, how.report):
        if client is None:
            yield in_turn
        else:
            log(greeting(kind, client))
            yield OnWorkers(client)


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
    with worker_settings(), _started(kind, workers) as started, Client(started) as client:
        client.wait_for_workers(1, timeout=600)
        yield client


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


def worker_environment(workers: int) -> dict[str, str]:
    """The environment of each of so many workers on one machine: they share its cores."""
    return {"GPUANON_THREADS": str(max(1, thread_count() // workers))}


def worker_settings() -> Any:
    """Dask's settings for workers that are started inside this context.

    Rows lie in files, never in a worker's results, so Dask has nothing to spill (it would write personal data to a
    folder of its own) and nothing to wait for when memory runs short: a worker that exceeds its limit is ended, and
    its task is done by another.  And Dask has glibc give every freed block back at once, which doubles the time of
    array arithmetic: here blocks of up to 32 MB are kept, as in any other process.
    """
    import dask

    memory, environment = "distributed.worker.memory", "distributed.nanny.pre-spawn-environ"
    return dask.config.set(
        {
            **{f"{memory}.{level}": False for level in ("target", "spill", "pause")},
            f"{environment}.MALLOC_TRIM_THRESHOLD_": 1 << 26,
            f"{environment}.MALLOC_MMAP_THRESHOLD_": 1 << 25,
        }
    )


def _started(kind: ClusterKind, workers: int | None) -> Any:
    """A cluster of the kind that was asked for."""
    try:
        if kind == "local":
            from distributed import LocalCluster

            count = workers or max(1, os.cpu_count() or 1)
            return LocalCluster(
                n_workers=count, threads_per_worker=1, dashboard_address=LOOPBACK, env=worker_environment(count)
            )
        if kind == "cuda":
            from dask_cuda import LocalCUDACluster

            return LocalCUDACluster(n_workers=workers)
        if kind == "slurm":
            from dask_jobqueue import SLURMCluster

            started = SLURMCluster()  # cores, memory, queue: Dask's configuration, jobqueue.slurm
            started.scale(jobs=workers or 1)
            return started
        from dask_mpi import initialize

        # Rank 0 schedules, rank 1 goes on here, the others work until it is done.
        initialize(interface=os.environ.get("GPUANON_INTERFACE"), nthreads=1, exit=True)
        return nullcontext()
    except ImportError as error:
        extra = {"cuda": "rapids", "slurm": "hpc", "mpi": "mpi"}.get(kind, "")
        raise BackendError(
            f"cluster: {kind} needs {error.name}, which is not installed", hint=f"pip install 'gpuanon[{extra}]'"
        ) from None
