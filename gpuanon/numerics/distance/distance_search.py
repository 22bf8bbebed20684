"""Exact search for the k nearest rows on the host, including ties.

A fast search with other rounding (`distance_leaves` where it is compiled; else a k-d tree for few columns,
`distance_tiles` for many) only proposes candidates.  Their distances are recomputed from differences.  The candidates
are accepted if they provably contain every row that is nearer than the k-th or tied with it; otherwise more are
requested.  Rows that occur several times are handled once, as queries and as candidates.

The neighbours of groups (`masking.groups.refine.neighbours`) are another search with another tie rule; see there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.threads import each, thread_count
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance_bounds import QUERIES, BoundedBlocks
from gpuanon.numerics.distance.distance_host import Columns, all_pairs, panel, row_panels
from gpuanon.numerics.distance.distance_leaves import Leaves, worth_compiling
from gpuanon.numerics.distance.distance_tiles import Tiles
from gpuanon.numerics.equal_rows import equal_rows_adjacent
from gpuanon.numerics.metric import Metric, tie_limit

Proposal: TypeAlias = Callable[[Host, int], tuple[Host, Host]]
"""(queries (q, d), count) → (q, count) rows of the table, and (q,) a lower bound of the distances of all other rows."""

_SMALL = 1 << 22  # up to this many pairs all are measured: faster than any index
_TREE_COLUMNS = 7  # with more columns a k-d tree visits so many leaves that bounds on tiles are faster
_FEWEST_COLUMNS = 3  # with no more, a k-d tree is as fast as compiled leaves
_MOST_COLUMNS = 32  # with more, products over whole tiles are as fast
_FEW_VALUES = 32  # indicators of categories and the like: they cut most rows away at once
_SPARE = 1  # extra candidates, to detect ties
_MANY = 64  # candidates of a query: those that need more, because many rows are about as near, are searched in tiles
_BATCH = 1 << 19  # candidates of a batch
_LARGEST = 1e150  # squares of larger numbers may overflow
_EPSILON = float(np.finfo(np.float64).eps)


def search(X: Host, Y: Host, k: int, metric: Metric) -> tuple[Host, Host, Host]:
    """(n, k) distances and indices of the nearest rows, in order, lowest index first among ties; (n,) ties.

    The ties of a row are the rows of `Y` at its smallest distance, but for rounding: see `distance`.
    """
    real = np.float32 if X.dtype == Y.dtype == np.float32 else np.float64
    if not all(float(np.abs(table).max(initial=0)) < _LARGEST for table in (X, Y)):  # false for NaN too
        raise ParameterError(
            f"X, Y: distances need finite numbers, smaller than {_LARGEST:g}",
            hint="encode or fill missing values first",
        )
    queries, table = Distinct.of(X), Distinct.of(Y)
    n, m = len(queries.rows), len(table.rows)
    answers = _Answers(np.empty((n, k)), np.empty((n, k), dtype=np.int64), np.empty(n, dtype=np.int64), table, real)
    if n * m > _SMALL:
        _search_many(queries.rows, table.rows, min(k, m), metric, answers)
    else:
        _measure_all(queries.rows, Columns.of(table.rows, metric), min(k, m), answers)
    inverse = queries.inverse()
    return answers.distance[inverse], answers.index[inverse], answers.ties[inverse]


def looks_at_few(Y: Host) -> bool:
    """Whether the rows nearest to a row are found without looking at most of them: few columns have many values."""
    some = Y[:: max(1, len(Y) // 4096)]
    return sum(len(np.unique(column)) > _FEW_VALUES for column in some.T) <= _TREE_COLUMNS


def furthest(X: Host, Y: Host, metric: Metric) -> tuple[Host, Host]:
    """(n,) largest distance, and (n,) the lowest index that has it."""
    columns = Columns.of(Y, metric)
    most, index = np.empty(len(X)), np.empty(len(X), dtype=np.int64)
    X = X.astype(np.float64, copy=False)
    blocks = BoundedBlocks.of(columns) if columns.squared and X.size * len(Y) > _SMALL else None

    def search_all(rows: slice) -> None:
        D = panel(X[rows], columns)
        index[rows] = D.argmax(axis=1)
        most[rows] = D[np.arange(len(D)), index[rows]]

    def search_blocks(rows: slice) -> None:
        assert blocks is not None
        query, row, distance = blocks.candidates(X[rows], 1)
        best = np.lexsort((row, -distance, query))[np.searchsorted(query, np.arange(rows.stop - rows.start))]
        most[rows], index[rows] = distance[best], row[best]

    with one_blas_thread():
        if blocks is None:
            each(search_all, row_panels(len(X), len(Y)))
        else:
            each(search_blocks, ranges(len(X), QUERIES))
    return most, index


@dataclass(frozen=True, eq=False)
class Distinct:
    """The distinct rows of a table, and where each occurs: ``order[starts[u]:starts[u + 1]]``, ascending."""

    rows: Host
    order: Host
    starts: Host

    @classmethod
    def of(cls, X: Host) -> Distinct:
        """Rows are compared as numbers: −0 and 0 are the same.  A table without equal rows is not copied."""
        rows = np.ascontiguousarray(X, dtype=np.float64)
        n = len(rows)
        order, first = equal_rows_adjacent(rows)
        if first.all():
            once = np.arange(n + 1, dtype=np.int32 if n < 2**31 - 1 else np.int64)
            return cls(rows, once[:n], once)
        starts = np.append(np.flatnonzero(first), n)
        return cls(rows[order[starts[:-1]]], order, starts)

    @property
    def counts(self) -> Host:
        """How often each distinct row occurs."""
        return np.diff(self.starts)

    def inverse(self) -> Host:
        """(n,) the distinct row of each row."""
        inverse = np.empty(len(self.order), dtype=np.int64)
        inverse[self.order] = np.repeat(np.arange(len(self.rows)), self.counts)
        return inverse


@dataclass(frozen=True, eq=False)
class _Answers:
    """Results for the distinct queries, as rows of the table with its duplicates."""

    distance: Host
    index: Host
    ties: Host
    table: Distinct
    real: type[np.floating[Any]]

    def limit(self, distance: Host) -> Host:
        """Up to which distance rows are tied with one at `distance`, in the precision of the tables."""
        return np.asarray(tie_limit(distance.astype(self.real)), dtype=np.float64)

    def put(self, rows: Host, query: Host, place: Host, distance: Host) -> None:
        """Store the results of the queries `rows`: the candidates `place` of ``rows[query]``, `query` ascending.

        The candidates of a query contain at least all distinct rows up to its k-th smallest distance, and those that
        are tied with its smallest.
        """
        k = self.distance.shape[1]
        counts = self.table.starts[place + 1] - self.table.starts[place]
        first = np.searchsorted(query, np.arange(len(rows)))
        least = np.minimum.reduceat(distance, first)
        tied = distance <= self.limit(least)[query]
        distance = np.where(tied, least[query], distance)
        self.ties[rows] = np.add.reduceat(np.where(tied, counts, 0), first)
        copies = np.minimum(counts, k)
        each_copy = np.repeat(np.arange(len(place)), copies)
        offset = np.arange(len(each_copy)) - np.repeat(np.cumsum(copies) - copies, copies)
        query, distance = query[each_copy], distance[each_copy]
        index = self.table.order[self.table.starts[place[each_copy]] + offset]
        first = np.searchsorted(query, np.arange(len(rows)))
        plain = np.diff(np.append(first, len(query))) == k
        for these, sort in ((plain, _sorted_rows), (~plain, _sorted_lists)):
            chosen = sort(query, distance, index, first[these], k, these)
            self.distance[rows[these]], self.index[rows[these]] = distance[chosen], index[chosen]


def _sorted_rows(query: Host, distance: Host, index: Host, first: Host, k: int, these: Host) -> Host:
    """(q, k) positions of the candidates in order, for queries with exactly k of them."""
    position = first[:, None] + np.arange(k)
    position = np.take_along_axis(position, np.argsort(index[position], axis=1), 1)
    return np.take_along_axis(position, np.argsort(distance[position], axis=1, kind="stable"), 1)


def _sorted_lists(query: Host, distance: Host, index: Host, first: Host, k: int, these: Host) -> Host:
    """(q, k) positions of the first k candidates in order, for queries with more of them."""
    chosen = np.flatnonzero(these[query])
    order = chosen[np.lexsort((index[chosen], distance[chosen], query[chosen]))]
    begin = np.searchsorted(query[order], np.flatnonzero(these))
    return np.asarray(order[begin[:, None] + np.arange(k)])


def _measure_all(X: Host, columns: Columns, k: int, answers: _Answers) -> None:
    """Measure every pair."""

    def answer(rows: slice) -> None:
        D = panel(X[rows], columns)
        limit = answers.limit(D.min(axis=1))
        limit = limit if k == 1 else np.maximum(limit, np.partition(D, k - 1, axis=1)[:, k - 1])
        query, place = np.nonzero(limit[:, None] >= D)
        answers.put(np.arange(rows.start, rows.stop), query, place, D[query, place])

    each(answer, row_panels(len(X), columns.rows))


def _search_many(X: Host, Y: Host, k: int, metric: Metric, answers: _Answers) -> None:
    """Measure few of the pairs, chosen by what is fastest for so many columns."""
    (m, d), left = Y.shape, np.arange(len(X))
    one = Columns.of(Y[:1], metric)  # weights and kinds of the columns
    if one.squared and _FEWEST_COLUMNS < d <= _MOST_COLUMNS and worth_compiling(len(X)):
        propose = Leaves.of(Y, one.weights).propose
        most = max(_MANY, 4 * (k + _SPARE))
        left = _search_candidates(X, left, one.over(Y), k, answers, propose, most)
        if not len(left):
            return
    if d <= _TREE_COLUMNS and not one.categorical.any():
        columns = one.over(Y)
        _search_candidates(X, left, columns, k, answers, _tree(Y, columns), m)
    elif one.squared:
        tied = float(answers.limit(np.ones(1))[0]) - 1
        _search_tiles(X, left, Tiles.of(Y, one.weights, tied), k, answers)
    else:
        _measure_all(X, Columns.of(Y, metric), k, answers)


def _search_tiles(X: Host, chosen: Host, tiles: Tiles, k: int, answers: _Answers) -> None:
    """Measure the pairs in tiles that the bounds do not exclude, for the `chosen` queries."""
    some = X if len(chosen) == len(X) else X[chosen]

    def answer(rows: Host) -> None:
        answers.put(chosen[rows], *tiles.candidates(some[rows], k))

    with one_blas_thread():
        each(answer, tiles.batches(some))


def _search_candidates(
    X: Host, waiting: Host, columns: Columns, k: int, answers: _Answers, propose: Proposal, most: int
) -> Host:
    """Request candidates, and more of them for queries whose candidates are not provably complete.

    waiting : the queries to answer
    most    : candidates that are requested of a query; those that need more are returned
    """
    count = min(k + _SPARE, columns.rows)
    while len(waiting) and count <= most:
        step = max(1, _BATCH // count)
        unproven = [waiting[:0]]
        for at in range(0, len(waiting), step):
            rows = waiting[at : at + step]
            place, bound = propose(X[rows], count)
            distance = all_pairs(X[rows], columns, place)
            limit = np.partition(distance, k - 1, axis=1)[:, k - 1]
            limit = np.maximum(limit, answers.limit(distance.min(axis=1)))
            proven = (limit < bound) | (count == columns.rows)
            unproven.append(rows[~proven])
            query, candidate = np.nonzero((distance <= limit[:, None])[proven])
            if proven.any():
                answers.put(rows[proven], query, place[proven][query, candidate], distance[proven][query, candidate])
        waiting, count = np.concatenate(unproven), min(4 * count, columns.rows)
    return waiting


def _tree(Y: Host, columns: Columns) -> Proposal:
    """A k-d tree of the scaled rows; Σ |·|^power is the distance."""
    from scipy.spatial import cKDTree

    power = 2 if columns.squared else 1
    scale = columns.weights ** (1 / power)
    tree = cKDTree(Y if (scale == 1).all() else Y * scale, balanced_tree=False, leafsize=32)
    largest = max(tree.maxes.max(), -tree.mins.min())

    def propose(X: Host, count: int) -> tuple[Host, Host]:
        scaled = X * scale
        distance, place = tree.query(scaled, k=np.arange(1, count + 1), p=power, workers=thread_count())
        # The bound is lowered by the rounding error of the scaling and of the tree.
        slack = 4 * _EPSILON * X.shape[1] * (largest + np.abs(scaled).max(axis=1))
        bound = np.maximum(distance[:, -1] * (1 - 1e-12) - slack, 0) ** power
        return place, bound

    return propose
