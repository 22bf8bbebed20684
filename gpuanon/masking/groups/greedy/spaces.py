"""The free rows of a batch of parts (those in no group yet), and their distances, under each metric.

The greedy groupings (k-member, MDAV, spanning tree) are written once on these methods.  Each method works on all parts
of the batch at once and picks one row per part.  Ties go to the lowest row.

Rows are whole numbers (`whole_numbers.Grid`), as float64 numbers: all products and sums stay below 2^53 and are exact.
So BLAS may add in any order, equal distances are equal, and the kernels, which compute in integers, choose the same
rows.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array


class Free:
    """State shared by the metrics: which rows are free, in arrays that shrink as rows are taken.

    Coordinates are stored column by column, (b, d, a), so that inner loops run along the rows.
    """

    coordinates: Array

    def __init__(self, valid: Array) -> None:
        self.batch = np.arange(len(valid))
        self.position = np.ascontiguousarray(np.broadcast_to(np.arange(valid.shape[1]), valid.shape))
        self.taken = ~valid
        self.left = valid.shape[1]  # rows still free, the same upper bound for all parts of the batch

    def at(self, index: Array) -> Array:
        """(b, d) coordinates of one row per part."""
        return self.coordinates[self.batch, :, index]

    def take(self, index: Array) -> Array:
        """Take one row per part; return its position in the padded part."""
        self.taken[self.batch, index] = True
        return self.position[self.batch, index]

    def shrink(self, taken: int) -> None:
        """Record that every part took `taken` rows; drop taken rows once they are a quarter of the arrays."""
        self.left = max(1, self.left - taken)
        if self.left > 0.75 * self.taken.shape[1]:
            return
        # Stable: free rows come first and keep their order, so the first of equal rows is still the lowest.
        keep = np.argsort(self.taken, axis=1, kind="stable")[:, : self.left]
        self.position = np.take_along_axis(self.position, keep, axis=1)
        self.taken = np.take_along_axis(self.taken, keep, axis=1)
        self.coordinates = np.take_along_axis(self.coordinates, keep[:, None, :], axis=2)

    def distances(self, point: Array) -> Array:
        """(b, a) values that increase with the distance from `point` (b, d); infinite for taken rows."""
        raise NotImplementedError

    def begin(self, index: Array) -> Array:
        """Take one row per part as the first of a new cluster; return its position."""
        raise NotImplementedError

    def join(self, index: Array) -> Array:
        """Add one row per part to the current cluster; return its position."""
        raise NotImplementedError

    def cheapest(self) -> Array:
        """(b,) index of the free row that raises the distortion of the current cluster least."""
        raise NotImplementedError

    def furthest(self, point: Array) -> Array:
        """(b,) index of the free row furthest from `point` (b, d)."""
        return self._last(self.distances(point))

    def furthest_from_seed(self, seed: Array) -> Array:
        """(b,) index of the free row furthest from the `seed` (b, d), the first row of the current cluster."""
        return self.furthest(seed)

    def furthest_from_mean(self) -> Array:
        """(b,) index of the free row furthest from the mean of all free rows."""
        raise NotImplementedError

    def take_nearest(self, centre: Array, k: int) -> Array:
        """Take the row `centre` (b,) of each part and its k − 1 nearest free rows; return the (b, k) positions."""
        distances = self.distances(self.at(centre))
        chosen = [centre]
        for _ in range(k - 1):
            distances[self.batch, chosen[-1]] = np.inf
            chosen.append(distances.argmin(axis=1))
        return np.stack([self.take(index) for index in chosen], axis=1)

    def _last(self, distances: Array) -> Array:
        np.putmask(distances, self.taken, -np.inf)
        return distances.argmax(axis=1)


class EuclideanFree(Free):
    """Squared Euclidean distances, as products: ``|x|² − 2 x·p`` increases with the distance of x from p.

    The last coordinate is ``|x|²``, made infinite for taken rows, so that they are never nearest.  The distances from
    the first row of a cluster serve to find the next row, and afterwards the first row of the next cluster.
    """

    def __init__(self, Z: Array, valid: Array) -> None:
        super().__init__(valid)
        self.Z = Z
        self.from_seed: Array = None  # (b, a) distances from the first row of the current cluster
        b, length, d = Z.shape
        self.coordinates = np.empty((b, d + 1, length))
        self.coordinates[:, :d] = Z.transpose(0, 2, 1)
        np.einsum("bdl,bdl->bl", self.coordinates[:, :d], self.coordinates[:, :d], out=self.coordinates[:, d])
        np.putmask(self.coordinates[:, d], ~valid, np.inf)
        self.free_total = np.where(valid[:, :, None], Z, 0).sum(axis=1, dtype=np.int64)
        self.free_count = valid.sum(axis=1)

    def at(self, index: Array) -> Array:
        return self.coordinates[self.batch, :-1, index]

    def take(self, index: Array) -> Array:
        self.coordinates[self.batch, -1, index] = np.inf
        return super().take(index)

    def distances(self, point: Array) -> Array:
        return self._scaled_distances(point, 1)

    def begin(self, index: Array) -> Array:
        self.seed, self.count = self.at(index), 1
        self.total = self.seed.copy()
        position = self.take(index)
        self.from_seed = self.distances(self.seed)
        return position

    def join(self, index: Array) -> Array:
        self.total += self.at(index)
        self.count += 1
        return self.take(index)

    def furthest_from_seed(self, seed: Array) -> Array:
        return self._last(self.from_seed)

    def shrink(self, taken: int) -> None:
        length = self.taken.shape[1]
        super().shrink(taken)
        if self.from_seed is not None and self.taken.shape[1] < length:
            self.from_seed = self.distances(self.seed)

    def cheapest(self) -> Array:
        # Adding x to the cluster C raises its distortion by |C| / (|C| + 1) · |x − mean(C)|².
        if self.count == 1:
            return self.from_seed.argmin(axis=1)
        return self._scaled_distances(self.total, self.count).argmin(axis=1)

    def furthest_from_mean(self) -> Array:
        # The mean is no whole number.  Distances from it are off by less than their columns and 3 (sums below 2^53 of
        # d + 1 rounded products); parts in which several rows are that close to the furthest compare them exactly.
        count = np.maximum(self.free_count, 1)[:, None]
        about = self._scaled_distances(self.free_total / count, 1)
        np.putmask(about, self.taken, -np.inf)
        best = about.argmax(axis=1)
        border = about[self.batch, best] - 2 * (self.coordinates.shape[1] + 2)
        tied = np.flatnonzero(((about >= border[:, None]).sum(axis=1) > 1) & np.isfinite(border))
        if len(tied):
            best[tied] = self._exactly_furthest(tied, count[tied])
        return best

    def _exactly_furthest(self, parts: Array, count: Array) -> Array:
        """The free row furthest from the mean of all free rows, in these parts.

        With the sum of the n free rows ``n c + r``: ``n (|x|² − 2 x·c) − 2 x·r`` increases with the distance.  c and r
        are whole numbers.  The products are below 2^53; their sum is taken in 64-bit integers.
        """
        centre, rest = np.divmod(self.free_total[parts], count)
        coordinates, taken = self.coordinates[parts], self.taken[parts]
        np.putmask(coordinates[:, -1], taken, 0)
        factors = np.ones((len(parts), 1, coordinates.shape[1]))
        factors[:, 0, :-1] = -2 * centre
        value = np.matmul(factors, coordinates)[:, 0].astype(np.int64)
        value *= count
        value -= np.matmul(2.0 * rest[:, None, :], coordinates[:, :-1])[:, 0].astype(np.int64)
        np.putmask(value, taken, np.iinfo(np.int64).min)
        return value.argmax(axis=1)

    def take_nearest(self, centre: Array, k: int) -> Array:
        position = super().take_nearest(centre, k)
        members = self.Z[self.batch[:, None], position]
        self.free_total -= members.sum(axis=1, dtype=np.int64)
        self.free_count -= k
        return position

    def _scaled_distances(self, total: Array, count: int) -> Array:
        """(b, a) ``count · |x|² − 2 x·total``, which increases with the distance from ``total / count``."""
        factors = np.empty((len(total), 1, total.shape[1] + 1))
        np.multiply(total, -2, out=factors[:, 0, :-1])
        factors[:, 0, -1] = count
        return np.matmul(factors, self.coordinates)[:, 0]


class GowerFree(Free):
    """Gower distances: absolute differences of the numeric columns, mismatches of the categorical ones.

    mismatch : (d,) distance of two categories of a column, −1 for numeric columns
    """

    def __init__(self, Z: Array, valid: Array, mismatch: Array) -> None:
        super().__init__(valid)
        self.coordinates = np.ascontiguousarray(Z.transpose(0, 2, 1), dtype=np.float64)
        self.mismatch = mismatch

    def distances(self, point: Array) -> Array:
        distance = self._rows(point)
        np.putmask(distance, self.taken, np.inf)
        return distance

    def begin(self, index: Array) -> Array:
        self.score = self.distances(self.at(index))
        self.score[self.batch, index] = np.inf
        return self.take(index)

    def join(self, index: Array) -> Array:
        self.score += self._rows(self.at(index))
        self.score[self.batch, index] = np.inf
        return self.take(index)

    def cheapest(self) -> Array:
        # Adding x to the cluster C raises Σ_{i<j} D(i, j) / |C| least where Σ_i D(x, i) is least.
        return self.score.argmin(axis=1)

    def furthest_from_mean(self) -> Array:
        # n times the distance from the mean of n rows: a whole number.
        free = ~self.taken
        centre = sums_and_modes(self.coordinates.transpose(0, 2, 1), free, self.mismatch)
        return self._last(self._rows(centre, free.sum(axis=1)[:, None]))

    def _rows(self, point: Array, scale: Array | None = None) -> Array:
        """(b, a) Gower distance of every row from `point` (b, d); with `scale` as in `gower`."""
        return gower(self.coordinates.transpose(1, 0, 2), point.T[:, :, None], self.mismatch, scale)


def gower(left: Array, right: Array, mismatch: Array, scale: Array | None = None) -> Array:
    """Gower distances of rows stored column by column: (d, ...) and (d, ...), broadcast against each other.

    mismatch : (d,) distance of two categories of a column, −1 for numeric columns
    scale    : multiplies the distances; the numeric columns of `right` are multiplied already
    """
    distance = np.zeros(np.broadcast_shapes(left.shape[1:], right.shape[1:]))
    for x, y, apart in zip(left, right, mismatch.tolist(), strict=True):
        if apart < 0:
            distance += np.abs((x if scale is None else x * scale) - y)
        else:
            distance += (x != y) * (float(apart) if scale is None else apart * scale)
    return distance


def sums_and_modes(Z: Array, members: Array, mismatch: Array) -> Array:
    """(b, d) sums of the `members` (b, a) among the rows `Z` (b, a, d), and modes of categorical columns.

    Of equally frequent codes the lowest is the mode.
    """
    centres = np.einsum("bad,ba->bd", Z, members)
    for column in np.flatnonzero(mismatch >= 0):
        levels, codes = np.unique(Z[:, :, column], return_inverse=True)
        flat = np.arange(len(Z))[:, None] * len(levels) + codes.reshape(members.shape)
        frequency = np.bincount(flat[members], minlength=len(Z) * len(levels)).reshape(len(Z), len(levels))
        centres[:, column] = levels[frequency.argmax(axis=1)]
    return centres


def free_rows(Z: Array, valid: Array, mismatch: Array | None) -> Free:
    """The rows `Z` (b, length, d) of the padded parts, all free, where `valid`.

    mismatch : as in `GowerFree`; None for squared Euclidean distances
    """
    return EuclideanFree(Z, valid) if mismatch is None else GowerFree(Z, valid, mismatch)
