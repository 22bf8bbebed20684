"""The workers of a Dask cluster.

`gpuanon.protect` takes an existing `Client` and never starts a cluster by itself; `on_cluster` starts one for the
command line.  Workers exchange rows through a folder that all of them reach (a shared file system), so a lost worker
costs the task it was doing, and an interrupted run can be continued where it ended.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuanon.arrays import progress
from gpuanon.engine.workers import Workers, in_turn
from gpuanon.engine.workers.clusters import ClusterKind, cluster
from gpuanon.errors import BackendError, ParameterError

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
