"""Distances between rows of groups, and their sums, compiled: what the best exchange between two groups is found from.

The groups are an array (g, d, w): the rows of a group lie beside each other in each column, so that the distances of a
row from all rows of a group are computed together.  All rows are whole numbers as float64, all sums are exact.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import ZERO, inner_exact


@inner_exact
def fill_distances(x: Host, a: int, i: int, b: int, n: int, mismatch: Host, apart: Host, line: int) -> float:
    """Fill ``apart[line, :n]``: distances of slot i of the group a from the n rows of the group b; return their sum.

    Squared Euclidean distances, or Gower's if `mismatch` is not empty.
    """
    for r in range(n):
        apart[line, r] = 0.0
    for j in range(x.shape[1]):
        value = x[a, j, i]
        if len(mismatch) == 0:
            for r in range(n):
                apart[line, r] += (value - x[b, j, r]) * (value - x[b, j, r])
        elif mismatch[j] < 0:
            for r in range(n):
                apart[line, r] += abs(value - x[b, j, r])
        else:
            distance = float(mismatch[j])
            for r in range(n):
                apart[line, r] += distance if value != x[b, j, r] else 0.0
    total = 0.0
    for r in range(n):
        total += apart[line, r]
    return total


@inner_exact
def load_within(x: Host, a: int, n: int, mismatch: Host, within: Host, apart: Host) -> float:
    """Fill ``within[a, :n]``: sums of each row's distances over its own group; return the sum of all."""
    total = 0.0
    for i in range(n):
        within[a, i] = fill_distances(x, a, i, a, n, mismatch, apart, ZERO)
        total += within[a, i]
    return total


@inner_exact
def fill_between(
    x: Host, a: int, n_a: int, b: int, n_b: int, mismatch: Host, apart: Host, to_b: Host, to_a: Host
) -> None:
    """Fill apart (w, w), the distances between the rows of two groups, and the sums of its lines and columns (w,)."""
    for r in range(n_b):
        to_a[r] = 0.0
    for i in range(n_a):
        to_b[i] = fill_distances(x, a, i, b, n_b, mismatch, apart, i)
        for r in range(n_b):
            to_a[r] += apart[i, r]


@inner_exact
def take_out(x: Host, a: int, i: int, n: int, mismatch: Host, within: Host, apart: Host) -> None:
    """Subtract the distances of slot i from the sums of its group, which the row is about to leave."""
    fill_distances(x, a, i, a, n, mismatch, apart, ZERO)
    for s in range(n):
        within[a, s] -= apart[0, s]


@inner_exact
def put_in(x: Host, a: int, i: int, n: int, mismatch: Host, within: Host, apart: Host) -> None:
    """Add the distances of slot i to the sums of its group, which the row has joined, and sum its own."""
    total = fill_distances(x, a, i, a, n, mismatch, apart, ZERO)
    for s in range(n):
        within[a, s] += apart[0, s]
    within[a, i] = total


@inner_exact
def best_swap(
    own_a: Host, to_b: Host, own_b: Host, to_a: Host, apart: Host, n_a: int, n_b: int, gain: Host
) -> tuple[float, int, int]:
    """The best swap between two groups: n_a · n_b times its change, and its slots; ties go to the lowest.

    own_a, to_b, own_b, to_a : sums of the distances of each row over its own group and over the other one
    gain                     : (w,) scratch
    """
    for r in range(n_b):
        gain[r] = n_b * to_a[r] - n_a * own_b[r]
    least, best_i, best_r = np.inf, 0, 0
    for i in range(n_a):
        own = n_a * to_b[i] - n_b * own_a[i]
        for r in range(n_b):
            value = own + gain[r] - (n_a + n_b) * apart[i, r]
            if value < least:
                least, best_i, best_r = value, i, r
    return least, best_i, best_r
