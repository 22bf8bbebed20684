"""Groups between which rows are exchanged, and the best exchange between two of them, on the host.

Rows are whole numbers, so small that every sum is exact in float64.  So the order of a sum does not matter, ties are
exact, and the changes equal those of the kernel (``kernels/refine.cu``) to the last bit.

Three kinds of exchange between groups a and b are compared.  Each has a code; w is the width of the table:

i · w + r  : swap slot i of a with slot r of b
w² + i     : move slot i of a to b
w² + w + r : move slot r of b to a
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array

_SWAPS = 1 << 21
"""Swaps compared at once: bounds the memory for groups of thousands of rows."""


class GroupTable:
    """Groups as lines of a table: the group a holds the rows ``members[a, :sizes[a]]``, at least `k` of them.

    x          : (g, w, d) the rows' coordinates at the start; slots beyond a group's size are ignored
    members    : (g, w) numbers of rows, counted through x line by line
    sizes      : (g,) rows in each group
    distortion : (g,) of each group
    """

    def __init__(self, x: Array, sizes: Array, k: int) -> None:
        g, self.width, d = x.shape
        self.rows = x.reshape(g * self.width, d)
        self.members = np.arange(g * self.width).reshape(g, self.width)
        self.sizes, self.k = sizes, k
        self.distortion = np.empty(g)

    def load(self, lines: Array) -> None:
        """Recompute what is stored for the groups `lines`."""
        raise NotImplementedError

    def sums(self, a: Array, b: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Distances (p, w, w) between the rows of a[p] and of b[p], and their sums (p, w).

        The sums: of each row of a over its own group, over b; of each row of b over its own group, over a.
        """
        raise NotImplementedError

    def visit(self, a: Array, b: Array, heat: Array) -> None:
        """Carry out the best exchange of each pair if it changes the distortion by less than `heat` allows.

        No group may occur twice.  `heat` (p,) is the accepted increase, in units of the pair's distortion per row.
        """
        step = max(1, _SWAPS // self.width**2)
        for at in range(0, len(a), step):
            self._visit(a[at : at + step], b[at : at + step], heat[at : at + step])

    def _visit(self, a: Array, b: Array, heat: Array) -> None:
        change, code = self.weigh(a, b)
        rows = 2 * self.k if self.width == self.k else self.sizes[a] + self.sizes[b]
        spread = (self.distortion.take(a) + self.distortion.take(b)) / rows
        good = np.flatnonzero(change < spread * heat)
        if len(good):
            self.exchange(a[good], b[good], code[good])

    def weigh(self, a: Array, b: Array) -> tuple[Array, Array]:
        """(p,) change of the distortion by the best exchange between a[p] and b[p], and (p,) the exchange's code.

        The best swap, the best move from a and the best move from b are found in whole numbers, ties going to the
        lowest code; then these three are compared.
        """
        apart, in_a, to_b, in_b, to_a = self.sums(a, b)
        n_a, n_b = self.sizes[a][:, None].astype(np.float64), self.sizes[b][:, None].astype(np.float64)
        swap = (n_a * to_b - n_b * in_a)[:, :, None] + (n_b * to_a - n_a * in_b)[:, None, :]
        swap -= (n_a + n_b)[:, :, None] * apart
        swap[~(self._filled(a)[:, :, None] & self._filled(b)[:, None, :])] = np.inf
        swap = swap.reshape(len(a), -1)
        code = swap.argmin(axis=1)
        change = np.take_along_axis(swap, code[:, None], axis=1)[:, 0] / (n_a * n_b)[:, 0]
        if self.width > self.k:
            for source, target, own, other, first in ((a, b, in_a, to_b, 0), (b, a, in_b, to_a, self.width)):
                moved, slot = self._weigh_moves(source, target, own, other)
                better = moved < change
                change = np.where(better, moved, change)
                code = np.where(better, self.width**2 + first + slot, code)
        return change, code

    def _weigh_moves(self, source: Array, target: Array, own: Array, other: Array) -> tuple[Array, Array]:
        """(p,) change by the best move of a row from a source to its target, and (p,) the row's slot.

        own, other : (p, w) sums of the distances of a source's rows over the source and over the target

        A group with distortion f that loses a row of sum s changes by (f − s)/(n − 1), one that gains it by
        (s − f)/(n + 1).
        """
        n, m = self.sizes[source].astype(np.float64), self.sizes[target].astype(np.float64)
        weight = (n - 1)[:, None] * other - (m + 1)[:, None] * own
        weight[~self._filled(source)] = np.inf
        slot = weight.argmin(axis=1)
        own, other = (np.take_along_axis(s, slot[:, None], axis=1)[:, 0] for s in (own, other))
        change = (self.distortion[source] - own) / np.maximum(n - 1, 1)
        change += (other - self.distortion[target]) / (m + 1)
        return np.where((n > self.k) & (m < self.width), change, np.inf), slot

    def exchange(self, a: Array, b: Array, code: Array) -> None:
        """Carry out one exchange per pair of groups; no group occurs twice."""
        if self.width > self.k:
            moves = np.flatnonzero(code >= self.width**2)
            backward, slot = np.divmod(code[moves] - self.width**2, self.width)
            self._move(np.where(backward, b[moves], a[moves]), slot, np.where(backward, a[moves], b[moves]))
            swaps = np.flatnonzero(code < self.width**2)
            self._swap(a[swaps], b[swaps], code[swaps])
        else:
            self._swap(a, b, code)
        self.load(np.concatenate([a, b]))

    def _swap(self, a: Array, b: Array, code: Array) -> None:
        i, r = np.divmod(code, self.width)
        i += a * self.width
        r += b * self.width
        flat = self.members.reshape(-1)  # one index is looked up faster than two
        held = flat.take(i)
        flat[i] = flat.take(r)
        flat[r] = held

    def _move(self, source: Array, slot: Array, target: Array) -> None:
        """Move the row in `slot` of each source to the target; the source's last row fills the gap."""
        self.sizes[source] -= 1
        last = self.sizes[source]
        moving = self.members[source, slot]
        self.members[source, slot] = self.members[source, last]
        # Slots beyond a group's size keep unused numbers, so that `members` stays a permutation.
        self.members[source, last] = self.members[target, self.sizes[target]]
        self.members[target, self.sizes[target]] = moving
        self.sizes[target] += 1

    def _filled(self, lines: Array) -> Array:
        """(g, w) True for the slots of these groups that hold a row."""
        return np.arange(self.width) < self.sizes[lines][:, None]


class EuclideanTable(GroupTable):
    """Sums of squared errors.

    With s_a, s_b the sums of the rows of two groups of k rows, swapping x_i and x_r changes k times their distortion by
    ``2 (s_b − s_a)·e − 2 |e|²``, ``e = x_r − x_i``.  With ``y_i = 2 x_i − s_a`` and ``u_i = (|s_a|² − |y_i|²) / 2``
    this is ``u_i + u_r + y_i·y_r − s_a·s_b``: terms stored per group, and one small matrix product per pair.

    totals  : (g, d) sum of each group's rows
    squares : (g,) sum of their squares
    left    : (g, k, d + 2) y, u, 1 of the groups of k rows
    right   : (g, d + 2, k) the transpose of y, 1, u: small matrix products are slow if they have to transpose
    """

    def __init__(self, x: Array, sizes: Array, k: int) -> None:
        g, w, self.d = x.shape
        rows = np.empty((g, w, self.d + 2))  # coordinates, their squares, and 1
        rows[:, :, : self.d] = x
        np.einsum("gwd,gwd->gw", x, x, out=rows[:, :, self.d])
        rows[:, :, self.d + 1] = 1
        super().__init__(rows, sizes, k)
        self.totals, self.squares = np.empty((g, self.d)), np.empty(g)
        self.left, self.right = np.empty((g, k, self.d + 2)), np.empty((g, self.d + 2, k))
        self.keep = np.vstack([2 * np.eye(k) - 1, np.ones(k)])
        if w == k:
            self._load_tight(slice(None), rows)
        else:
            self.load(np.arange(g))

    def load(self, lines: Array) -> None:
        if self.width > self.k:
            tight = self.sizes[lines] == self.k
            loose = lines[~tight]
            if len(loose):
                x = self.rows[self.members[loose]]
                x[~self._filled(loose)] = 0
                sums = x.sum(axis=1)
                norms = np.einsum("gd,gd->g", sums[:, : self.d], sums[:, : self.d])
                self._load_sums(loose, sums, norms, self.sizes[loose])
            lines = lines[tight]
        held = self.members.take(lines, axis=0)
        self._load_tight(lines, self.rows.take(held[:, : self.k], axis=0))

    def _load_tight(self, lines: Array | slice, x: Array) -> None:
        """Store what is known of groups of k rows x (g, k, d + 2)."""
        d, k = self.d, self.k
        kept = np.matmul(self.keep, x)  # y of each row, and the sum of the rows
        norms = np.einsum("gkd,gkd->gk", kept[:, :, :d], kept[:, :, :d])
        self._load_sums(lines, kept[:, k], norms[:, k], k)
        kept, u = kept[:, :k], (norms[:, k:] - norms[:, :k]) / 2
        kept[:, :, d], kept[:, :, d + 1] = u, 1
        self.left[lines] = kept
        kept[:, :, d], kept[:, :, d + 1] = 1, u
        self.right[lines] = kept.transpose(0, 2, 1)

    def _load_sums(self, lines: Array | slice, sums: Array, norms: Array, sizes: Array | int) -> None:
        """Store the sums (g, d + 2) of the groups' rows, of which `norms` (g,) are the squares of the totals."""
        squares = sums[:, self.d]
        self.totals[lines], self.squares[lines] = sums[:, : self.d], squares
        self.distortion[lines] = (sizes * squares - norms) / sizes

    def weigh(self, a: Array, b: Array) -> tuple[Array, Array]:
        if self.width == self.k:
            return self._weigh_tight(a, b)
        tight = (self.sizes[a] == self.k) & (self.sizes[b] == self.k)
        change, code = np.empty(len(a)), np.empty(len(a), dtype=np.int64)
        for choice, weigh in ((tight, self._weigh_tight), (~tight, super().weigh)):
            if choice.any():
                change[choice], code[choice] = weigh(a[choice], b[choice])
        return change, code

    def _weigh_tight(self, a: Array, b: Array) -> tuple[Array, Array]:
        """Swaps between groups of k rows."""
        changes = np.matmul(self.left.take(a, axis=0), self.right.take(b, axis=0)).reshape(len(a), -1)
        code = changes.argmin(axis=1)
        change = changes.reshape(-1).take(code + np.arange(0, changes.size, changes.shape[1]))
        change -= np.einsum("pd,pd->p", self.totals.take(a, axis=0), self.totals.take(b, axis=0))
        change /= self.k
        if self.width > self.k:
            code = code // self.k * self.width + code % self.k
        return change, code

    def sums(self, a: Array, b: Array) -> tuple[Array, Array, Array, Array, Array]:
        x_a, x_b = self.rows.take(self.members[a], axis=0), self.rows.take(self.members[b], axis=0)
        d = self.d
        apart = np.matmul(-2 * x_a[:, :, :d], np.ascontiguousarray(x_b[:, :, :d].transpose(0, 2, 1)))
        apart += x_a[:, :, d, None]
        apart += x_b[:, None, :, d]
        over = self._over
        return apart, over(x_a, a), over(x_a, b), over(x_b, b), over(x_b, a)

    def _over(self, x: Array, lines: Array) -> Array:
        """(p, w) sums of the squared distances of the rows x (p, w, d + 2) from those of these groups."""
        sums = np.matmul(x[:, :, : self.d], -2 * self.totals[lines][:, :, None])[:, :, 0]
        sums += self.sizes[lines][:, None] * x[:, :, self.d]
        sums += self.squares[lines][:, None]
        return sums


class GowerTable(GroupTable):
    """``Σ_{i<j} D(i, j) / n`` for Gower's D.  √D is a Euclidean distance, so this is a sum of squares too.

    mismatch : (d,) distance of two categories of a column; −1 for numeric columns
    within   : (g, w) sum of each row's distances from the others of its group
    """

    def __init__(self, x: Array, sizes: Array, k: int, mismatch: Array) -> None:
        super().__init__(x, sizes, k)
        self.mismatch = mismatch
        self.within = np.empty(self.members.shape)
        self.load(np.arange(len(x)))

    def load(self, lines: Array) -> None:
        self.within[lines] = self._distances(lines, lines).sum(axis=2)
        self.distortion[lines] = self.within[lines].sum(axis=1) / (2 * self.sizes[lines])

    def _distances(self, a: Array, b: Array) -> Array:
        """(p, w, w) distances of the rows of the groups a from those of the groups b; 0 for empty slots."""
        x = np.moveaxis(self.rows[self.members[a]], 2, 0)[:, :, :, None]
        y = np.moveaxis(self.rows[self.members[b]], 2, 0)[:, :, None, :]
        distance = np.zeros(np.broadcast_shapes(x.shape[1:], y.shape[1:]))
        for column, mismatch in enumerate(self.mismatch.tolist()):
            distance += np.abs(x[column] - y[column]) if mismatch < 0 else mismatch * (x[column] != y[column])
        distance[~(self._filled(a)[:, :, None] & self._filled(b)[:, None, :])] = 0
        return distance

    def sums(self, a: Array, b: Array) -> tuple[Array, Array, Array, Array, Array]:
        apart = self._distances(a, b)
        return apart, self.within[a], apart.sum(axis=2), self.within[b], apart.sum(axis=1)
