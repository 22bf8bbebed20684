"""The rows nearest to a few queries when one column after the other is left out, by one pass over the table.

``|x − y|²`` over all features is one product in single precision for a tile of rows and all queries; without the
features of a column it is that less the column's own part.  Of each tile the smallest is kept, with a bound of its
rounding error; the tiles that may hold the nearest row are then measured from differences.  So the result is exact, at
about half a nanosecond per query, row and column, where a search for each column would take a product for each.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each
from gpuanon.errors import ParameterError
from gpuanon.numerics.metric import tie_limit

_TILE = 256
_QUERIES = 512  # with a tile they fit a core's cache
_PIECE = 1 << 14  # rows that are scaled at a time
_PAIRS = 1 << 18  # distances from differences that are computed at a time
_LARGEST = 1e15  # squares of larger numbers, in units of the table, may overflow single precision


def nearest_without(X: Host, Y: Host, left_out: Sequence[Sequence[int]]) -> list[tuple[Host, Host]]:
    """For each set of features that is left out, pairs (query, row): the rows of `Y` nearest to each row of `X`.

    Rows that are tied with the nearest one are all there (`tie_limit`); queries ascend, and
    the rows of a query.

    Parameters
    ----------
    X, Y : (q, d) and (m, d); memory is q · m / 64 bytes for each set
    left_out : features of each set, fewer than all
    """
    if not all(0 < len(set(out)) < Y.shape[1] for out in left_out):
        raise ParameterError("left_out: some of the features, not all")
    centre, pieces = Y.mean(axis=0), ranges(len(Y), _PIECE)
    radius = max(float(((Y[some] - centre) ** 2).sum(axis=1).max(initial=0.0)) for some in pieces) ** 0.5 or 1.0
    asked = (X - centre) / radius
    reach = 1 + np.sqrt((asked**2).sum(axis=1))
    if not bool((reach < _LARGEST).all()):
        raise ParameterError("X, Y: finite numbers of similar size are needed")
    asked32, points32 = asked.astype(np.float32), np.empty(Y.shape, dtype=np.float32)
    for some in pieces:
        points32[some] = (Y[some] - centre) / radius
    least = np.empty((len(left_out), -(-len(Y) // _TILE), len(X)), dtype=np.float32)

    def look(tiles: slice) -> None:
        for at in range(tiles.start, tiles.stop):
            _smallest(points32[at * _TILE : (at + 1) * _TILE], asked32, left_out, least[:, at])

    with one_blas_thread():
        each(look, ranges(least.shape[1], 64))
    # Rounding of both products, of the sums, and of the inputs, as in `distance_tiles`; and what ties may differ by.
    error = (2 * (3 * Y.shape[1] + 16) * 2.0**-24 * reach**2).astype(np.float32)
    return each(lambda number: _measured(X, Y, left_out[number], least[number], error), range(len(left_out)))


def _smallest(rows: Host, asked: Host, left_out: Sequence[Sequence[int]], out: Host) -> None:
    """(sets, q) the smallest ``|y|² − 2 x·y`` of a tile of rows, without each set of features."""
    squares = rows * rows
    for some in ranges(len(asked), _QUERIES):
        queries = asked[some]
        whole = rows @ (-2 * queries).T
        whole += squares.sum(axis=1)[:, None]
        part = np.empty_like(whole)
        for number, features in enumerate(left_out):
            chosen = list(features)
            if len(chosen) == 1:
                np.multiply(2 * rows[:, chosen], queries[:, chosen].T, out=part)
            else:
                np.matmul(2 * rows[:, chosen], queries[:, chosen].T, out=part)
            part += whole
            part -= squares[:, chosen].sum(axis=1)[:, None]
            part.min(axis=0, out=out[number, some])


def _measured(X: Host, Y: Host, left_out: Sequence[int], least: Host, error: Host) -> tuple[Host, Host]:
    """The nearest rows in the tiles that may hold them, by distances from differences."""
    kept = [j for j in range(Y.shape[1]) if j not in set(left_out)]
    query, tile = np.nonzero((least <= least.min(axis=0) + 2 * error).T)
    found = []
    step = max(1, _PAIRS // _TILE)
    pieces = []
    for some in ranges(len(query), step):
        row = tile[some, None] * _TILE + np.arange(_TILE)
        there = row < len(Y)
        row = np.minimum(row, len(Y) - 1)
        distance = np.zeros(row.shape)
        for j in kept:
            distance += (X[query[some], j][:, None] - Y[row, j]) ** 2
        distance[~there] = np.inf
        pieces.append((row, distance))
    smallest = np.full(len(X), np.inf)
    for some, (_, distance) in zip(ranges(len(query), step), pieces, strict=True):
        np.minimum.at(smallest, query[some], distance.min(axis=1))
    limit = tie_limit(smallest)
    for some, (row, distance) in zip(ranges(len(query), step), pieces, strict=True):
        pair, at = np.nonzero(distance <= limit[query[some]][:, None])
        found.append((query[some][pair], row[pair, at]))
    return np.concatenate([one[0] for one in found]), np.concatenate([one[1] for one in found])
