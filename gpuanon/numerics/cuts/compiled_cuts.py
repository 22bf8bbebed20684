"""Balanced median cuts, compiled: see `median_blocks` for the algorithm.

A part is cut until its blocks are small enough before the next one is begun, so that its rows stay in the cache.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import ZERO, compiled, inner

_ADDERS = 32  # slots of a sum, see `median_blocks`
_DEPTH = 64  # of cuts inside cuts: the number of blocks is halved each time


@inner
def _halved(slots: Host) -> None:
    """Add the lines of `slots` by halving; the sum is in the first line, the others are spoilt."""
    half = _ADDERS // 2
    while half > 0:
        for i in range(half):
            for j in range(slots.shape[1]):
                slots[i, j] += slots[i + half, j]
        half //= 2


@inner
def _widest(X: Host, order: Host, begin: int, size: int, most: int, categorical: Host, mean: Host, slots: Host) -> int:
    """The column of largest variance among evenly spaced rows of a part; of about equal ones the first.

    mean, slots : (d,) and (32, d) scratch
    """
    step = 1
    while size // step >= 32:  # lengths of five bits, as `padded_length` rounds them
        step *= 2
    sample = min(most, -(-size // step) * step)
    d = X.shape[1]
    slots[:] = 0.0
    for i in range(sample):
        row = order[begin + i * size // sample]
        for j in range(d):
            slots[i % _ADDERS, j] += X[row, j]
    _halved(slots)
    for j in range(d):
        mean[j] = slots[0, j] / sample
    slots[:] = 0.0
    for i in range(sample):
        row = order[begin + i * size // sample]
        for j in range(d):
            slots[i % _ADDERS, j] += (X[row, j] - mean[j]) * (X[row, j] - mean[j])
    _halved(slots)
    largest = -np.inf
    for j in range(d):
        slots[0, j] = -1.0 if categorical[j] else slots[0, j] / sample
        largest = max(largest, slots[0, j])
    for j in range(d):
        if slots[0, j] >= (1 - 1e-9) * largest:
            return j
    return 0


@inner
def _ranked(values: Host, n: int, rank: int) -> float:
    """The value of this rank, from 0, among the first n values, which are rearranged."""
    low, high, draw = 0, n - 1, np.uint64(n)
    while low < high:
        draw = draw * np.uint64(6364136223846793005) + np.uint64(1442695040888963407)
        pivot = values[low + np.int64((draw >> np.uint64(33)) % np.uint64(high - low + 1))]
        i, j = low, high
        while i <= j:
            while values[i] < pivot:
                i += 1
            while values[j] > pivot:
                j -= 1
            if i <= j:
                values[i], values[j] = values[j], values[i]
                i, j = i + 1, j - 1
        if rank <= j:
            high = j
        elif rank >= i:
            low = i
        else:
            break
    return float(values[rank])


@inner
def _cut(X: Host, order: Host, begin: int, size: int, lower: int, axis: int, values: Host, upper: Host) -> None:
    """Rearrange the part so that its `lower` lowest rows along a column come first; ties go to the first rows.

    values, upper : scratch for the values and for the rows of the upper side
    """
    for i in range(size):
        values[i] = X[order[begin + i], axis]
    border = _ranked(values, size, lower - 1)
    below = 0
    for i in range(size):
        below += values[i] < border
    equal = lower - below  # rows at the border that belong to the lower side
    left, right = begin, 0
    for i in range(begin, begin + size):
        row = order[i]
        value = X[row, axis]
        here = value < border
        if value == border and equal > 0:
            here = True
            equal -= 1
        if here:
            order[left] = row
            left += 1
        else:
            upper[right] = row
            right += 1
    for i in range(right):
        order[left + i] = upper[i]


@inner
def push(stack: Host, at: int, a: int, b: int, c: int, d: int, e: int) -> None:
    """Five whole numbers into the line `at` of a stack.

    One by one: to assign a line at once takes seconds to compile, with all that puts its errors into words.
    """
    stack[at, 0], stack[at, 1], stack[at, 2], stack[at, 3], stack[at, 4] = a, b, c, d, e


@compiled
def cut_parts(
    X: Host,
    order: Host,
    bounds: Host,
    units: Host,
    leaves: Host,
    first: Host,
    chosen: tuple[int, int],
    multiple: int,
    fewest: int,
    most: int,
    categorical: Host,
    starts: Host,
) -> None:
    """Cut parts into their blocks, in place; write to `starts` where each block begins.

    bounds   : (p + 1,) where the parts begin in `order`;  units, leaves : (p,) units of `multiple` rows, and blocks
    first    : (p,) number of each part's first block
    chosen   : the first part, and that behind the last
    fewest   : only parts of more blocks than this are cut further; their blocks have places in `starts` all the same
    most     : rows by which the widest column is estimated
    """
    d, largest = X.shape[1], 0
    for part in range(chosen[0], chosen[1]):
        largest = max(largest, bounds[part + 1] - bounds[part])
    values, upper = np.empty(largest, X.dtype), np.empty(largest, np.int64)
    mean, slots = np.empty(d), np.empty((_ADDERS, d))
    stack = np.empty((_DEPTH, 5), np.int64)
    for part in range(chosen[0], chosen[1]):
        push(stack, ZERO, bounds[part], bounds[part + 1], units[part], leaves[part], first[part])
        depth = 1
        while depth > 0:
            depth -= 1
            begin, end, held = stack[depth, 0], stack[depth, 1], stack[depth, 2]
            blocks, number = stack[depth, 3], stack[depth, 4]
            starts[number] = begin
            if blocks <= fewest:
                continue
            left = blocks // 2
            lower = held * left // blocks
            axis = _widest(X, order, begin, end - begin, most, categorical, mean, slots)
            _cut(X, order, begin, end - begin, lower * multiple, axis, values, upper)
            middle = begin + lower * multiple
            push(stack, depth, middle, end, held - lower, blocks - left, number + left)
            push(stack, depth + 1, begin, middle, lower, left, number)
            depth += 2
