"""Sets of whole numbers by sorting: `numpy.unique` and `numpy.isin` hash, which takes several times as long."""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace


def distinct_count(ascending: Array) -> int:
    """How many different numbers there are in `ascending` (n,)."""
    return int(namespace(ascending).count_nonzero(ascending[1:] != ascending[:-1])) + (len(ascending) > 0)


def all_among(ascending: Array, allowed: Array) -> bool:
    """Whether every number of `ascending` (n,) is in `allowed` (m,), which ascends too."""
    if len(ascending) == 0 or len(allowed) == 0:
        return len(ascending) == 0
    xp = namespace(ascending)
    place = xp.minimum(xp.searchsorted(allowed, ascending), len(allowed) - 1)
    return bool((allowed[place] == ascending).all())


def occurs_once(ascending: Array) -> Array:
    """(n,) whether a number of `ascending` (n,) is there only once."""
    new = namespace(ascending).ones(len(ascending) + 1, dtype=bool)
    new[1:-1] = ascending[1:] != ascending[:-1]
    return new[:-1] & new[1:]
