"""Independent batches on all cores: the calling thread and a pool's (NumPy releases the interpreter lock).

Results are in the order of the items, so the number of threads never changes a result.  BLAS is limited to one thread
meanwhile: two thread pools on the same cores can be ten times slower.

Work on device arrays stays in the calling thread.  CuPy keeps the current device and the current stream for each
thread: in a pool thread the work would be started on another stream (or device) than the caller's, and nothing would
order the two.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import copy_context
from functools import lru_cache, partial
from threading import Lock, local
from types import CellType, FunctionType, MethodType
from typing import Any, TypeVar

from gpuanon.arrays import progress
from gpuanon.arrays.backend import on_device
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.errors import ParameterError

Item = TypeVar("Item")
Result = TypeVar("Result")

_DEPTH = 5  # of closures, objects and containers that are searched for device arrays
_EMPTY = CellType()  # a variable that a nested function uses before it has a value
_MEMBERS = 16  # of a container that are searched


def thread_count() -> int:
    """Threads to use: ``GPUANON_THREADS``, or the number of cores that this process may use."""
    text = os.environ.get("GPUANON_THREADS")
    if text is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else (os.cpu_count() or 1)
    if not text.isdecimal() or int(text) < 1:
        raise ParameterError(f"GPUANON_THREADS: a whole number from 1 up is allowed, got {text!r}")
    return int(text)


def each(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Apply `function` to every item, on all cores; results in the order of the items.

    If the function or its items hold device arrays, the calling thread does all the work.  Inside a task of `each_task`
    it does all the work while tasks have all the cores.
    """
    work = list(items)
    if len(work) <= 1:
        return [function(item) for item in work]
    if uses_device(function) or uses_device(work[0]):
        return [_report_progress(function(item), at, len(work)) for at, item in enumerate(work, 1)]
    cores, done = thread_count(), list[Result]()
    with one_blas_thread():
        # One thread alone needs no pool.
        while len(done) < len(work) and (cores == 1 or _tasks.busy_beside(cores)):
            done.append(_report_progress(function(work[len(done)]), len(done) + 1, len(work)))
        return done + _shared(function, work, len(done), cores)


def _shared(function: Callable[[Item], Result], work: list[Item], first: int, threads: int) -> list[Result]:
    """Apply `function` to the items from `first` on, in this thread and in idle ones of the pool.

    Each takes the next item until none is left.  This thread takes items too, all of them if the threads of the pool
    are busy: calls may be nested, and no thread waits for one that was not begun.  After an error no further item is
    begun; of several errors that of the first item is raised.
    """
    waiting = deque(range(first, len(work)))
    results, errors = dict[int, Result](), dict[int, Exception]()
    report, counting = progress.reporter(), Lock()

    def take() -> None:
        while waiting:
            try:
                at = waiting.popleft()
            except IndexError:  # another thread took the last one
                return
            try:
                results[at] = function(work[at])
            except Exception as error:
                waiting.clear()
                errors[at] = error
            with counting:
                report(0.99 * (first + len(results)) / len(work))  # 1 is reported at the end of the stage

    count = min(threads, len(waiting)) - 1
    helpers = [_pool(threads).submit(copy_context().run, _tasks.inside(take)) for _ in range(count)]
    try:
        take()
    finally:
        waiting.clear()
        for helper in helpers:
            if not helper.cancel():
                helper.result()
    if errors:
        raise errors[min(errors)]
    return [results[at] for at in range(first, len(work))]


@lru_cache(maxsize=1)
def _pool(threads: int) -> ThreadPoolExecutor:
    """Threads that last as long as the process: many a call takes less time than the start of a thread."""
    return ThreadPoolExecutor(threads, thread_name_prefix="gpuanon")


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_pool.cache_clear)  # a child has none of its parent's threads


def each_task(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """`each` for long tasks that use `each` themselves: inside, it starts threads only on cores that no task has."""
    return each(partial(_tasks.run, function), items)


class _Tasks:
    """How many tasks of `each_task` are at work, and whether this thread works for one."""

    def __init__(self) -> None:
        self._lock, self._here, self._working = Lock(), local(), 0

    def run(self, function: Callable[[Item], Result], item: Item) -> Result:
        """Do a task."""
        self._add(1)
        try:
            with self._at_work():
                return function(item)
        finally:
            self._add(-1)

    def inside(self, work: Callable[[], None]) -> Callable[[], None]:
        """`work` for another thread, for the same task that this thread works for, if it does for any."""
        if not getattr(self._here, "inside", False):
            return work

        def run() -> None:
            with self._at_work():
                work()

        return run

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Inside the block this thread works for a task."""
        before = getattr(self._here, "inside", False)
        self._here.inside = True
        try:
            yield
        finally:
            self._here.inside = before

    def busy_beside(self, cores: int) -> bool:
        """Whether this thread works for a task, and so many tasks are at work that no core is free."""
        return getattr(self._here, "inside", False) and self._working >= cores

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Inside the block this thread waits for another one, and its task needs no core."""
        inside = getattr(self._here, "inside", False)
        self._add(-inside)
        try:
            yield
        finally:
            self._add(inside)

    def _add(self, count: int) -> None:
        with self._lock:
            self._working += count


_tasks = _Tasks()


def wait_for(lock: Any) -> None:
    """Acquire a lock that another thread may hold for long."""
    if not lock.acquire(blocking=False):
        with _tasks.waiting():
            lock.acquire()


def _report_progress(result: Result, done: int, total: int) -> Result:
    """Report that `done` of `total` items are done; return `result`."""
    if total > 1:
        progress.report(0.99 * done / total)  # 1 is reported at the end of the stage
    return result


def uses_device(value: Any, depth: int = _DEPTH) -> bool:
    """Whether `value` is a device array or holds one: in a closure, an attribute, a tuple, a list or a dictionary."""
    if "cupy" not in sys.modules or depth < 0:
        return False
    return on_device(value) or any(uses_device(inner, depth - 1) for inner in _held_by(value))


def _held_by(value: Any) -> list[Any]:
    """The values that a function, a container or an object of this project holds."""
    if isinstance(value, FunctionType):
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != _EMPTY]
        return [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MethodType):
        return [value.__self__, value.__func__]
    if isinstance(value, tuple | list):
        return list(value[:_MEMBERS])
    if isinstance(value, dict):
        return list(value.values())[:_MEMBERS]
    if type(value).__module__.startswith(__name__.partition(".")[0]):
        slots = [getattr(value, name, None) for name in getattr(type(value), "__slots__", ())]
        return [*getattr(value, "__dict__", {}).values(), *slots]
    return []
