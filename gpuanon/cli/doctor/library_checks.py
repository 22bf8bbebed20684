"""Small problems for the library that a GPU has beside our kernels, cuML, each solved by scikit-learn as well.

`gpuanon doctor` runs them on a user's GPU.  Their answers do not depend on rounding, so they have to be equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gpuanon.arrays import rapids
from gpuanon.arrays.backend import Array, Host, to_host

Put = Callable[[Host], Array]
"""Brings a host array where the check computes."""


def _clusters(put: Put) -> Array:
    """Sixty rows round three corners, far from each other."""
    corners = np.array([[0.0, 0.0], [64.0, 0.0], [0.0, 64.0]])
    spread = np.random.default_rng(1).integers(-8, 9, size=(60, 2)) / 8
    return rapids.kmeans(put(np.repeat(corners, 20, axis=0) + spread), put(corners + 8))[0]


def _forest(put: Put) -> Array:
    """Two classes that every column tells apart."""
    rng = np.random.default_rng(2)
    y = np.arange(400.0) % 2
    X = rng.integers(0, 32, size=(400, 4)) / 8 + 64 * y[:, None]
    return rapids.forest(put(X[:300]), put(y[:300]), put(X[300:]), trees=20)


CHECKS: dict[str, Callable[[Put], Array]] = {
    "cuML k-means": _clusters,
    "cuML forest": _forest,
}


def agrees(name: str, cupy: Any) -> bool:
    """Whether cuML, on the current device, gives the answer of scikit-learn to the problem of that name."""
    compute = CHECKS[name]
    return bool(np.array_equal(to_host(compute(cupy.asarray)), compute(np.asarray)))
