"""A repeatable simple random sample of rows, for measures that cannot use every row.

The sample of a measure is not secret: it is drawn with a fixed key, so that a figure can be reproduced.
Masking never uses this module.
"""

from __future__ import annotations

import math

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError

_PUBLIC = Key(b"the sample of a measure is no secret")


def sample_rows(n: int, size: int, name: str) -> Host:
    """`size` of `n` rows without replacement, ascending, on the host; all rows if `size` ≥ `n`."""
    if size < 1:
        raise ParameterError(f"sample: at least one row is needed, got {size}")
    rows = np.arange(n, dtype=np.int64)
    if size >= n:
        return rows
    lots = _PUBLIC.draws(rows, name).uniform()[:, 0]
    return np.sort(np.argsort(lots, kind="stable")[:size])


def share_error(size: int, n: int, confidence: float = 0.95) -> float:
    """Bound of the largest distance between the distribution functions of a sample of `size` and of all `n` rows.

    The bound of Dvoretzky, Kiefer and Wolfowitz, ``sqrt(ln(2 / (1 − confidence)) / (2 size))``, which holds
    without replacement as well; 0 if every row is in the sample.
    """
    if not 0 < confidence < 1:
        raise ParameterError(f"confidence: a number between 0 and 1 is allowed, got {confidence}")
    return 0.0 if size >= n else math.sqrt(math.log(2 / (1 - confidence)) / (2 * size))


def uniform_numbers(count: int, name: str) -> Host:
    """`count` repeatable random numbers in [0, 1), on the host."""
    return np.asarray(_PUBLIC.draws(np.arange(count, dtype=np.int64), name).uniform()[:, 0])
