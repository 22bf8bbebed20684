"""Small problems that are given to kernels directly: what wrappers ask for only where rounding has broken a tie.

Coordinates are whole numbers, so distances are exact in either type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support.interpreter import Module

Kernels = Callable[[str], Module]
_NONE = np.uint64(0)


def _tables() -> tuple[Any, Any, Any, Any]:
    """Rows, their distances, most of which differ, and floors: below all of them, above a few, above all."""
    rng = np.random.default_rng(5)
    X, Y = (rng.integers(0, 40, (rows, 2)).astype(np.float32) for rows in (70, 37))
    D = ((X[:, None] - Y) ** 2).sum(axis=2).astype(np.float32)
    floors = np.where(np.arange(len(X)) % 2 == 0, np.sort(D, axis=1)[:, 5], 0).astype(np.float32)
    floors[0] = 10_000
    return X, Y, np.maximum(D, floors[:, None]), floors


def nearest_above_a_floor(kernels: Kernels) -> None:
    X, Y, D, floors = _tables()
    n = len(X)
    distance, following = np.full(n, np.nan, np.float32), np.full(n, np.nan, np.float32)
    index, ties = np.full(n, -1), np.full(n, -1)
    sizes = (np.int64(n), np.int64(len(Y)), np.int32(2), np.int64(len(Y)))
    args = (X, Y, _NONE, *sizes, floors, distance, following, index, ties)
    kernels("distance").launch("nearest", 1, 128, args)
    np.testing.assert_array_equal(distance, D.min(axis=1))
    np.testing.assert_array_equal(index, D.argmin(axis=1))
    np.testing.assert_array_equal(ties, (D.min(axis=1, keepdims=True) == D).sum(axis=1))
    np.testing.assert_array_equal(following, np.where(D.min(axis=1, keepdims=True) < D, D, np.inf).min(axis=1))


def lists_above_a_floor(kernels: Kernels) -> None:
    X, Y, D, floors = _tables()
    n, k = len(X), 4
    distance, index = np.full((n, k), np.nan, np.float32), np.full((n, k), -1)
    sizes = (np.int64(n), np.int64(len(Y)), np.int32(2), np.int64(len(Y)))
    args = (X, Y, _NONE, *sizes, np.int32(k), _NONE, _NONE, floors, distance, index)
    kernels("distance").launch("k_nearest", 2, 64, args, shared=64 * k * 12)
    order = np.argsort(D, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(index, order)
    np.testing.assert_array_equal(distance, np.take_along_axis(D, order, axis=1))


FLOORS = {problem.__name__: problem for problem in (nearest_above_a_floor, lists_above_a_floor)}
