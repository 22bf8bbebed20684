"""MDAV under squared Euclidean distances, compiled, and what it shares with k-member: see `mdav` for the algorithm.

Rows are whole numbers as float64, and all their sums are exact (`spaces`), so the order of a sum does not matter, and
ties go to the lowest row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import ONE, ZERO, compiled, inner, inner_exact

BLOCK = 64
FLIP = np.int64(0x7FFFFFFFFFFFFFFF)  # all bits but the sign
KEPT = 0.75  # share of free rows below which taken ones are dropped from the arrays


@inner_exact
def measure(columns: Host, square: Host, point: Host, count: int, a: int, values: Host) -> None:
    """``count · |x|² − 2 x·point`` of `a` rows into `values`: it increases with the distance from ``point / count``."""
    d = len(columns)
    for i in range(a):
        values[i] = count * square[i] if count else 0.0
    for j in range(0, d - 3, 4):  # four columns at a time: `values` is read and written less often
        f, g, h, e = -2 * point[j], -2 * point[j + 1], -2 * point[j + 2], -2 * point[j + 3]
        for i in range(a):
            values[i] += f * columns[j, i] + g * columns[j + 1, i] + h * columns[j + 2, i] + e * columns[j + 3, i]
    for j in range(d - d % 4, d):
        f = -2 * point[j]
        for i in range(a):
            values[i] += f * columns[j, i]


@inner
def lowest(values: Host, a: int) -> int:
    """The first of the lowest of `a` values.

    They are compared by their bits, which as whole numbers are ordered like the values once those of negative ones are
    flipped: unlike a minimum of floats, a minimum of whole numbers is taken many at a time.  No value is −0.0 while
    another is 0.0.
    """
    bits = values.view(np.int64)
    least, block = FLIP, 0
    for begin in range(0, a - a % BLOCK, BLOCK):
        low = FLIP
        for i in range(BLOCK):
            low = min(low, bits[begin + i] ^ ((bits[begin + i] >> 63) & FLIP))
        if low < least:
            least, block = low, begin
    for i in range(a - a % BLOCK, a):
        low = bits[i] ^ ((bits[i] >> 63) & FLIP)
        if low < least:
            least, block = low, i
    least ^= (least >> 63) & FLIP
    for i in range(block, a):
        if bits[i] == least:
            return i
    return 0


@inner
def _furthest(values: Host, square: Host, a: int) -> int:
    """The first of the highest of the values of rows that are free."""
    for i in range(a):
        values[i] = -values[i] if square[i] < np.inf else np.inf
    return lowest(values, a)


@inner
def load_part(rows: Host, order: Host, begin: int, n: int, columns: Host, square: Host, position: Host) -> None:
    """The n rows of a part, column by column, with the sums of their squares and their positions in it."""
    for i in range(n):
        row = order[begin + i]
        position[i] = i
        square[i] = 0.0
        for j in range(len(columns)):
            columns[j, i] = rows[row, j]
            square[i] += np.float64(rows[row, j]) * np.float64(rows[row, j])


@inner
def drop_taken(columns: Host, square: Host, position: Host, near: Host, a: int) -> int:
    """Move the free rows to the front, in their order, with all that is known of them; return their number."""
    free = 0
    for i in range(a):
        if square[i] < np.inf:
            square[free], position[free], near[free] = square[i], position[i], near[i]
            for j in range(len(columns)):
                columns[j, free] = columns[j, i]
            free += 1
    return free


@inner_exact
def _measure_from_mean(columns: Host, square: Host, total: Host, n: int, a: int, work: Host, values: Host) -> int:
    """The first of the free rows furthest from the mean of all n of them, whose sum is `total`.

    With ``total = n c + r``, ``n (|x|² − 2 x·c) − 2 x·r`` increases with the distance: products below 2^53, the sum in
    64-bit integers.

    work : (2, a), overwritten;  values : (a,) int64, overwritten
    """
    centre, rest = np.empty(len(total)), np.empty(len(total))
    for j in range(len(total)):
        whole = total[j] // n
        centre[j], rest[j] = whole, total[j] - n * whole
    measure(columns, square, centre, ONE, a, work[0])
    measure(columns, square, rest, ZERO, a, work[1])
    highest = np.iinfo(np.int64).min
    for i in range(a):
        free = square[i] < np.inf
        near, far = work[0, i] if free else 0.0, work[1, i] if free else 0.0
        values[i] = n * np.int64(near) + np.int64(far) if free else np.iinfo(np.int64).min
        highest = max(highest, values[i])
    for i in range(a):
        if values[i] == highest:
            return i
    return 0


@inner
def lowest_few(values: Host, a: int, count: int, far: Any, least: Host, index: Host) -> None:
    """The `count` lowest of `a` values, all below `far`, into `index`; of equal values the first."""
    for slot in range(count):
        least[slot], index[slot] = far, 0
    for i in range(a):
        if values[i] < least[count - 1]:
            slot = count - 1
            while slot > 0 and values[i] < least[slot - 1]:
                least[slot], index[slot] = least[slot - 1], index[slot - 1]
                slot -= 1
            least[slot], index[slot] = values[i], i


@compiled
def mdav_parts(
    rows: Host, order: Host, starts: Host, first_part: int, last_part: int, k: int, labels: Host, largest: int
) -> None:
    """Write each row's group inside its part to `labels` (n,), for the parts from `first_part` to before `last_part`.

    rows    : (n, d) int32
    largest : rows of the largest of these parts
    """
    d = rows.shape[1]
    columns, square, position = np.empty((d, largest), np.int32), np.empty(largest), np.empty(largest, np.int64)
    work, values = np.empty((2, largest)), np.empty(largest, np.int64)
    least, chosen = np.empty(k), np.empty(k, np.int64)
    at_r, centre = np.empty(d), np.empty(d)
    for part in range(first_part, last_part):
        begin, n = starts[part], starts[part + 1] - starts[part]
        load_part(rows, order, begin, n, columns, square, position)
        total = np.zeros(d, np.int64)
        for i in range(n):
            labels[order[begin + i]] = n // k - 1  # rows that are never taken form the last group
            for j in range(d):
                total[j] += rows[order[begin + i], j]
        a, left, number = n, n, 0
        while left >= 2 * k:
            for side in range(2 if left >= 3 * k else 1):
                if side == 0:
                    best = _measure_from_mean(columns, square, total, left, a, work, values)
                    for j in range(d):
                        at_r[j] = columns[j, best]
                else:
                    measure(columns, square, at_r, ONE, a, work[0])
                    best = _furthest(work[0], square, a)
                for j in range(d):
                    centre[j] = columns[j, best]
                measure(columns, square, centre, ONE, a, work[0])
                work[0, best] = -np.inf  # the centre comes first
                lowest_few(work[0], a, k, np.inf, least, chosen)
                for slot in range(k):
                    labels[order[begin + position[chosen[slot]]]] = number
                    square[chosen[slot]] = np.inf
                    for j in range(d):
                        total[j] -= np.int64(columns[j, chosen[slot]])
                number += 1
                left -= k
            if left <= KEPT * a:
                a = drop_taken(columns, square, position, work[0], a)
