"""Both cores busy: independent batches on a thread pool (NumPy lets go of the interpreter lock).

Results come back in the order of the items, so the number of threads never changes a result.  Meanwhile the linear
algebra library is held to one thread of its own: two pools that fight for the same cores are ten times slower.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from functools import cache
from typing import Any, TypeVar

from gpuanon.arrays import progress
from gpuanon.errors import ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")


def thread_count() -> int:
    """Threads to use: ``GPUANON_THREADS``, or the cores this process may run on."""
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
    with _one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return [_told(result, at, len(work)) for at, result in enumerate(pool.map(function, work), 1)]


def _one_blas_thread() -> AbstractContextManager[Any]:
    """Hold the linear algebra libraries that are loaded to one thread each, as long as the context lasts."""
    return _blas("scipy.linalg" in sys.modules).limit(limits=1, user_api="blas")  # type: ignore[no-any-return]


@cache
def _blas(scipy_too: bool) -> Any:
    """The libraries' controller; SciPy brings a library of its own, so it is looked for again once SciPy is there."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _told(result: Result, done: int, total: int) -> Result:
    """Pass `result` on, and tell whoever listens that one more item is done."""
    if total > 1:
        progress.report(0.99 * done / total)  # 1 is for the end of the stage
    return result
