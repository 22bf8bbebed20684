"""Runs on a Dask cluster: the tasks of `gpuanon.engine.tasks`, done by whatever workers there are.

`protect` takes an existing `Client` and never starts a cluster by itself; `cluster` starts one for the command line.
Workers exchange rows through a folder that all of them reach (a shared file system), so a lost worker costs the task
it was doing, and an interrupted run can be taken up where it ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gpuanon.arrays import progress
from gpuanon.arrays.backend import BackendName
from gpuanon.arrays.rng import as_key
from gpuanon.engine.protect import ClusterKind, InParts, protect_in_parts
from gpuanon.engine.run import Workers, in_turn
from gpuanon.engine.workers.clusters import cluster
from gpuanon.errors import BackendError, ParameterError
from gpuanon.recipe import Recipe
from gpuanon.tables.formats.places import PARTIAL, open_locked

if TYPE_CHECKING:
    from distributed import Client


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


def protect(
    data: Any,
    recipe: Recipe | Mapping[str, Any] | str | Path,
    output: str | Path | None = None,
    *,
    client: Client | None = None,
    rng: Any = None,
    backend: BackendName = "auto",
    cell: int | None = None,
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
    cell : rows that are masked together, about; None for 100 000, on a GPU for as many as its memory holds.  The same
        data, recipe, key and cell give the same release
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
    with TemporaryDirectory(prefix=".gpuanon-", suffix=PARTIAL, dir=scratch) as folder:
        number, _ = open_locked(Path(folder))  # tells 'gpuanon clean' that the run lives
        try:
            data.to_parquet(folder, write_index=False)
            yield Path(folder)
        finally:
            os.close(number)


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
