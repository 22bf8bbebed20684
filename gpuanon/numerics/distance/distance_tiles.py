"""Candidates for the nearest rows, by bounds on tiles of near rows: exact, for any number of columns.

The rows of the table are turned to their principal axes and cut into tiles of at most 256 near rows by balanced median
cuts.  The queries are cut in the same way, and answered in batches of near ones:

1. The distance from a query to the box of a tile, along the leading axes, is a lower bound for every row in it.
2. A product in single precision gives ``|y|² − 2 x·y`` for the few nearest tiles of each query.  Of these the k-th
   smallest plus its rounding error is an upper bound of the k-th distance.
3. The same product for every tile whose lower bound is below that leaves the candidates, whose distances are computed
   from differences.

Every bound is widened by its rounding error, so the result is exact.  How many tiles step 3 looks at depends on the
table: 6 % of 100 000 rows with 8 columns, 40 % of 400 000 rows with 47; all of them where columns are many and
unrelated, at about half a nanosecond per pair and core.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.partition import Partition
from gpuanon.numerics.cuts.median_blocks import blocks
from gpuanon.numerics.distance.distance_host import Columns

QUERIES = 4096
"""Queries per batch, at most: fewer where there are many tiles."""

_BOUNDS = 1 << 21  # bounds of a batch: queries × tiles
_BATCHES = 16  # of many queries, at least: threads share them
_LEAST = 512  # queries per batch that are worth a look at all tiles
_TILE = 256
_FIRST = 4  # tiles of a query that give the upper bound
_GROUP = 16  # rows of a tile of which the smallest counts for the upper bound
_AXES = 16  # leading axes along which tiles have boxes
_TURNED = 512  # more columns are left as they are: their covariance would cost more than it saves
_SAMPLE = 20_000  # rows that the principal axes are computed from
_PIECE = 1 << 16  # rows that are turned at a time
_PAIRS = 1 << 14  # distances from differences that are computed at a time
_HUGE = 1e15  # larger squares may overflow single precision


@dataclass(frozen=True, eq=False)
class Frame:
    """Coordinates in which the rows are centred, turned to their principal axes, and no longer than 1.

    scale, centre : a row y has the coordinates ``(y · scale − centre) @ axes``; axes None for no turn
    blur          : bound of the rounding error of a coordinate in double precision
    unit          : squared length of a coordinate of 1, as rows are measured
    """

    scale: Host
    centre: Host
    axes: Host | None
    blur: float
    unit: float

    @classmethod
    def of(cls, Y: Host, weights: Host) -> Frame:
        """The frame of a table (m, d)."""
        m, d = Y.shape
        scale = np.sqrt(weights)
        centre = Y.mean(axis=0) * scale
        radius = max(
            float(np.sqrt(((Y[at : at + _PIECE] * scale - centre) ** 2).sum(axis=1).max()))
            for at in range(0, m, _PIECE)
        )
        radius = radius or 1.0
        largest = float((np.abs(Y).max(axis=0) * scale).max(initial=0.0))
        axes = None
        if 1 < d <= _TURNED:
            some = (Y[:: -(-m // _SAMPLE)] * scale - centre) / radius
            axes = np.linalg.eigh(some.T @ some)[1][:, ::-1].copy()
        return cls(scale / radius, centre / radius, axes, 2.0**-50 * d * largest / radius, radius**2)

    def coordinates(self, rows: Host) -> Host:
        """(n, d) of rows (n, d)."""
        found = rows * self.scale - self.centre
        return found if self.axes is None else found @ self.axes


@dataclass(frozen=True, eq=False)
class Tiles:
    """A table in tiles of near rows, ready to be searched by squared Euclidean distance.

    table     : (m, d) the rows, as they are
    order     : (m,) the rows, tile by tile; those of tile t are ``order[starts[t]:starts[t + 1]]``
    factors   : (m, d + 1) float32 ``(y, |y|²)`` of the rows in that order
    low, high : (a, tiles) the boxes along the leading axes
    radii     : (tiles,) the largest norm in each tile
    tied      : share of a distance by which ties may differ
    """

    table: Host
    weights: Host
    frame: Frame
    order: Host
    starts: Host
    factors: Host
    low: Host
    high: Host
    radii: Host
    tied: float

    @classmethod
    def of(cls, table: Host, weights: Host, tied: float = 0.0) -> Tiles:
        """The tiles of a table (m, d)."""
        m, d = table.shape
        frame = Frame.of(table, weights)
        factors = np.empty((m, d + 1), dtype=np.float32)
        squares = np.empty(m)
        for at in range(0, m, _PIECE):
            Z = frame.coordinates(table[at : at + _PIECE])
            factors[at : at + _PIECE, :d] = Z
            squares[at : at + _PIECE] = factors[at : at + _PIECE, d] = (Z * Z).sum(axis=1)
        cut = near_parts(factors[:, :d], _TILE)
        order, starts = cut.order, cut.starts
        factors = factors[order]
        leading = factors[:, : min(d, _AXES)]
        low = np.nextafter(np.minimum.reduceat(leading, starts[:-1]), np.float32(-np.inf))
        high = np.nextafter(np.maximum.reduceat(leading, starts[:-1]), np.float32(np.inf))
        radii = np.sqrt(np.maximum.reduceat(squares[order], starts[:-1]))
        return cls(table, weights, frame, order, starts, factors, low.T.copy(), high.T.copy(), radii, tied)

    def batches(self, X: Host) -> Iterator[Host]:
        """The rows of `X` (n, d) in batches of near ones, for `candidates`."""
        size = min(QUERIES, max(_LEAST, min(_BOUNDS // len(self.radii), len(X) // _BATCHES)))
        if len(X) <= size:
            yield np.arange(len(X))
            return
        leading = self.frame.coordinates(X)[:, :_AXES].astype(np.float32)
        cut = near_parts(leading, size)
        for first, last in zip(cut.starts[:-1], cut.starts[1:], strict=True):
            yield cut.order[first:last]

    def candidates(self, X: Host, k: int) -> tuple[Host, Host, Host]:
        """(query, row, distance) triples: for each query all rows up to its k-th distance or tied with the nearest, and
        few others.

        Queries ascend.  `X` has at most `QUERIES` rows.
        """
        Z = self.frame.coordinates(X)
        squares = (Z * Z).sum(axis=1)
        norms = np.sqrt(squares)
        if norms.max(initial=0) > _HUGE:
            query, row = (at.reshape(-1) for at in np.indices((len(X), len(self.table))))
            return query, row, self._measured(X, query, row)
        points = np.concatenate([-2 * Z, np.ones((len(Z), 1))], axis=1).astype(np.float32).T.copy()
        bounds = self._box_distances(Z)
        # Rounding of the factors, of the product in single precision, and of the inputs; the same covers the boxes.
        # And what ties may differ by.
        reach = norms + self.radii[:, None]
        share = (3 * X.shape[1] + 16) * 2.0**-24 + self.tied
        error = ((share * reach + 4 * self.frame.blur) * reach).astype(np.float32)
        bounds -= error
        limit = self._upper_bound(points, bounds, error, k)
        needed = bounds <= limit + squares.astype(np.float32)
        queries, rows = [], []
        for tile in np.flatnonzero(needed.any(axis=1)).tolist():
            chosen = np.flatnonzero(needed[tile])
            values = self._values(tile, points, chosen)
            row, at = np.divmod(_places(values <= (limit + error[tile])[chosen]), len(chosen))
            queries.append(chosen[at])
            rows.append(self.order[row + self.starts[tile]])
        query, row = np.concatenate(queries), np.concatenate(rows)
        sort = np.argsort(query, kind="stable")
        query, row = query[sort], row[sort]
        return query, row, self._measured(X, query, row)

    def _box_distances(self, Z: Host) -> Host:
        """(tiles, q) squared distance of each query from the box of each tile, along the leading axes."""
        points = Z[:, : len(self.low)].T.astype(np.float32)
        out = np.zeros((self.low.shape[1], len(Z)), dtype=np.float32)
        step = max(1, (1 << 16) // len(Z))
        gap = np.empty((step, len(Z)), dtype=np.float32)
        for at in range(0, len(out), step):
            some = out[at : at + step]
            part = gap[: len(some)]
            for x, low, high in zip(points, self.low[:, at : at + step], self.high[:, at : at + step], strict=True):
                np.clip(x, low[:, None], high[:, None], out=part)
                np.subtract(part, x, out=part)
                np.multiply(part, part, out=part)
                np.add(some, part, out=some)
        return out

    def _upper_bound(self, points: Host, bounds: Host, error: Host, k: int) -> Host:
        """(q,) float32 upper bound of the k-th smallest ``|y|² − 2 x·y``, from the nearest tiles."""
        q = points.shape[1]
        first = min(len(bounds), max(_FIRST, -(-4 * _GROUP * k // _TILE)))
        near = np.argpartition(bounds, first - 1, axis=0)[:first]
        tile, query = near.reshape(-1), np.tile(np.arange(q), first)
        sort = np.argsort(tile * q + query)
        place = np.repeat(np.arange(first), q)[sort]
        tile, query = tile[sort], query[sort]
        groups = -(-_TILE // _GROUP)
        least = np.full((q, first, groups), np.inf, dtype=np.float32)
        borders = np.append(np.flatnonzero(np.append(True, tile[1:] != tile[:-1])), len(tile))
        for a, b in itertools.pairwise(borders):
            chosen = query[a:b]
            values = self._values(tile[a], points, chosen)
            smallest = np.minimum.reduceat(values, np.arange(0, len(values), _GROUP), axis=0)
            least[chosen, place[a:b], : len(smallest)] = (smallest + error[tile[a], chosen]).T
        least = least.reshape(q, -1)
        if k > least.shape[1]:
            return np.full(q, np.inf, dtype=np.float32)
        return np.asarray(np.partition(least, k - 1, axis=1)[:, k - 1])

    def _values(self, tile: int, points: Host, chosen: Host) -> Host:
        """(rows, c) ``|y|² − 2 x·y`` of the rows of a tile and the chosen queries, which ascend."""
        some = points if len(chosen) == points.shape[1] else points[:, chosen]
        return np.asarray(self.factors[self.starts[tile] : self.starts[tile + 1]] @ some)

    def _measured(self, X: Host, query: Host, row: Host) -> Host:
        """(c,) distances from differences, in the order of summation of all others."""
        out = np.empty(len(query))
        for at in range(0, len(query), _PAIRS):
            some = slice(at, at + _PAIRS)
            columns = Columns(self.table[row[some]].T, self.weights, np.zeros(len(self.weights), dtype=bool), True)
            out[some] = columns.along(X[query[some]].T)
        return out


def _places(flags: Host) -> Host:
    """Where the few of many `flags` are set, in their flattened order: eight at a time are passed over."""
    flat = flags.reshape(-1)
    whole = len(flat) // 8 * 8
    words = np.flatnonzero(flat[:whole].view(np.uint64))
    near = (8 * words[:, None] + np.arange(8)).reshape(-1)
    return np.concatenate([near[flat[near]], whole + np.flatnonzero(flat[whole:])])


def near_parts(points: Host, size: int) -> Partition:
    """Parts of at most `size` near rows of `points` (n, a), by balanced median cuts."""
    return blocks(np.ascontiguousarray(points[:, :_AXES]), Partition.whole(len(points)), size)
