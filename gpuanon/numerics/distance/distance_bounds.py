"""Candidates for the furthest rows, by bounds on blocks of rows: exact, for any number of columns.

A product in single precision gives ``2 x·y − |y|²`` for a batch of queries and all rows; only the smallest in each
block of 64 rows is kept.  The k-th smallest of these plus its rounding error is an upper bound of the k-th furthest.  A
block whose smallest value minus its error is above the bound cannot hold a candidate.  Distances to the few remaining
blocks are computed from differences, so the result is exact.  Cost: about half a nanosecond per pair and core.  The
nearest rows: `gpuanon.numerics.distance.distance_tiles`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.numerics.distance.distance_host import Columns

QUERIES = 256
"""Queries per batch: together with a tile they fit a core's cache."""

_BLOCK = 64
_TILE = 256
_PAIRS = 1 << 12  # (query, block) pairs of a batch
_GROUP = 8  # blocks of which only the smallest bound is looked at for the k-th distance
_HUGE = 1e15  # larger squares may overflow single precision
_TINY = 1e-300  # smaller numbers are denormal
_FAR = 1e30  # further than any row; finite, because products with infinity raise floating-point flags


@dataclass(frozen=True, eq=False)
class BoundedBlocks:
    """A table in blocks of 64 rows, ready to be searched by squared Euclidean distance.

    factors : (padded, d + 1) float32 ``−(y, |y|²)`` of the rows weighted, centred, and divided by the largest
              norm; padding is far from everything
    radii   : (b,) the largest norm in each block
    exact   : the table in blocks, for distances from differences
    scale, centre : y is ``row · scale − centre``
    blur    : bound of the rounding error of y in double precision
    unit    : the largest norm, squared
    """

    factors: Host
    radii: Host
    exact: Columns
    rows: int
    scale: Host
    centre: Host
    blur: float
    unit: float

    @classmethod
    def of(cls, columns: Columns) -> BoundedBlocks:
        """The blocks of a table."""
        d, m = columns.values.shape
        padding = -m % _BLOCK
        scale = np.sqrt(columns.weights)
        scaled = columns.values.T * scale
        centre = scaled.mean(axis=0)
        radius = np.sqrt(((scaled - centre) ** 2).sum(axis=1).max()) or 1.0
        Z = np.zeros((m + padding, d))
        Z[:m] = (scaled - centre) / radius
        squares = (Z * Z).sum(axis=1)
        factors = -np.concatenate([Z, squares[:, None]], axis=1)
        factors[m:, -1] = _FAR
        padded = np.concatenate([columns.values, columns.values[:, -1:].repeat(padding, axis=1)], axis=1)
        exact = Columns(padded.reshape(d, -1, _BLOCK), columns.weights, columns.categorical, columns.squared)
        radii = np.sqrt(squares.reshape(-1, _BLOCK).max(axis=1))
        blur = 2.0**-50 * d * float(np.abs(scaled).max()) / radius
        single = factors.astype(np.float32)
        return cls(single, radii, exact, m, scale / radius, centre / radius, blur, radius**2)

    def candidates(self, X: Host, k: int) -> tuple[Host, Host, Host]:
        """(query, row, distance) triples with, for each query, all rows up to its k-th distance, and few others.

        Queries ascend.  `X` has at most `QUERIES` rows.
        """
        Z = X * self.scale - self.centre
        norms = np.sqrt((Z * Z).sum(axis=1))
        if norms.max(initial=0) > _HUGE:
            query, block = np.nonzero(np.ones((len(X), len(self.radii)), dtype=bool))
            return self._measured(X, query, block, None)
        least = self._least(Z)
        # Rounding of the factors, of the product in single precision, and of the inputs.
        reach = norms + self.radii[:, None]
        error = (((3 * X.shape[1] + 16) * 2.0**-24 * reach + 4 * self.blur) * reach).astype(np.float32)
        if k < len(least):
            # The k-th smallest of the smallest bounds of groups of blocks is a bound as well, and is found faster.
            above = least + error
            groups = len(least) // _GROUP
            if groups >= 16 * k:
                above = np.minimum.reduceat(above, np.arange(groups) * _GROUP, axis=0)
            limit = np.partition(above, k - 1, axis=0)[k - 1]
        else:
            limit = np.full(len(X), np.float32(np.inf))
        block, query = np.nonzero(least - error <= limit)
        order = np.argsort(query, kind="stable")
        # The slack of the error is larger than the rounding of this sum.
        return self._measured(X, query[order], block[order], limit - norms**2)

    def _least(self, Z: Host) -> Host:
        """(b, q) the smallest ``2 x·y − |y|²`` in each block."""
        queries = np.concatenate([-2 * Z, np.ones((len(Z), 1))], axis=1).astype(np.float32).T.copy()
        least = np.empty((len(self.radii), len(Z)), dtype=np.float32)
        tile = np.empty((_TILE, len(Z)), dtype=np.float32)
        for at in range(0, len(self.factors), _TILE):
            factors = self.factors[at : at + _TILE]
            values = tile[: len(factors)]
            np.matmul(factors, queries, out=values)
            blocks = slice(at // _BLOCK, (at + len(factors)) // _BLOCK)
            np.minimum.reduce(values.reshape(-1, _BLOCK, len(Z)), axis=1, out=least[blocks])
        return least

    def _measured(self, X: Host, query: Host, block: Host, limit: Host | None) -> tuple[Host, Host, Host]:
        """Rows of the blocks and their distances, without those beyond the query's limit (in units of the radius²)."""
        found = [(query[:0], block[:0], np.empty(0))]
        for at in range(0, len(query), _PAIRS):
            q, b = query[at : at + _PAIRS], block[at : at + _PAIRS]
            distance = self.exact.pairs(X[q], b)
            keep = b[:, None] * _BLOCK + np.arange(_BLOCK) < self.rows
            if limit is not None:
                keep &= -distance <= limit[q][:, None] * self.unit + _TINY
            pair, offset = np.nonzero(keep)
            found.append((q[pair], b[pair] * _BLOCK + offset, distance[pair, offset]))
        queries, rows, distances = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return queries, rows, distances
