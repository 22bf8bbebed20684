"""Sets of whole numbers by sorting: `numpy.unique` and `numpy.isin` hash, which takes several times as long."""

from __future__ import annotations

from typing import Any

import numpy as np

Host = np.ndarray[Any, Any]


def distinct_count(ascending: Host) -> int:
    """How many different numbers there are in `ascending` (n,)."""
    return int(np.count_nonzero(ascending[1:] != ascending[:-1])) + (len(ascending) > 0)


def all_among(ascending: Host, allowed: Host) -> bool:
    """Whether every number of `ascending` (n,) is in `allowed` (m,), which ascends too."""
    if len(ascending) == 0 or len(allowed) == 0:
        return len(ascending) == 0
    place = np.minimum(np.searchsorted(allowed, ascending), len(allowed) - 1)
    return bool((allowed[place] == ascending).all())


def occurs_once(ascending: Host) -> Host:
    """(n,) whether a number of `ascending` (n,) is there only once."""
    new = np.ones(len(ascending) + 1, dtype=bool)
    new[1:-1] = ascending[1:] != ascending[:-1]
    return new[:-1] & new[1:]
