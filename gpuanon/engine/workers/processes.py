"""Workers that are processes of this machine, started for one stage and ended after it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any

from gpuanon.arrays import progress
from gpuanon.arrays.threads import thread_count


class Processes:
    """So many processes, which share the cores; the task, with all that it holds, is sent once to each."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        count = min(self.count, len(items))
        threads = max(1, thread_count() // max(1, count))
        pool = ProcessPoolExecutor(
            max(1, count), mp_context=get_context("spawn"), initializer=_begin, initargs=(task, threads, os.getpid())
        )
        try:
            with progress.interrupts_here():
                futures = [pool.submit(_in_worker, item) for item in items]
            for done, future in enumerate(as_completed(futures), 1):
                future.result()  # the first failure ends the stage
                progress.report(0.99 * done / len(items))
        except BaseException:
            _stop(pool)
            raise
        pool.shutdown()
        return [future.result() for future in futures]


def _stop(pool: ProcessPoolExecutor) -> None:
    """End what is under way: its results are of no use any more."""
    processes: Iterable[Any] = list((getattr(pool, "_processes", None) or {}).values())
    pool.shutdown(wait=False, cancel_futures=True)
    for process in processes:
        process.terminate()


_task: Callable[[Any], Any] | None = None
_THREADS = ("GPUANON_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables by which this package and the libraries below it are told how many threads to use."""


def _begin(task: Callable[[Any], Any] | None, threads: int, parent: int) -> None:
    """Prepare a process: its share of the cores, and an end when its parent has ended."""
    global _task
    from threadpoolctl import threadpool_limits

    _task = task
    # Libraries that are loaded obey the limit; those that are loaded later (SciPy's own BLAS, OpenMP) the environment.
    os.environ |= dict.fromkeys(_THREADS, str(threads))
    threadpool_limits(threads)
    threading.Thread(target=_end_with, args=(parent, os._exit), daemon=True).start()


def _end_with(parent: int, end: Callable[[int], Any]) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    end(1)


def _in_worker(item: Any) -> Any:
    assert _task is not None
    return _task(item)
