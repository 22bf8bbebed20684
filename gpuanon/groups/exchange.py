"""A table of groups between which rows are exchanged, and the best exchange between any two of them.

Between the groups a and b three kinds of exchange are weighed, each with a code; w is the table's width:

i · w + r  : slot i of a changes places with slot r of b
w² + i     : slot i of a goes over to b
w² + w + r : slot r of b goes over to a
"""

from __future__ import annotations

import numpy as np

from gpuanon.groups.lockstep import Host
from gpuanon.groups.spaces import gower
from gpuanon.numerics.distance import Metric

_CELLS = 1 << 21
"""Weighed swaps held at once: what groups of thousands of rows need is bounded by this."""


class Table:
    """Groups as lines of a table: the group a holds the rows ``members[a, :sizes[a]]``, at least `k` of them.

    x          : (g, w, d) the rows' coordinates at the start; slots past a group's size hold anything
    members    : (g, w) numbers of rows, counted through x line by line
    sizes      : (g,) rows in each group
    distortion : (g,) of each group
    rounding   : (g,) below this much a change may be rounding
    """

    def __init__(self, x: Host, sizes: Host, k: int) -> None:
        g, self.width, d = x.shape
        self.rows = x.reshape(g * self.width, d)
        self.members = np.arange(g * self.width).reshape(g, self.width)
        self.sizes, self.k = sizes, k
        self.distortion = np.empty(g, dtype=x.dtype)
        self.rounding = np.zeros(g, dtype=x.dtype)

    def load(self, lines: Host) -> None:
        """Compute anew what is kept of the groups `lines`."""
        raise NotImplementedError

    def weigh(self, a: Host, b: Host) -> tuple[Host, Host]:
        """(p,) change of the distortion by the best exchange between a[p] and b[p], and (p,) the exchange's code."""
        raise NotImplementedError

    def visit(self, a: Host, b: Host, heat: Host) -> None:
        """Carry out the best exchange of each pair where it lowers the distortion, or raises it by little.

        No group may occur twice.  `heat` (p,) is what it may rise, in units of the pair's distortion a row.
        """
        step = max(1, _CELLS // self.width**2)
        for at in range(0, len(a), step):
            self._visit(a[at : at + step], b[at : at + step], heat[at : at + step])

    def _visit(self, a: Host, b: Host, heat: Host) -> None:
        change, code = self.weigh(a, b)
        spread = (self.distortion[a] + self.distortion[b]) / (self.sizes[a] + self.sizes[b])
        good = np.flatnonzero(change < spread * heat - (self.rounding[a] + self.rounding[b]))
        if len(good):
            self.exchange(a[good], b[good], code[good])

    def exchange(self, a: Host, b: Host, code: Host) -> None:
        """Carry out one exchange for each pair of groups; no group occurs twice."""
        if self.width > self.k:
            moves = np.flatnonzero(code >= self.width**2)
            backward, slot = np.divmod(code[moves] - self.width**2, self.width)
            self._move(np.where(backward, b[moves], a[moves]), slot, np.where(backward, a[moves], b[moves]))
            swaps = np.flatnonzero(code < self.width**2)
            self._swap(a[swaps], b[swaps], code[swaps])
        else:
            self._swap(a, b, code)
        self.load(np.concatenate([a, b]))

    def _swap(self, a: Host, b: Host, code: Host) -> None:
        i, r = np.divmod(code, self.width)
        self.members[a, i], self.members[b, r] = self.members[b, r], self.members[a, i]

    def _move(self, source: Host, slot: Host, target: Host) -> None:
        """Let the row in `slot` of each source go over to the target; the source's last row fills the gap."""
        self.sizes[source] -= 1
        last = self.sizes[source]
        moving = self.members[source, slot]
        self.members[source, slot] = self.members[source, last]
        # Slots past a group's size keep what fell out of use, so that no number is lost or doubled.
        self.members[source, last] = self.members[target, self.sizes[target]]
        self.members[target, self.sizes[target]] = moving
        self.sizes[target] += 1

    def _filled(self, lines: Host) -> Host:
        """(g, w) True for the slots of these groups that hold a row."""
        return np.arange(self.width) < self.sizes[lines][:, None]

    def _best(self, a: Host, b: Host, swap: Host, give: Host, receive: Host) -> tuple[Host, Host]:
        """The least of the changes by swaps (p, w, w) and by moves from a, from b (p, w); and its code."""
        in_a, in_b = self._filled(a), self._filled(b)
        n_a, n_b = self.sizes[a], self.sizes[b]
        swap[~(in_a[:, :, None] & in_b[:, None, :])] = np.inf
        give[~(in_a & ((n_a > self.k) & (n_b < self.width))[:, None])] = np.inf
        receive[~(in_b & ((n_b > self.k) & (n_a < self.width))[:, None])] = np.inf
        changes = np.concatenate([swap.reshape(len(a), -1), give, receive], axis=1)
        code = changes.argmin(axis=1)
        return changes[np.arange(len(a)), code], code


class EuclideanTable(Table):
    """Sums of squared errors, of coordinates from a near origin (float32 is then exact enough).

    With e = x_r − x_i a swap changes their sum by ``2 (c_b − c_a)·e − λ |e|²``, ``λ = 1/n_a + 1/n_b``.  Where both
    groups have k rows, ``y_i = x_i − c_a / λ`` and ``u_i = 2 c_a·x_i − λ |x_i|²`` turn this into
    ``u_i + u_r + 2 λ y_i·y_r − (2/λ) c_a·c_b``: what each group keeps of itself, and one small product a pair.
    """

    def __init__(self, x: Host, sizes: Host, k: int) -> None:
        squares = np.einsum("gwd,gwd->gw", x, x)[:, :, None]
        super().__init__(np.concatenate([x, squares], axis=2), sizes, k)
        g, d = len(x), x.shape[2]
        self.centres = np.empty((g, d), dtype=x.dtype)
        self.left = np.ones((g, k, d + 2), dtype=x.dtype)  # √(2λ) y, u, 1
        self.right = np.ones((g, d + 2, k), dtype=x.dtype)  # √(2λ) y, 1, u
        # c / λ is half the sum of the k rows; the last line is their mean.
        self.keep = np.vstack([np.sqrt(4 / k) * (np.eye(k) - 0.5), np.full(k, 1 / k)]).astype(x.dtype)
        self.load(np.arange(g))

    def load(self, lines: Host) -> None:
        d, k = self.centres.shape[1], self.k
        if self.width > k:
            tight = self.sizes[lines] == k
            self._load_loose(lines[~tight])
            lines = lines[tight]
        x = self.rows.take(self.members[lines, :k], axis=0)
        kept = np.matmul(self.keep, x)
        mean = kept[:, k]
        self._load_means(lines, mean, k)
        factors = 2 * mean
        factors[:, d] = -2 / k
        u = np.matmul(x, factors[:, :, None])[:, :, 0]
        self.left[lines, :, : d + 1] = kept[:, :k]
        self.left[lines, :, d] = u
        self.right[lines, :d] = kept[:, :k, :d].transpose(0, 2, 1)
        self.right[lines, d + 1] = u

    def _load_loose(self, lines: Host) -> None:
        """The same for groups that do not have k rows: means only."""
        x = self.rows[self.members[lines]]
        x[~self._filled(lines)] = 0
        sizes = self.sizes[lines]
        self._load_means(lines, x.sum(axis=1) / sizes[:, None].astype(x.dtype), sizes)

    def _load_means(self, lines: Host, mean: Host, sizes: Host | int) -> None:
        centre, square = mean[:, :-1], mean[:, -1]
        self.centres[lines] = centre
        self.distortion[lines] = np.maximum(0, sizes * (square - np.einsum("gd,gd->g", centre, centre)))
        self.rounding[lines] = 4 * np.finfo(mean.dtype).eps * sizes * square

    def weigh(self, a: Host, b: Host) -> tuple[Host, Host]:
        if self.width == self.k:
            return self._weigh_tight(a, b)
        tight = (self.sizes[a] == self.k) & (self.sizes[b] == self.k)
        change, code = np.empty(len(a), dtype=self.rows.dtype), np.empty(len(a), dtype=np.int64)
        for choice, weigh in ((tight, self._weigh_tight), (~tight, self._weigh_loose)):
            if choice.any():
                change[choice], code[choice] = weigh(a[choice], b[choice])
        return change, code

    def _weigh_tight(self, a: Host, b: Host) -> tuple[Host, Host]:
        """Swaps between groups of k rows."""
        changes = np.matmul(self.left.take(a, axis=0), self.right.take(b, axis=0)).reshape(len(a), -1)
        code = changes.argmin(axis=1)
        change = changes[np.arange(len(a)), code]
        change -= self.k * np.einsum("pd,pd->p", self.centres.take(a, axis=0), self.centres.take(b, axis=0))
        if self.width > self.k:
            code = code // self.k * self.width + code % self.k
        return change, code

    def _weigh_loose(self, a: Host, b: Host) -> tuple[Host, Host]:
        """Swaps and moves between groups of any size."""
        x_a, x_b = self.rows.take(self.members[a], axis=0), self.rows.take(self.members[b], axis=0)
        n_a, n_b = self.sizes[a][:, None].astype(x_a.dtype), self.sizes[b][:, None].astype(x_a.dtype)
        own_a, to_b = self._squares(x_a, a), self._squares(x_a, b)
        own_b, to_a = self._squares(x_b, b), self._squares(x_b, a)
        share = 1 / n_a + 1 / n_b
        swap = np.matmul(x_a[:, :, :-1], np.ascontiguousarray(x_b[:, :, :-1].transpose(0, 2, 1)))
        swap *= 2 * share[:, :, None]
        swap += (to_b - own_a - share * x_a[:, :, -1])[:, :, None]
        swap += (to_a - own_b - share * x_b[:, :, -1])[:, None, :]
        give = n_b / (n_b + 1) * to_b - n_a / np.maximum(n_a - 1, 1) * own_a
        receive = n_a / (n_a + 1) * to_a - n_b / np.maximum(n_b - 1, 1) * own_b
        return self._best(a, b, swap, give, receive)

    def _squares(self, x: Host, lines: Host) -> Host:
        """(p, w) squared distance of the rows x (p, w, d + 1) from the centres of these groups."""
        centres = self.centres[lines]
        squares = np.matmul(x[:, :, :-1], -2 * centres[:, :, None])[:, :, 0]
        squares += x[:, :, -1]
        squares += np.einsum("pd,pd->p", centres, centres)[:, None]
        return squares


class GowerTable(Table):
    """``Σ_{i<j} D(i, j) / n`` for Gower's D.  √D is a Euclidean distance, so this is a sum of squares too.

    within : (g, w) sum of each row's distances from the others of its group
    """

    def __init__(self, x: Host, sizes: Host, k: int, metric: Metric) -> None:
        super().__init__(x, sizes, k)
        self.metric = metric
        self.within = np.empty(self.members.shape, dtype=x.dtype)
        self.load(np.arange(len(x)))

    def load(self, lines: Host) -> None:
        filled = self._filled(lines)
        distance = self._distances(lines, lines)
        distance[~(filled[:, :, None] & filled[:, None, :])] = 0
        self.within[lines] = distance.sum(axis=2)
        self.distortion[lines] = self.within[lines].sum(axis=1) / (2 * self.sizes[lines])
        self.rounding[lines] = 8 * np.finfo(distance.dtype).eps * self.distortion[lines]

    def _distances(self, a: Host, b: Host) -> Host:
        """(p, w, w) distances of the rows of the groups a from those of the groups b."""
        x = np.moveaxis(self.rows[self.members[a]], 2, 0)[:, :, :, None]
        y = np.moveaxis(self.rows[self.members[b]], 2, 0)[:, :, None, :]
        return gower(x, y, self.metric)

    def weigh(self, a: Host, b: Host) -> tuple[Host, Host]:
        distance = self._distances(a, b)
        distance[~(self._filled(a)[:, :, None] & self._filled(b)[:, None, :])] = 0
        n_a, n_b = self.sizes[a][:, None], self.sizes[b][:, None]
        in_a, in_b = self.within[a], self.within[b]
        to_b, to_a = distance.sum(axis=2), distance.sum(axis=1)
        swap = (to_b / n_b - in_a / n_a)[:, :, None] + (to_a / n_a - in_b / n_b)[:, None, :]
        swap -= (1 / n_a + 1 / n_b)[:, :, None] * distance
        # A group with distortion f that loses a row of sum s changes by (f − s)/(n − 1), one that gains it by
        # (s − f)/(n + 1).
        f_a, f_b = self.distortion[a][:, None], self.distortion[b][:, None]
        give = (f_a - in_a) / np.maximum(n_a - 1, 1) + (to_b - f_b) / (n_b + 1)
        receive = (f_b - in_b) / np.maximum(n_b - 1, 1) + (to_a - f_a) / (n_a + 1)
        return self._best(a, b, swap, give, receive)
