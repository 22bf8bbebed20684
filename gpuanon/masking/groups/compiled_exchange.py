"""Annealed exchanges inside cells, compiled: see `annealing` for the algorithm and `exchange` for the arithmetic.

All rows are whole numbers as float64, all their sums are exact, so the order of a sum does not matter.  The few
divisions are those of the NumPy twin, in its order.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.compiled import compiled, compiled_exact
from gpuanon.masking.groups.batched import Host

Table = tuple[Host, Host, Host, Host, Host]
"""Of the groups of a cell: coordinates (g, w, d), their sums (g, d), y and u of `_load_euclidean`, distortions (g,)."""


@compiled_exact
def _load_euclidean(x: Host, n: int, k: int, total: Host, y: Host, u: Host) -> tuple[float, float]:
    """Sums of a group's rows x (w, d), of which n are used; for a group of k rows also y and u.  See `EuclideanTable`.

    Returns the sum of squares and the distortion.
    """
    d = x.shape[1]
    squares = 0.0
    for j in range(d):
        total[j] = 0.0
    for i in range(n):
        for j in range(d):
            total[j] += x[i, j]
            squares += x[i, j] * x[i, j]
    square = 0.0
    for j in range(d):
        square += total[j] * total[j]
    if n == k:
        for i in range(k):
            own = 0.0
            for j in range(d):
                y[i, j] = 2 * x[i, j] - total[j]
                own += y[i, j] * y[i, j]
            u[i] = (square - own) / 2
    return squares, (n * squares - square) / n


@compiled_exact
def _best_tight(y_a: Host, u_a: Host, y_b: Host, u_b: Host, s_a: Host, s_b: Host, k: int) -> tuple[float, int, int]:
    """The best swap between two groups of k rows: its change, and its slots."""
    d = y_a.shape[1]
    least, best_i, best_r = np.inf, 0, 0
    for i in range(k):
        for r in range(k):
            value = u_a[i] + u_b[r]
            for j in range(d):
                value += y_a[i, j] * y_b[r, j]
            if value < least:
                least, best_i, best_r = value, i, r
    product = 0.0
    for j in range(d):
        product += s_a[j] * s_b[j]
    return (least - product) / k, best_i, best_r


@compiled_exact
def _distance(x: Host, y: Host, mismatch: Host) -> float:
    """Squared Euclidean distance, or Gower's if `mismatch` is not empty."""
    sum_ = 0.0
    if len(mismatch) == 0:
        for j in range(len(x)):
            sum_ += (x[j] - y[j]) * (x[j] - y[j])
    else:
        for j in range(len(x)):
            if mismatch[j] < 0:
                sum_ += abs(x[j] - y[j])
            elif x[j] != y[j]:
                sum_ += mismatch[j]
    return sum_


@compiled_exact
def _sum_distances(x_a: Host, n_a: int, x_b: Host, n_b: int, mismatch: Host, sums: Host, apart: Host) -> None:
    """Fill apart (w, w), the distances between the groups, and sums (4, w): in a, to b, in b, to a."""
    for i in range(n_a):
        sums[0, i] = 0.0
        sums[1, i] = 0.0
        for r in range(n_a):
            sums[0, i] += _distance(x_a[i], x_a[r], mismatch)
    for r in range(n_b):
        sums[2, r] = 0.0
        sums[3, r] = 0.0
        for i in range(n_b):
            sums[2, r] += _distance(x_b[r], x_b[i], mismatch)
    for i in range(n_a):
        for r in range(n_b):
            apart[i, r] = _distance(x_a[i], x_b[r], mismatch)
            sums[1, i] += apart[i, r]
            sums[3, r] += apart[i, r]


@compiled
def _best_move(own: Host, other: Host, n: int, m: int, f: float, g: float) -> tuple[float, int]:
    """The best move of a row from a group of n rows with distortion f to one of m with g: its change and slot."""
    least, slot = np.inf, 0
    for i in range(n):
        weight = (n - 1) * other[i] - (m + 1) * own[i]
        if weight < least:
            least, slot = weight, i
    return (f - own[slot]) / max(n - 1, 1) + (other[slot] - g) / (m + 1), slot


@compiled
def _best_exchange(
    sums: Host, apart: Host, n_a: int, n_b: int, k: int, width: int, f_a: float, f_b: float
) -> tuple[float, int]:
    """The best swap or move between two groups: its change, and its code (see `exchange`)."""
    least, code = np.inf, 0
    for i in range(n_a):
        for r in range(n_b):
            value = (n_a * sums[1, i] - n_b * sums[0, i]) + (n_b * sums[3, r] - n_a * sums[2, r])
            value -= (n_a + n_b) * apart[i, r]
            if value < least:
                least, code = value, i * width + r
    change = least / (n_a * n_b)
    if width > k:
        if n_a > k and n_b < width:
            moved, slot = _best_move(sums[0], sums[1], n_a, n_b, f_a, f_b)
            if moved < change:
                change, code = moved, width * width + slot
        if n_b > k and n_a < width:
            moved, slot = _best_move(sums[2], sums[3], n_b, n_a, f_b, f_a)
            if moved < change:
                change, code = moved, width * width + width + slot
    return change, code


@compiled
def _swap_slots(x: Host, members: Host, a: int, i: int, b: int, r: int) -> None:
    """Swap two slots, with the coordinates of their rows."""
    members[a, i], members[b, r] = members[b, r], members[a, i]
    for j in range(x.shape[2]):
        x[a, i, j], x[b, r, j] = x[b, r, j], x[a, i, j]


@compiled
def _carry_out(x: Host, members: Host, sizes: Host, a: int, b: int, code: int, width: int) -> None:
    """Carry out an exchange; the last row of a group fills the gap that a move leaves."""
    if code < width * width:
        _swap_slots(x, members, a, code // width, b, code % width)
        return
    source, target, slot = a, b, code - width * width
    if slot >= width:
        source, target, slot = b, a, slot - width
    sizes[source] -= 1
    _swap_slots(x, members, source, slot, source, sizes[source])
    _swap_slots(x, members, source, sizes[source], target, sizes[target])
    sizes[target] += 1


@compiled
def _distortion(x: Host, n: int, k: int, total: Host, y: Host, u: Host, mismatch: Host, euclidean: bool) -> float:
    """The distortion of a group, and what is stored for it."""
    if euclidean:
        return _load_euclidean(x, n, k, total, y, u)[1]
    all_ = 0.0
    for i in range(n):
        for r in range(n):
            all_ += _distance(x[i], x[r], mismatch)
    return all_ / (2 * n)


@compiled
def _load_cell(
    rows: Host, mismatch: Host, members: Host, sizes: Host, lines: Host, k: int, held: Host, counts: Host, state: Table
) -> float:
    """Copy the groups `lines` of a cell, with their coordinates and sums; return their distortion."""
    x, total, y, u, distortion = state
    before = 0.0
    for a in range(len(lines)):
        counts[a] = sizes[lines[a]]
        for i in range(members.shape[1]):
            held[a, i] = members[lines[a], i]
            for j in range(rows.shape[1]):
                x[a, i, j] = rows[held[a, i], j]
        distortion[a] = _distortion(x[a], counts[a], k, total[a], y[a], u[a], mismatch, len(mismatch) == 0)
        before += distortion[a]
    return before


@compiled
def _visit(
    a: int, b: int, held: Host, counts: Host, k: int, mismatch: Host, heat: float, sums: Host, apart: Host, state: Table
) -> None:
    """Carry out the best exchange of two groups, if it changes their distortion by less than the heat allows."""
    x, total, y, u, distortion = state
    width, euclidean = held.shape[1], len(mismatch) == 0
    n_a, n_b = counts[a], counts[b]
    if euclidean and n_a == k and n_b == k:
        change, i, r = _best_tight(y[a], u[a], y[b], u[b], total[a], total[b], k)
        code = i * width + r
    else:
        _sum_distances(x[a], n_a, x[b], n_b, mismatch, sums, apart)
        change, code = _best_exchange(sums, apart, n_a, n_b, k, width, distortion[a], distortion[b])
    spread = (distortion[a] + distortion[b]) / (n_a + n_b)
    if change < spread * heat:
        _carry_out(x, held, counts, a, b, code, width)
        distortion[a] = _distortion(x[a], counts[a], k, total[a], y[a], u[a], mismatch, euclidean)
        distortion[b] = _distortion(x[b], counts[b], k, total[b], y[b], u[b], mismatch, euclidean)


@compiled
def _holders(mates: Host, begin: int, word: Host, bit: int, holder: Host) -> None:
    """For each group of a cell the one whose proposal it accepts, the last, or −1."""
    groups, shift, one = len(word), np.uint64(bit), np.uint64(1)
    for a in range(groups):
        holder[a] = -1
    for a in range(groups):
        b = mates[begin + a] - begin
        if (word[a] >> shift) & one == 1 and (word[b] >> shift) & one == 0:
            holder[b] = a


@compiled
def anneal_cells(
    rows: Host,
    mismatch: Host,
    members: Host,
    sizes: Host,
    near: Host,
    words: Host,
    order: Host,
    starts: Host,
    first_cell: int,
    last_cell: int,
    k: int,
    schedule: tuple[int, int, int, float],
    noise: Host,
) -> float:
    """Anneal the cells from `first_cell` to before `last_cell`, in place; return the change of the distortion.

    Parameters as in `annealing.anneal`; an empty `mismatch` stands for the Euclidean metric.

    words    : (g,) pseudo-random bits of each group
    schedule : steps, first, every, heat of `Schedule`
    noise    : quantiles of the exponential distribution
    """
    steps, first, every, hottest = schedule
    width, d = members.shape[1], rows.shape[1]
    largest = 0
    for cell in range(first_cell, last_cell):
        largest = max(largest, starts[cell + 1] - starts[cell])
    state = (
        np.empty((largest, width, d)),
        np.empty((largest, d)),
        np.empty((largest, k, d)),
        np.empty((largest, k)),
        np.empty(largest),
    )
    held, counts, holder = (
        np.empty((largest, width), np.int64),
        np.empty(largest, np.int64),
        np.empty(largest, np.int64),
    )
    sums, apart = np.empty((4, width)), np.empty((width, width))
    changed = 0.0
    for cell in range(first_cell, last_cell):
        begin = starts[cell]
        lines = order[begin : starts[cell + 1]]
        word = words[lines]
        changed -= _load_cell(rows, mismatch, members, sizes, lines, k, held, counts, state)
        for step in range(steps):
            heat = hottest * max(0.0, 1 - (first + step) / every)
            mates = near[step % len(near)]
            _holders(mates, begin, word, step % 64, holder)
            for a in range(len(lines)):
                b = mates[begin + a] - begin
                if holder[b] == a:
                    accepted = heat * noise[(word[a] * np.uint64(2 * step + 1)) >> np.uint64(48)]
                    _visit(a, b, held, counts, k, mismatch, accepted, sums, apart, state)
        for a in range(len(lines)):
            sizes[lines[a]] = counts[a]
            changed += state[4][a]
            for i in range(width):
                members[lines[a], i] = held[a, i]
    return changed
