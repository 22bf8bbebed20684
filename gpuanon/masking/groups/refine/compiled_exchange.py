"""Annealed exchanges inside cells, compiled: see `annealing` for the algorithm and `exchange` for the arithmetic.

All rows are whole numbers as float64, all their sums are exact, so the order of a sum does not matter.  The few
divisions are those of the NumPy twin, in its order.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array
from gpuanon.arrays.compiled import compiled, inner, inner_exact
from gpuanon.masking.groups.refine.compiled_distances import best_swap, fill_between, load_within, put_in, take_out


@inner_exact
def _load_euclidean(x: Array, n: int, k: int, a: int, total: Array, y: Array, u: Array) -> float:
    """Sums of the n rows of the group a, for a group of k rows also y and u; the distortion.  See `EuclideanTable`.

    Whole arrays are passed, and the number of the group: a view of each group would cost as much as the arithmetic.
    """
    d = x.shape[1]
    squares, square = 0.0, 0.0
    for j in range(d):
        sum_ = 0.0
        for i in range(n):
            sum_ += x[a, j, i]
            squares += x[a, j, i] * x[a, j, i]
        total[a, j] = sum_
        square += sum_ * sum_
    if n == k:
        for i in range(k):
            own = 0.0
            for j in range(d):
                y[a, i, j] = 2 * x[a, j, i] - total[a, j]
                own += y[a, i, j] * y[a, i, j]
            u[a, i] = (square - own) / 2
    return (n * squares - square) / n


@inner_exact
def _best_tight(y: Array, u: Array, total: Array, a: int, b: int, k: int, width: int) -> tuple[float, int]:
    """The best swap between two groups of k rows: its change, and its code."""
    d = y.shape[2]
    least, best_i, best_r = np.inf, 0, 0
    for i in range(k):
        for r in range(k):
            value = u[a, i] + u[b, r]
            for j in range(d):
                value += y[a, i, j] * y[b, r, j]
            if value < least:
                least, best_i, best_r = value, i, r
    product = 0.0
    for j in range(d):
        product += total[a, j] * total[b, j]
    return (least - product) / k, best_i * width + best_r


@inner
def _best_move(own: Array, other: Array, n: int, m: int, f: float, g: float) -> tuple[float, int]:
    """The best move of a row from a group of n rows with distortion f to one of m with g: its change and slot."""
    least, slot = np.inf, 0
    for i in range(n):
        weight = (n - 1) * other[i] - (m + 1) * own[i]
        if weight < least:
            least, slot = weight, i
    return (f - own[slot]) / max(n - 1, 1) + (other[slot] - g) / (m + 1), slot


@inner
def _best_exchange(
    x: Array, counts: Array, a: int, b: int, k: int, mismatch: Array, within: Array, distortion: Array, sums: Array,
    apart: Array,
) -> tuple[float, int]:  # fmt: skip
    """The best swap or move between two groups of any size: its change, and its code (see `exchange`).

    sums : (5, w) of the distances of each row of a over a, over b; of each row of b over b, over a; and scratch
    """
    n_a, n_b, width = counts[a], counts[b], x.shape[2]
    if len(mismatch) == 0:
        load_within(x, a, n_a, mismatch, within, apart)
        load_within(x, b, n_b, mismatch, within, apart)
    for i in range(n_a):
        sums[0, i] = within[a, i]
    for r in range(n_b):
        sums[2, r] = within[b, r]
    fill_between(x, a, n_a, b, n_b, mismatch, apart, sums[1], sums[3])
    least, i, r = best_swap(sums[0], sums[1], sums[2], sums[3], apart, n_a, n_b, sums[4])
    change, code = least / (n_a * n_b), i * width + r
    if width > k:
        if n_a > k and n_b < width:
            moved, slot = _best_move(sums[0], sums[1], n_a, n_b, distortion[a], distortion[b])
            if moved < change:
                change, code = moved, width * width + slot
        if n_b > k and n_a < width:
            moved, slot = _best_move(sums[2], sums[3], n_b, n_a, distortion[b], distortion[a])
            if moved < change:
                change, code = moved, width * width + width + slot
    return change, code


@inner
def _swap_slots(x: Array, members: Array, within: Array, a: int, i: int, b: int, r: int) -> None:
    """Swap two slots, with the coordinates of their rows and the sums of their distances."""
    members[a, i], members[b, r] = members[b, r], members[a, i]
    within[a, i], within[b, r] = within[b, r], within[a, i]
    for j in range(x.shape[1]):
        x[a, j, i], x[b, j, r] = x[b, j, r], x[a, j, i]


@inner
def _carry_out(
    x: Array,
    members: Array,
    sizes: Array,
    a: int,
    b: int,
    code: int,
    width: int,
    mismatch: Array,
    within: Array,
    apart: Array,
) -> None:
    """Carry out an exchange; the last row of a group fills the gap that a move leaves.

    Under Gower's metric the sums of distances `within` the groups change with it; others are not kept.
    """
    keep = len(mismatch) > 0
    if code < width * width:
        i, r = code // width, code % width
        if keep:
            take_out(x, a, i, sizes[a], mismatch, within, apart)
            take_out(x, b, r, sizes[b], mismatch, within, apart)
        _swap_slots(x, members, within, a, i, b, r)
        if keep:
            put_in(x, a, i, sizes[a], mismatch, within, apart)
            put_in(x, b, r, sizes[b], mismatch, within, apart)
        return
    source, target, slot = a, b, code - width * width
    if slot >= width:
        source, target, slot = b, a, slot - width
    if keep:
        take_out(x, source, slot, sizes[source], mismatch, within, apart)
    sizes[source] -= 1
    _swap_slots(x, members, within, source, slot, source, sizes[source])
    _swap_slots(x, members, within, source, sizes[source], target, sizes[target])
    sizes[target] += 1
    if keep:
        put_in(x, target, sizes[target] - 1, sizes[target], mismatch, within, apart)


@inner
def _propose(mates: Array, begin: int, word: Array, bit: Array, proposers: Array, holder: Array) -> int:
    """Find the groups that propose to their mate, and what each mate accepts; return the number of proposals.

    No branch depends on the random bits: half of them would be predicted wrongly.

    proposers : filled with the proposing groups, in ascending order
    holder    : filled with the last group that proposed to each mate
    """
    found: Array = 0
    for a in range(len(word)):
        b = mates[begin + a] - begin
        proposers[found] = a
        found += np.int64((word[a] >> bit) & ~(word[b] >> bit) & np.uint64(1))
    for at in range(found):
        a = proposers[at]
        holder[mates[begin + a] - begin] = a  # of several proposals the last one is kept
    return int(found)


@compiled
def anneal_cells(
    rows: Array,
    mismatch: Array,
    members: Array,
    sizes: Array,
    near: Array,
    words: Array,
    order: Array,
    starts: Array,
    first_cell: int,
    last_cell: int,
    k: int,
    schedule: tuple[int, int, int, float],
    noise: Array,
) -> float:
    """Anneal the cells from `first_cell` to before `last_cell`, in place; return the change of the distortion.

    Parameters as in `annealing.anneal`; an empty `mismatch` stands for the Euclidean metric.

    words    : (g,) pseudo-random bits of each group
    schedule : steps, first, every, heat of `Schedule`
    noise    : quantiles of the exponential distribution
    """
    steps, first, every, hottest = schedule
    width, d, euclidean = members.shape[1], rows.shape[1], len(mismatch) == 0
    largest = 0
    for cell in range(first_cell, last_cell):
        largest = max(largest, starts[cell + 1] - starts[cell])
    x, within = np.empty((largest, d, width)), np.zeros((largest, width))
    total, y, u = np.empty((largest, d)), np.empty((largest, k, d)), np.empty((largest, k))
    held, counts = np.empty((largest, width), np.int64), np.empty(largest, np.int64)
    distortion, word = np.empty(largest), np.empty(largest, np.uint64)
    holder, proposers = np.empty(largest, np.int64), np.empty(largest, np.int64)
    sums, apart = np.empty((5, width)), np.empty((width, width))
    changed = 0.0
    for cell in range(first_cell, last_cell):
        begin = starts[cell]
        groups = starts[cell + 1] - begin
        for a in range(groups):
            line = order[begin + a]
            counts[a], word[a] = sizes[line], words[line]
            _load_group(rows, members, line, a, held, x)
            if not euclidean:
                load_within(x, a, counts[a], mismatch, within, apart)
            distortion[a] = _distortion(x, counts[a], k, a, total, y, u, mismatch, within)
        before = distortion[:groups].sum()
        for step in range(steps):
            mates = near[step % len(near)]
            heat = hottest * max(0.0, 1 - (first + step) / every)
            pairs = _propose(mates, begin, word[:groups], np.uint64(step % 64), proposers, holder)
            for at in range(pairs):
                a = proposers[at]
                b = mates[begin + a] - begin
                if holder[b] != a:
                    continue
                if euclidean and counts[a] == k and counts[b] == k:
                    change, code = _best_tight(y, u, total, a, b, k, width)
                else:
                    change, code = _best_exchange(x, counts, a, b, k, mismatch, within, distortion, sums, apart)
                spread = (distortion[a] + distortion[b]) / (counts[a] + counts[b])
                accepted = heat * noise[(word[a] * np.uint64(2 * step + 1)) >> np.uint64(48)]
                if change < spread * accepted:
                    _carry_out(x, held, counts, a, b, code, width, mismatch, within, apart)
                    distortion[a] = _distortion(x, counts[a], k, a, total, y, u, mismatch, within)
                    distortion[b] = _distortion(x, counts[b], k, b, total, y, u, mismatch, within)
        for a in range(groups):
            line = order[begin + a]
            sizes[line] = counts[a]
            for i in range(width):
                members[line, i] = held[a, i]
        changed += distortion[:groups].sum() - before
    return changed


@inner
def _load_group(rows: Array, members: Array, line: int, a: int, held: Array, x: Array) -> None:
    """The members of a group as the group a of its cell, and the coordinates of their rows."""
    for i in range(members.shape[1]):
        held[a, i] = members[line, i]
        for j in range(rows.shape[1]):
            x[a, j, i] = rows[held[a, i], j]


@inner
def _distortion(
    x: Array, n: int, k: int, a: int, total: Array, y: Array, u: Array, mismatch: Array, within: Array
) -> float:
    """The distortion of the group a; under the Euclidean metric also what is stored for it."""
    if len(mismatch) == 0:
        return _load_euclidean(x, n, k, a, total, y, u)
    all_ = 0.0
    for i in range(n):
        all_ += within[a, i]
    return all_ / (2 * n)
