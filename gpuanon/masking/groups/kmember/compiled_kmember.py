"""k-member under squared Euclidean distances, compiled: see `kmember` for the algorithm.

Rows are whole numbers as float64, and all their sums are exact (`spaces`), so the order of a sum does not matter, and
ties go to the lowest row.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array
from gpuanon.arrays.compiled import ONE, compiled, inner, inner_exact
from gpuanon.masking.groups.greedy.compiled_greedy import BLOCK, FLIP, KEPT, drop_taken, load_part, lowest, measure

_INFINITE = np.int64(0x7FF0000000000000)  # as a float's bits
_LISTED = 64  # rows near a seed that are listed at first: about so many, if the rows are spread evenly


@inner
def _highest(values: Array, a: int) -> int:
    """The first of the highest of `a` values that are finite, found like `lowest`."""
    bits = values.view(np.int64)
    most, block = -FLIP, 0
    for begin in range(0, a - a % BLOCK, BLOCK):
        high = -FLIP
        for i in range(BLOCK):
            key = bits[begin + i] ^ ((bits[begin + i] >> 63) & FLIP)
            high = max(high, key if key < _INFINITE else -FLIP)
        if high > most:
            most, block = high, begin
    for i in range(a - a % BLOCK, a):
        high = bits[i] ^ ((bits[i] >> 63) & FLIP)
        if most < high < _INFINITE:
            most, block = high, i
    most ^= (most >> 63) & FLIP
    for i in range(block, a):
        if bits[i] == most:
            return i
    return 0


@inner
def _list_near(
    columns: Array, square: Array, near: Array, a: int, limit: float, index: Array, listed: tuple[Array, Array]
) -> int:
    """List the rows with `near` of at most `limit`, in their order; return their number.

    index, listed : filled with their indices, and with their coordinates and squares
    """
    found: Array = 0
    for i in range(a):  # no branch: it would be predicted wrongly
        index[found] = i
        found += np.int64(near[i] <= limit)
    for at in range(found):
        listed[1][at] = square[index[at]]
    for j in range(len(columns)):
        for at in range(found):
            listed[0][j, at] = columns[j, index[at]]
    return int(found)


@inner_exact
def _reach(total: Array, count: int, seed: Array, value: float) -> float:
    """A bound: no row that is further from the seed is nearer to the mean of a cluster than a row of this value.

    A row further from the seed than its distance from the mean, added to the seed's, is further from the mean.  Some
    units more than the rounding of the squares.

    total, count : of the cluster;  value : as in `measure`, from the mean
    """
    apart, square = 0.0, 0.0
    for j in range(len(total)):
        apart += (total[j] - count * seed[j]) * (total[j] - count * seed[j])
        square += total[j] * total[j]
    distance: float = np.sqrt(max(0.0, value / count + square / (count * count)) + 64.0 + len(total))
    spread: float = np.sqrt(apart) / count
    return (1 + 1e-9) * (spread + distance)


@inner
def _cheapest(
    free: tuple[Array, Array, Array],
    a: int,
    cluster: tuple[Array, int, Array, float],
    radius: float,
    found: int,
    index: Array,
    listed: tuple[Array, Array],
    values: Array,
) -> tuple[float, int, int]:
    """The row that raises a cluster's distortion least, found among those within a radius of the seed.

    free    : coordinates, squares of the `a` free rows, and their `near`, the squared distance from the seed less its
        own square
    cluster : sum of the rows and their number, the seed and its square
    found   : rows within the radius, which are listed; −1: not yet
    values  : scratch

    Returns
    -------
    radius : in which the row was certain to be;  found : rows listed;  chosen : its place among them
    """
    total, count, seed, own = cluster
    while True:
        if found < 0:
            found = _list_near(free[0], free[1], free[2], a, radius * radius - own, index, listed)
        measure(listed[0], listed[1], total, count, found, values)
        chosen = lowest(values, found)
        if found == 0 or not values[chosen] < np.inf:  # all rows within the radius are taken
            radius, found = 2 * radius, -1
            continue
        needed = _reach(total, count, seed, values[chosen])
        if needed < radius:
            return radius, found, chosen
        radius, found = 1.1 * needed, -1


@compiled
def kmember_parts(
    rows: Array, order: Array, starts: Array, first_part: int, last_part: int, k: int, labels: Array, largest: int
) -> None:
    """Write each row's cluster inside its part to `labels` (n,), for the parts from `first_part` to before `last_part`.

    All free rows are measured from the seed.  The rows that may be nearest to the mean of its cluster are near the
    seed too: only these are measured from it.

    rows    : (n, d) int32
    largest : rows of the largest of these parts
    """
    d = rows.shape[1]
    columns, square, near = np.empty((d, largest), np.int32), np.empty(largest), np.empty(largest)
    position, seed, total = np.empty(largest, np.int64), np.empty(d), np.empty(d)
    index, values = np.empty(largest, np.int64), np.empty(largest)
    listed = np.empty((d, largest), np.int32), np.empty(largest)
    usual = _LISTED ** (1 / d)
    for part in range(first_part, last_part):
        begin, n = starts[part], starts[part + 1] - starts[part]
        load_part(rows, order, begin, n, columns, square, position)
        for i in range(n):
            labels[order[begin + i]] = -1
        a, taken = n, 0
        for j in range(d):
            seed[j] = columns[j, 0]
        measure(columns, square, seed, ONE, a, near)
        for number in range(n // k):
            best = _highest(near, a)
            for j in range(d):
                seed[j], total[j] = columns[j, best], columns[j, best]
            own = square[best]
            square[best] = np.inf
            labels[order[begin + position[best]]] = number
            measure(columns, square, seed, ONE, a, near)
            best = lowest(near, a)
            radius, found = usual * np.sqrt(max(0.0, near[best] + own) + 64.0), -ONE
            for count in range(1, k):
                if count > 1:
                    radius, found, chosen = _cheapest(
                        (columns, square, near), a, (total, count, seed, own), radius, found, index, listed, values
                    )
                    best = index[chosen]
                    listed[1][chosen] = np.inf
                labels[order[begin + position[best]]] = number
                for j in range(d):
                    total[j] += columns[j, best]
                square[best], near[best] = np.inf, np.inf
            taken += k
            if a - taken <= KEPT * a:
                a, taken = drop_taken(columns, square, position, near, a), 0
        if n % k:
            _place_leftovers(rows, order, begin, n, n // k, labels)


@inner
def _place_leftovers(rows: Array, order: Array, begin: int, n: int, clusters: int, labels: Array) -> None:
    """Add the rows without a cluster, in ascending order, to that whose distortion they raise least."""
    d = rows.shape[1]
    totals, counts = np.zeros((clusters, d), np.int64), np.zeros(clusters, np.int64)
    for i in range(n):
        row = order[begin + i]
        if labels[row] >= 0:
            counts[labels[row]] += 1
            for j in range(d):
                totals[labels[row], j] += rows[row, j]
    for i in range(n):
        row = order[begin + i]
        if labels[row] >= 0:
            continue
        least, best = np.int64(0), -1
        for c in range(clusters):
            raised = np.int64(0)
            for j in range(d):
                apart = counts[c] * np.int64(rows[row, j]) - totals[c, j]
                raised += apart * apart
            raised //= counts[c] * (counts[c] + 1)
            if best < 0 or raised < least:
                least, best = raised, c
        labels[row] = best
        counts[best] += 1
        for j in range(d):
            totals[best, j] += rows[row, j]
