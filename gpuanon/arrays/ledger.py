"""A ledger of a run: seconds by stage, launches by kernel, and peak memory; no value of a table is in it.

What CuPy's own functions cost is counted on the tests' stand-in for CuPy, by ``bench/device.py``: CuPy itself does not
report its launches.
"""

from __future__ import annotations

import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

OUTSIDE = "outside of stages"


class Ledger:
    """What a run has cost so far.

    clock : seconds of the host; a simulation of a device leaves its own time out
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.launches: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._clock, self._began, self._stages = clock, clock(), [OUTSIDE]
        self._thread = threading.get_ident()

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """The time of the block is that of the stage `name`, without that of the stages inside it.

        Only stages of the thread that made the ledger count: it waits for those of others.
        """
        if threading.get_ident() != self._thread:
            yield
            return
        self._charge()
        self._stages.append(name or self._stages[-1])
        try:
            yield
        finally:
            self._charge()
            self._stages.pop()

    def _charge(self) -> None:
        """Add the time since the last change of stage to the current stage."""
        now = self._clock()
        self._seconds[self._stages[-1]] += now - self._began
        self._began = now

    def seconds(self) -> dict[str, float]:
        """Seconds of each stage so far, the longest first."""
        self._charge()
        return dict(sorted(self._seconds.items(), key=lambda item: -item[1]))

    def to_json(self) -> dict[str, Any]:
        """The ledger as a file holds it."""
        seconds = self.seconds()
        return {
            "seconds": {name: round(value, 6) for name, value in seconds.items()},
            "seconds_in_all": round(sum(seconds.values()), 6),
            "launches": dict(self.launches.most_common()),
            "peak_bytes": peak_bytes(),
            "peak_device_bytes": peak_device_bytes(),
            "about": "seconds of the process that began the run, each stage without the stages inside it; launches of"
            " this project's kernels by that process, without CuPy's own; peak_bytes: most memory of that process;"
            " peak_device_bytes: what CuPy's memory pool holds at the end, its most so far; null: not known here",
        }


_current: Ledger | None = None


@contextmanager
def recording(ledger: Ledger | None = None) -> Iterator[Ledger]:
    """Record what the block, or the decorated function, costs; by default in a ledger of its own."""
    global _current
    previous, _current = _current, ledger or Ledger()
    try:
        yield _current
    finally:
        _current = previous


def current() -> Ledger | None:
    """The ledger that is being written, or None."""
    return _current


def peak_bytes() -> int | None:
    """Most resident memory of this process so far; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def peak_device_bytes() -> int | None:
    """What CuPy's memory pool holds: it keeps what is freed.  None without CuPy, or with another allocator."""
    cupy = sys.modules.get("cupy")
    if cupy is None or not cupy.cuda.is_available():
        return None
    pool = cupy.get_default_memory_pool()
    return int(pool.total_bytes()) if cupy.cuda.get_allocator() == pool.malloc else None
