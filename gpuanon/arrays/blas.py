"""One BLAS thread a call, where our own threads already keep the cores busy.

Two pools on the same cores only wait for each other; and a product that is split over threads may round
differently, which would let the number of cores change a release.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_users = 0
_limits: Any = None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Hold the BLAS of the whole process to one thread; callers may nest and overlap in time."""
    global _users, _limits
    from threadpoolctl import threadpool_limits

    with _lock:
        if _users == 0:
            _limits = threadpool_limits(limits=1, user_api="blas")
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if _users == 0:
                _limits.restore_original_limits()
