"""Values recoded to their ancestors in a hierarchy."""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace


def recode(codes: Array, ancestors: Array, depth: int) -> Array:
    """(n,) the code, at `depth`, of the ancestor of each of the `codes` (n,); nulls (−1) stay null.

    ancestors : (values, depths) the code of each value's ancestor at each depth
    """
    xp = namespace(codes)
    if len(ancestors) == 0:
        return codes
    return xp.where(codes < 0, -1, ancestors[xp.maximum(codes, 0), depth])
