"""Independent batches on a thread pool, on all cores (NumPy releases the interpreter lock).

Results are in the order of the items, so the number of threads never changes a result.  BLAS is limited to one thread
meanwhile: two thread pools on the same cores can be ten times slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from gpuanon.arrays import progress
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.errors import ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count() -> int:
    """Threads to use: ``GPUANON_THREADS``, or the number of cores that this process may use."""
    text = os.environ.get("GPUANON_THREADS")
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"GPUANON_THREADS: a whole number from 1 up is allowed, got {text!r}")
    return int(text)


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply `function` to every item, on all cores; results in the order of the items."""
    work = list(items)
    workers = min(thread_count(), len(work))
    if len(work) <= 1:
        return [function(item) for item in work]
    if workers == 1:  # a pool of one thread only adds context switches
        with one_blas_thread():
            return [_report_progress(function(item), at, len(work)) for at, item in enumerate(work, 1)]
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return [_report_progress(result, at, len(work)) for at, result in enumerate(pool.map(function, work), 1)]


def _report_progress(result: Result, done: int, total: int) -> Result:
    """Report that `done` of `total` items are done; return `result`."""
    if total > 1:
        progress.report(0.99 * done / total)  # 1 is reported at the end of the stage
    return result
