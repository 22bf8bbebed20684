"""k-member and MDAV under Gower's distance, compiled: see `kmember` and `mdav` for the algorithms.

Rows and distances are whole numbers, and so are all their sums: the NumPy twins hold them as float64 below 2^53, where
they are exact, and these functions as integers.  So both compare the same numbers, and ties go to the lowest row.  A
distance is at most 2^29 and one for each column (`whole_numbers`): it fits 32 bits.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array
from gpuanon.arrays.compiled import ZERO, compiled, inner
from gpuanon.masking.groups.greedy.compiled_greedy import BLOCK, KEPT, lowest_few

_TAKEN = np.int32(-1)  # in place of the distance of a row that is taken: nearer than any
_FAR = np.int32(0x7FFFFFFF)  # further than any row
_DEAR = np.int64(1 << 62)  # more than any sum of distances


@inner
def _load_part(rows: Array, order: Array, begin: int, n: int, columns: Array, position: Array, near: Array) -> None:
    """The n rows of a part, column by column, with their positions in it; none is taken."""
    for i in range(n):
        row = order[begin + i]
        position[i], near[i] = i, 0
        for j in range(len(columns)):
            columns[j, i] = rows[row, j]


@inner
def _drop_taken(columns: Array, position: Array, near: Array, a: int) -> int:
    """Move the rows that are not taken to the front, in their order; return their number."""
    free = 0
    for i in range(a):
        if near[i] != _TAKEN:
            near[free], position[free] = near[i], position[i]
            for j in range(len(columns)):
                columns[j, free] = columns[j, i]
            free += 1
    return free


@inner
def _measure(columns: Array, mismatch: Array, at: int, a: int, apart: Array) -> None:
    """Distances of `a` rows from the row `at` into `apart`."""
    for i in range(a):
        apart[i] = 0
    for j in range(len(columns)):
        x, other = columns[j, at], mismatch[j]
        if other < 0:
            for i in range(a):
                gap = np.int32(columns[j, i] - x)  # 32 bits: twice as many at a time
                apart[i] += gap if gap > 0 else np.int32(-gap)
        else:
            for i in range(a):
                apart[i] += other if columns[j, i] != x else np.int32(0)


@inner
def _highest(values: Array, a: int) -> int:
    """The first of the highest of `a` values of 0 or more; the others are passed over."""
    most, block = _TAKEN, 0
    for begin in range(0, a, BLOCK):
        high = _TAKEN
        for i in range(begin, min(a, begin + BLOCK)):
            high = max(high, values[i])
        if high > most:
            most, block = high, begin
    for i in range(block, a):
        if values[i] == most:
            return i
    return 0


@inner
def _lowest(values: Array, a: int) -> int:
    """The first of the lowest of `a` values."""
    least, block = _DEAR, 0
    for begin in range(0, a, BLOCK):
        low = _DEAR
        for i in range(begin, min(a, begin + BLOCK)):
            low = min(low, values[i])
        if low < least:
            least, block = low, begin
    for i in range(block, a):
        if values[i] == least:
            return i
    return 0


@compiled
def kmember_gower_parts(
    mismatch: Array,
    rows: Array,
    order: Array,
    starts: Array,
    first_part: int,
    last_part: int,
    k: int,
    labels: Array,
    largest: int,
) -> None:
    """Write each row's cluster inside its part to `labels` (n,), for the parts from `first_part` to before `last_part`.

    mismatch : (d,) int32 distance of two categories of a column, −1 for numeric columns
    rows     : (n, d) int32
    largest  : rows of the largest of these parts
    """
    columns, position = np.empty((rows.shape[1], largest), np.int32), np.empty(largest, np.int64)
    near, apart = np.empty(largest, np.int32), np.empty(largest, np.int32)  # distances from the seed, from a member
    cost = np.empty(largest, np.int64)  # sum of the distances from all members of the cluster
    for part in range(first_part, last_part):
        begin, n = starts[part], starts[part + 1] - starts[part]
        _load_part(rows, order, begin, n, columns, position, near)
        for i in range(n):
            labels[order[begin + i]] = -1
        a, taken = n, 0
        _measure(columns, mismatch, ZERO, a, near)
        for number in range(n // k):
            best = _highest(near, a)
            for count in range(k):
                if count > 0:
                    best = _lowest(cost, a)
                labels[order[begin + position[best]]] = number
                if count < k - 1:
                    _measure(columns, mismatch, best, a, apart)
                    for i in range(a):
                        free = near[i] != _TAKEN
                        if count == 0:
                            near[i] = apart[i] if free else _TAKEN
                            cost[i] = apart[i] if free else _DEAR
                        else:
                            cost[i] += apart[i]
                near[best], cost[best] = _TAKEN, _DEAR
            taken += k
            if a - taken <= KEPT * a:
                a, taken = _drop_taken(columns, position, near, a), 0
        if n % k:
            _place_leftovers(mismatch, rows, order, begin, n, k, labels)


@inner
def _place_leftovers(mismatch: Array, rows: Array, order: Array, begin: int, n: int, k: int, labels: Array) -> None:
    """Add the rows without a cluster, in ascending order, to that whose distortion they raise least."""
    clusters = n // k
    members, counts = np.empty((clusters, 2 * k), np.int64), np.empty(clusters, np.int64)
    pairs, reach = np.empty(clusters, np.int64), np.empty(clusters, np.int64)  # sums of distances
    for c in range(clusters):
        counts[c], pairs[c] = 0, 0
    for i in range(begin, begin + n):
        row = order[i]
        c = labels[row]
        if c >= 0:
            for slot in range(counts[c]):
                pairs[c] += _distance(rows, mismatch, row, members[c, slot])
            members[c, counts[c]] = row
            counts[c] += 1
    for i in range(begin, begin + n):
        row = order[i]
        if labels[row] >= 0:
            continue
        least, best = np.int64(0), -1
        for c in range(clusters):
            reach[c] = 0
            for slot in range(counts[c]):
                reach[c] += _distance(rows, mismatch, row, members[c, slot])
            raised = (counts[c] * reach[c] - pairs[c]) // (counts[c] * (counts[c] + 1))
            if best < 0 or raised < least:
                least, best = raised, c
        labels[row] = best
        pairs[best] += reach[best]
        members[best, counts[best]] = row
        counts[best] += 1


@inner
def _distance(rows: Array, mismatch: Array, a: int, b: int) -> int:
    """Distance of two rows."""
    total: Array = np.int64(0)
    for j in range(len(mismatch)):
        gap = np.int64(rows[a, j]) - np.int64(rows[b, j])
        if mismatch[j] < 0:
            total += abs(gap)
        elif gap != 0:
            total += mismatch[j]
    return int(total)


@inner
def _sort_levels(column: Array, n: int, levels: Array) -> int:
    """The different values of a column of n rows into `levels`, ascending; return their number."""
    found = ZERO
    for i in range(n):
        at = _rank(levels, found, column[i])
        if at == found or levels[at] != column[i]:
            for later in range(found, at, -1):
                levels[later] = levels[later - 1]
            levels[at] = column[i]
            found += 1
    return int(found)


@inner
def _rank(levels: Array, count: int, value: int) -> int:
    """How many of the `count` ascending levels are below a value."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if levels[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _furthest_from_mean(
    columns: Array, mismatch: Array, centre: Array, n: int, a: int, near: Array, values: Array
) -> int:
    """The first of the free rows furthest from the mean of all n of them, by n times the distance: a whole number.

    centre : (d,) sums of the numeric columns, modes of the categorical ones
    values : overwritten with the distances, negative
    """
    for i in range(a):
        values[i] = 0 if near[i] != _TAKEN else _DEAR
    for j in range(len(columns)):
        if mismatch[j] < 0:
            for i in range(a):
                values[i] -= abs(columns[j, i] * n - centre[j])
        else:
            other = mismatch[j] * n
            for i in range(a):
                values[i] -= other if columns[j, i] != centre[j] else 0
    return _lowest(values, a)


@compiled
def mdav_gower_parts(
    mismatch: Array,
    rows: Array,
    order: Array,
    starts: Array,
    first_part: int,
    last_part: int,
    k: int,
    labels: Array,
    largest: int,
) -> None:
    """Write each row's group inside its part to `labels` (n,); parameters as in `kmember_gower_parts`."""
    d = rows.shape[1]
    columns, position = np.empty((d, largest), np.int32), np.empty(largest, np.int64)
    near, apart = np.empty(largest, np.int32), np.empty(largest, np.int32)
    values, least, chosen = np.empty(largest, np.int64), np.empty(k, np.int32), np.empty(k, np.int64)
    centre, different = np.empty(d, np.int64), np.empty(d, np.int64)
    levels, frequency = np.empty((d, largest), np.int32), np.empty((d, largest), np.int64)
    for part in range(first_part, last_part):
        begin, n = starts[part], starts[part + 1] - starts[part]
        _load_part(rows, order, begin, n, columns, position, near)
        _count_levels(columns, mismatch, n, centre, different, levels, frequency)
        for i in range(n):
            labels[order[begin + i]] = n // k - 1  # rows that are never taken form the last group
        a, left, number = n, n, 0
        while left >= 2 * k:
            for side in range(2 if left >= 3 * k else 1):
                if side == 0:
                    _find_modes(mismatch, centre, different, levels, frequency)
                    best = _furthest_from_mean(columns, mismatch, centre, left, a, near, values)
                else:
                    best = _highest(near, a)
                _measure(columns, mismatch, best, a, apart)
                for i in range(a):
                    near[i] = apart[i] if near[i] != _TAKEN else _TAKEN
                    apart[i] = near[i] if near[i] != _TAKEN else _FAR
                apart[best] = _TAKEN  # the centre comes first
                lowest_few(apart, a, k, _FAR, least, chosen)
                for slot in range(k):
                    labels[order[begin + position[chosen[slot]]]] = number
                    near[chosen[slot]] = _TAKEN
                    _subtract(columns, mismatch, chosen[slot], centre, different, levels, frequency)
                number += 1
                left -= k
            if left <= KEPT * a:
                a = _drop_taken(columns, position, near, a)


@inner
def _count_levels(
    columns: Array, mismatch: Array, n: int, centre: Array, different: Array, levels: Array, frequency: Array
) -> None:
    """Sums of the numeric columns of n rows into `centre`; the levels of the categorical ones, and how often each is.

    different : (d,) levels of each column
    """
    for j in range(len(columns)):
        if mismatch[j] < 0:
            centre[j] = 0
            for i in range(n):
                centre[j] += columns[j, i]
            continue
        different[j] = _sort_levels(columns[j], n, levels[j])
        for at in range(different[j]):
            frequency[j, at] = 0
        for i in range(n):
            frequency[j, _rank(levels[j], different[j], columns[j, i])] += 1


@inner
def _find_modes(mismatch: Array, centre: Array, different: Array, levels: Array, frequency: Array) -> None:
    """The modes of the categorical columns into `centre`; of equally frequent levels the lowest."""
    for j in range(len(mismatch)):
        most = np.int64(-1)
        for at in range(different[j] if mismatch[j] >= 0 else 0):
            if frequency[j, at] > most:
                most, centre[j] = frequency[j, at], levels[j, at]


@inner
def _subtract(
    columns: Array, mismatch: Array, i: int, centre: Array, different: Array, levels: Array, frequency: Array
) -> None:
    """Take a row out of the sums and counts of `_count_levels`."""
    for j in range(len(columns)):
        if mismatch[j] < 0:
            centre[j] -= columns[j, i]
        else:
            frequency[j, _rank(levels[j], different[j], columns[j, i])] -= 1
