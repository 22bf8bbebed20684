"""Workers that are processes of this machine, started for one run and ended after it."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import connection, get_context
from typing import Any, Self

from gpuanon.arrays import progress
from gpuanon.arrays.threads import thread_count
from gpuanon.errors import BackendError


@dataclass(frozen=True)
class Ended:
    """Stands for the result of a task that was ended, or never begun.

    seconds : that it had been at work; None: it was not begun
    by_us   : the time was over; otherwise its process ended by itself, as for want of memory
    """

    seconds: float | None
    by_us: bool = True


class Processes:
    """So many processes, which share the cores; a task, with all that it holds, is sent once to each.

    They are started by the first call and last until `close`.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._started: list[_Process] = []
        self._sent: Any = None
        self._bytes = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __call__(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        until: float | None = None,
        seconds: float | None = None,
        told: Callable[[int, Any], None] = lambda at, result: None,
    ) -> list[Any]:
        """Apply `task` to every item; results in the order of the items.

        until   : `time.monotonic()` at which what is not done is ended or left; its result is `Ended`
        seconds : that an item may take as long as others wait
        told    : is given the number of an item and its result when it is done
        """
        results: dict[int, Any] = {}
        waiting = deque(enumerate(items))
        try:
            self._start(task, len(items))
            while len(results) < len(items):
                progress.report(0.99 * len(results) / len(items))
                for process in self._started:
                    if process.item is None and process.is_ready() and waiting:
                        process.give(*waiting.popleft())
                connection.wait([process.pipe for process in self._started], timeout=0.2)
                over = until is not None and time.monotonic() >= until
                for process in [process for process in self._started if process.item is not None]:
                    assert process.item is not None
                    at, late = process.item, seconds is not None and waiting and process.took > seconds
                    if process.pipe.poll():
                        found = process.taken()
                    elif over or late:
                        found = Ended(process.took)
                    else:
                        continue
                    if isinstance(found, Ended):
                        self._replace(process)
                    results[at] = found
                    told(at, found)
                if over:
                    results |= {at: Ended(None) for at in range(len(items)) if at not in results}
        except BaseException:
            self.close()
            raise
        return [results[at] for at in range(len(items))]

    def _start(self, task: Callable[[Any], Any], items: int) -> None:
        """Start what is missing, and send the task to those that have another."""
        if task is not self._sent:
            self._sent, self._bytes = task, pickle.dumps(("task", task))
            for process in self._started:
                process.prepare(self._bytes)
        more = [self._process() for _ in range(min(self.count, items) - len(self._started))]
        self._started += more
        for process in more:  # all of them are starting by now
            process.prepare(self._bytes)

    def _process(self) -> _Process:
        return _Process(max(1, thread_count() // max(1, self.count)))

    def _replace(self, process: _Process) -> None:
        process.end()
        new = self._started[self._started.index(process)] = self._process()
        new.prepare(self._bytes)

    def close(self) -> None:
        """End all processes: what is under way is of no use any more."""
        for process in self._started:
            process.end()
        self._started, self._sent = [], None


class _Process:
    """One process, and the item that it is at."""

    def __init__(self, threads: int) -> None:
        self.pipe, theirs = get_context("spawn").Pipe()
        self._process = get_context("spawn").Process(target=_serve, args=(theirs, threads, os.getpid()))
        with progress.interrupts_here():
            self._process.start()
        theirs.close()
        self.item: int | None = None
        self._began, self._due = 0.0, 0

    def prepare(self, task: bytes) -> None:
        """Send a task."""
        self._due += 1
        self.pipe.send_bytes(task)

    def is_ready(self) -> bool:
        """Whether it has loaded all that the task needs, which is no time of an item."""
        while self._due and self.pipe.poll():
            try:
                self._due -= self.pipe.recv() == READY
            except (EOFError, OSError):
                raise BackendError("workers: a process ended before it was given anything to do") from None
        return self._due == 0

    @property
    def took(self) -> float:
        return time.monotonic() - self._began

    def give(self, number: int, item: Any) -> None:
        """Send an item."""
        self.item, self._began = number, time.monotonic()
        with suppress(OSError):  # a process that has ended is found when its result is taken
            self.pipe.send_bytes(pickle.dumps(("item", item)))

    def taken(self) -> Any:
        """The result of the item, or `Ended`; a failure is raised."""
        self.item = None
        try:
            failure, result = self.pipe.recv()
        except (EOFError, OSError):
            return Ended(self.took, by_us=False)
        if failure is not None:
            raise failure
        return result

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()


READY = "ready"
_THREADS = ("GPUANON_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS")
"""Variables by which this package and the libraries below it are told how many threads to use."""


def _serve(pipe: Any, threads: int, parent: int) -> None:
    """What a process does: receive a task, then items, until the pipe is closed."""
    _begin(threads, parent)
    task: Callable[[Any], Any] | None = None
    with suppress(EOFError, OSError):
        while True:
            what, received = pickle.loads(pipe.recv_bytes())
            if what == "task":
                task = received
                pipe.send(READY)
                continue
            assert task is not None
            found: tuple[Exception | None, Any] = (None, None)
            try:
                found = (None, task(received))
            except Exception as error:
                found = (error, None)
            pipe.send(found)


def _begin(threads: int, parent: int) -> None:
    """Prepare a process: its share of the cores, and an end when its parent has ended."""
    from threadpoolctl import threadpool_limits

    # Libraries that are loaded obey the limit; those that are loaded later (SciPy's own BLAS, OpenMP) the environment.
    os.environ |= dict.fromkeys(_THREADS, str(threads))
    threadpool_limits(threads)
    threading.Thread(target=_end_with, args=(parent, os._exit), daemon=True).start()


def _end_with(parent: int, end: Callable[[int], Any]) -> None:
    while os.getppid() == parent:
        time.sleep(0.5)
    end(1)
