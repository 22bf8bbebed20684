"""One BLAS thread per call while our own thread pool uses all cores.

Two thread pools on the same cores slow each other down.  And a product that BLAS splits over threads may round
differently, so that the number of cores would change a release.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread in the whole process; calls may be nested and may overlap in time."""
    global _users, _limits
    with _lock:
        if _users == 0:
            _limits = _controller(len(sys.modules)).limit(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()


@lru_cache(maxsize=1)
def _controller(modules: int) -> Any:
    """The libraries that are loaded: the search for them takes milliseconds and is repeated after an import only.

    modules : number of imported modules
    """
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


@contextmanager
def one_openmp_thread() -> Iterator[None]:
    """Limit OpenMP to one thread: its threads wait for each other by spinning, which starves on cores that are busy."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="openmp"):
        yield
