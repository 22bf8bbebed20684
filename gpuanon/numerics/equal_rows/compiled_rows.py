"""Comparison of rows bit by bit, compiled: see `equal_rows`.  Nothing is rounded, so the answer is that of NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import compiled, inner

_SIGN = np.uint64(1 << 63)
_INFINITE = np.uint64(0x7FF << 52)
_QUIET = np.uint64(1 << 51)  # of a NaN, which any sum of floats sets


@inner
def _plus_zero(word: Any) -> Any:
    """The bits of a float, given by its bits, plus 0.0."""
    size = word & ~_SIGN
    if size == 0:
        return size
    return word | _QUIET if size > _INFINITE else word


@compiled
def any_differs(words: Host, floats: bool, order: Host, alike: Host) -> bool:
    """Whether one of the rows at the places `alike` of an order differs from the row before it.

    words  : (n, d) uint64 bits of the rows
    floats : whether they are floats, of which −0.0 is 0.0
    """
    for at in alike:
        this, last = order[at], order[at - 1]
        for j in range(words.shape[1]):
            x, y = words[this, j], words[last, j]
            if x != y and not (floats and _plus_zero(x) == _plus_zero(y)):
                return True
    return False
