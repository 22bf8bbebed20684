"""Problems with more than 2³¹ elements: for which 32-bit indices would overflow.

The arrays are sparse files that take no room but for the pages that are touched, and only the blocks at the far end of
the grid are executed.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.cuda.support.interpreter import Module
from tests.cuda.support.machine import Watch

BEYOND = 2**31 + 4096
PLAIN = Watch(races=False)  # a history of every word would need memory for every word

Array = np.ndarray[Any, Any]
Kernels = Callable[[str], Module]


def sparse(*shape: int, dtype: Any = np.float32) -> Array:
    """Zeros that take no memory until they are written."""
    with tempfile.TemporaryFile() as file:
        return np.asarray(np.memmap(file, dtype, "w+", shape=shape))


def sums_of_far_rows(kernels: Kernels) -> None:
    d = 3
    n = BEYOND // d
    X = sparse(n, d)
    X[n - 1] = (1, 2, 3)
    X[0] = (10, 20, 30)
    out = np.full((1, d), np.nan)
    args = (X, np.array([n - 1, 0]), np.array([0, 2]), np.int64(1), np.int32(d), out)
    kernels("segment").launch("sums", 1, 128, args, watch=PLAIN)
    np.testing.assert_array_equal(out, [[11, 22, 33]])


def products_of_far_rows(kernels: Kernels) -> None:
    d = 2
    n = BEYOND // d
    X = sparse(n, d)
    X[n - 1] = (3, 5)
    out = np.full((d, d), np.nan)
    bounds, owner, centres = np.array([0, 1]), np.array([0]), np.array([1.0, 1.0])
    args = (X, np.array([n - 1]), bounds, owner, centres, np.int64(1), np.int32(d), out)
    kernels("segment").launch("products", 1, 128, args, watch=PLAIN)
    np.testing.assert_array_equal(out, [[4, 8], [8, 16]])


def distance_from_a_far_row(kernels: Kernels) -> None:
    d = 3
    m = BEYOND // d
    Y = sparse(m, d)
    Y[m - 1] = (1, 2, 3)
    out = np.full(2, np.nan, np.float32)
    args = (np.ones((2, d), np.float32), Y, np.uint64(0), np.array([m - 1, 0]), np.int64(2), np.int32(d), out)
    kernels("distance").launch("paired", 1, 128, args, watch=PLAIN)
    np.testing.assert_array_equal(out, [5, 3])


def far_corner_of_a_matrix(kernels: Kernels) -> None:
    n = m = 46_400  # just above the square root of 2³¹
    X, Y, out = sparse(n, 1), sparse(m, 1), sparse(n, m)
    X[n - 1], Y[m - 1] = 5, 2
    stretch = 8
    grid = (-(-m // 128), n // stretch)
    args = (X, Y, np.uint64(0), np.int64(n), np.int64(m), np.int32(1), np.int64(stretch), out)
    kernels("distance").launch("matrix", grid, 128, args, watch=PLAIN, only=[grid[0] * grid[1] - 1])
    assert out[n - 1, m - 1] == 9
    assert out[n - 1, m - 2] == 25
    assert out[n - 2, m - 1] == 4


def far_random_words(kernels: Kernels) -> None:
    from gpuanon.arrays.rng import philox

    count = 5
    n = BEYOND // count
    records, out = sparse(n, dtype=np.int64), sparse(n, count, dtype=np.uint32)
    records[n - 1] = 7
    args = (records, np.int64(n), np.int32(count), np.uint32(1), np.uint32(2), np.uint32(3), out)
    grid = -(-n * count // 256)
    kernels("random").launch("words", grid, 256, args, watch=PLAIN, only=[grid - 1])
    counters = np.array([[7, 7], [0, 0], [0, 1], [3, 3]], np.uint32)
    four, fifth = philox(counters, (1, 2)).T
    np.testing.assert_array_equal(out[n - 1], [*four, fifth[0]])


def far_columns_of_a_sorted_table(kernels: Kernels) -> None:
    d = 3
    n = BEYOND // 2  # the last column begins beyond 2³¹
    table = sparse(d, n)
    table[2, n - 4 :] = (1, 2, 3, 4)
    u, low, high = np.full((d, 1), 0.7), np.full(1, -1), np.full(1, -1)
    args = (
        u,
        table,
        np.array([0]),
        np.array([n - 4, n]),
        np.uint64(0),
        np.int64(1),
        np.int32(d),
        np.int64(n),
        low,
        high,
    )
    kernels("empirical_inverse").launch("empirical_inverse", 1, 256, args, watch=PLAIN)
    assert (low[0], high[0]) == (n - 2, n - 1)


def far_parts_of_a_partition(kernels: Kernels) -> None:
    d, size, k = 3, 6, 3
    n = BEYOND // 2
    x, labels, pairs = sparse(d, n, dtype=np.int32), sparse(n, dtype=np.int64), sparse(n, dtype=np.int64)
    x[2, n - size :] = (0, 10, 1, 11, 2, 12)
    starts, first = np.array([n - size, n]), np.array([40])
    shared = (4 * d + 16) * (size + 1)
    null = np.uint64(0)
    args = (x, starts, first, np.int32(d), np.int32(k), null, pairs, np.int32(size), np.int64(n), null, labels)
    kernels("kmember").launch("kmember", 1, 32, args, shared=shared, watch=PLAIN)
    np.testing.assert_array_equal(labels[n - size :], [41, 40, 41, 40, 41, 40])


def far_members_of_groups(kernels: Kernels) -> None:
    d, k, n = 3, 2, BEYOND // 2
    X = sparse(n, d, dtype=np.int32)  # the last rows begin beyond 2³¹
    X[n - 4 :, 2] = (0, 10, 1, 11)
    members = np.array([[n - 4, n - 3], [n - 2, n - 1]])
    sizes, order, near = np.array([2, 2]), np.array([0, 1]), np.array([[1, 0]])
    null, change = np.uint64(0), np.full((1, 1), np.nan)
    table = (X, np.int32(d), null, members, sizes, np.int32(k), np.int32(2))
    cells = (order, np.array([0, 2]), near, np.int64(2), np.int32(1))
    steps = (np.int32(0), np.int32(64), np.int32(0), np.int32(1), np.float64(0))
    args = (*table, *cells, *steps, np.zeros(1 << 16), np.int32(2), null, change)
    kernels("refine").launch("anneal", 1, 32, args, shared=24 + 8 * (2 * 5 + 2 * 3 + 8), watch=PLAIN)
    assert sorted(map(sorted, members - (n - 4))) == [[0, 2], [1, 3]]
    assert change[0, 0] == -99  # from 50 + 50 to ½ + ½


def far_cells_of_groups(kernels: Kernels) -> None:
    d, size, count = 3, 4, 2
    g = BEYOND // 2
    centres, near = sparse(d, g, dtype=np.int32), sparse(count, g, dtype=np.int64)
    centres[2, g - size :] = (0, 10, 1, 11)
    sizes = (np.int64(g), np.int32(d), np.int32(count), np.int32(3), np.int32(size))
    shared = 4 * (128 * count + d * (size + 1))
    args = (centres, np.array([g - size, g]), *sizes, near)
    kernels("refine_neighbours").launch("neighbours", 1, 128, args, shared=shared, watch=PLAIN)
    np.testing.assert_array_equal(near[:, g - size :].T - (g - size), [[2, 1], [3, 2], [0, 1], [1, 2]])


PROBLEMS = {
    problem.__name__: problem
    for problem in (
        sums_of_far_rows,
        products_of_far_rows,
        distance_from_a_far_row,
        far_corner_of_a_matrix,
        far_random_words,
        far_columns_of_a_sorted_table,
        far_parts_of_a_partition,
        far_members_of_groups,
        far_cells_of_groups,
    )
}
