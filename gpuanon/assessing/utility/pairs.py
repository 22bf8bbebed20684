"""What original and release need so that they can be compared."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, Host
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows


def require_comparable(original: Array, release: Array) -> None:
    """Both tables need the same columns and at least one row."""
    if original.ndim != 2 or release.ndim != 2 or original.shape[1] != release.shape[1]:
        raise ParameterError("columns: original and release need the same ones")
    if len(original) == 0 or len(release) == 0:
        raise ParameterError("rows: original and release need at least one each")


def sampled_pairs(original: Host, release: Host, link: Host, rows: int) -> tuple[Host, Host, Host]:
    """At most `rows` originals, each with one released record of its own, and their link."""
    known = np.flatnonzero(link >= 0)
    mates, first = np.unique(link[known], return_index=True)
    if not len(mates):
        raise ParameterError("link: no released record has an original")
    chosen = sample_rows(len(mates), rows, "pairs")
    return original[mates[chosen]], release[known[first[chosen]]], np.arange(len(chosen), dtype=np.int64)
