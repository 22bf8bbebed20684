"""Microaggregation groups from a minimum spanning tree whose long edges are removed."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np

from gpuanon.arrays.backend import Array, Host
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.groups.batched import BATCH_ELEMENTS, group_batches, require_k_rows
from gpuanon.masking.groups.greedy.spaces import free_rows
from gpuanon.masking.groups.in_blocks import InBlocks, Refined
from gpuanon.masking.groups.mdav import split_large
from gpuanon.masking.groups.whole_numbers import grid_of
from gpuanon.numerics.metric import EUCLIDEAN, Metric

_MOST_ROWS = 1 << 16
"""Most rows of one tree: the time is quadratic in them."""
_DISTANCE_BITS = 53
"""Rows are rounded to whole numbers whose distances are below 2^53: they are exact, and so are ties."""


def spanning_tree(
    X: Array, within: Partition, k: int, metric: Metric = EUCLIDEAN, *, batch_elements: int = BATCH_ELEMENTS
) -> Partition:
    """Refine `within` by cutting the minimum spanning tree of each part [1]_.

    Edges are visited by decreasing length (of equal ones, the one that joined the tree first) and removed if both sides
    keep at least k rows.  Groups of 2k rows or more are split by MDAV.

    Parameters
    ----------
    X : (n, d) array
    within : the parts to refine
    k : least rows in a group
    metric : distance between rows
    batch_elements : padded elements (parts × length) of a batch; changes the speed, not the result

    Notes
    -----
    Guarantee : every group holds k to 2k − 1 rows (a part with fewer than k rows is an error).
    Cost      : O(n · S · d) for parts of S rows, at most 65 536; memory O(n + batch_elements · d).

    References
    ----------
    .. [1] M. Laszlo, S. Mukherjee (2005), Minimum spanning tree partitioning algorithm for microaggregation, IEEE
       Trans. Knowl. Data Eng. 17(7).
    """
    require_k_rows(within, k)
    if int(within.sizes.max()) > _MOST_ROWS:
        raise ParameterError(
            f"block: a spanning tree of at most {_MOST_ROWS} rows is allowed, got {int(within.sizes.max())}",
            hint="block = 1024",
        )
    grid = grid_of(X, metric, _DISTANCE_BITS)
    rows, mismatch = grid.rows(X), grid.mismatch()

    def group(batch: Batch) -> Host:
        return _cut(*_prim(rows[batch.rows], batch.valid, mismatch), batch.valid.sum(axis=1), k)

    most = within.sizes // k
    return split_large(X, group_batches(within, group, most, batch_elements), k, metric)


def _prim(Z: Host, valid: Host, mismatch: Host | None) -> tuple[Host, Host, Host]:
    """Minimum spanning trees of the padded parts `Z` by Prim's algorithm, from each part's lowest row.

    Returns, (b, length) each: the row that joins the tree at every step, the step at which its parent joined, and the
    length of the edge between them.
    """
    free = free_rows(Z, valid, mismatch)
    b, length = valid.shape
    order = np.zeros((b, length), dtype=np.int64)
    parent = np.zeros((b, length), dtype=np.int64)
    edge = np.zeros((b, length))
    nearest = np.zeros((b, length), dtype=np.int64)
    distance = np.full((b, length), np.inf)
    new = np.zeros(b, dtype=np.int64)
    for step in range(length):
        if step:
            new = distance.argmin(axis=1)
        order[:, step] = new
        parent[:, step] = nearest[free.batch, new]
        edge[:, step] = distance[free.batch, new]
        point = free.at(new)
        free.take(new)
        reach = free.distances(point)
        if mismatch is None:
            reach += np.einsum("bd,bd->b", point, point)[:, None]
        distance[free.batch, new] = np.inf
        closer = reach < distance
        np.copyto(distance, reach, where=closer)
        nearest[closer] = step
    return order, parent, edge


def _cut(order: Host, parent: Host, edge: Host, sizes: Host, k: int) -> Host:
    """(b, length) number of each row's group after the long edges are removed, from the steps of `_prim`."""
    b, length = order.shape
    batch = np.arange(b)
    inside = np.arange(length) < sizes[:, None]
    below, enter = _depth_first(parent, inside)
    # In depth-first order the rows below an edge are an interval of places.
    place, group = np.arange(length), np.zeros((b, length), dtype=np.int64)
    count = np.zeros((b, length), dtype=np.int64)
    count[:, 0] = sizes
    groups = np.ones(b, dtype=np.int64)
    edge = np.where(inside, edge, -1)
    edge[:, 0] = -1
    for step in np.argsort(-edge, axis=1, kind="stable").T[: int(sizes.max()) - 1]:
        first = enter[batch, step][:, None]
        own = group[batch, first[:, 0]]
        side = (place >= first) & (place < first + below[batch, step][:, None]) & (group == own[:, None])
        rows = side.sum(axis=1)
        here = np.flatnonzero((rows >= k) & (count[batch, own] - rows >= k) & (step > 0) & inside[batch, step])
        group[here] = np.where(side[here], groups[here, None], group[here])
        count[here, groups[here]] = rows[here]
        count[here, own[here]] -= rows[here]
        groups[here] += 1
    labels = np.empty((b, length), dtype=np.int64)
    order = np.where(inside, order, place)  # padding joins at no step
    np.put_along_axis(labels, order, np.take_along_axis(group, enter, axis=1), axis=1)
    return labels


def _depth_first(parent: Host, inside: Host) -> tuple[Host, Host]:
    """(b, length) rows in the subtree of each step, and the step's place in depth-first order."""
    b, length = parent.shape
    batch = np.arange(b)
    below = inside.astype(np.int64)
    for step in range(length - 1, 0, -1):
        below[batch, parent[:, step]] += below[:, step]
    enter = np.zeros((b, length), dtype=np.int64)
    next_place = np.ones((b, length), dtype=np.int64)
    for step in range(1, length):
        above = parent[:, step]
        enter[:, step] = next_place[batch, above]
        next_place[batch, above] += below[:, step]
        next_place[:, step] = enter[:, step] + 1
    enter[~inside] = length - 1
    return below, enter


class SpanningTree(InBlocks, Refined):
    """Minimum spanning trees whose long edges are removed (Laszlo, Mukherjee 2005).

    On the CPU only: whether an edge is removed depends on the sizes that the removals before it left, so that each part
    is one chain of as many dependent steps as it has rows, in which the threads of a GPU would wait for each other.
    """

    host_only: ClassVar[bool] = True

    use: Literal["spanning-tree"] = "spanning-tree"

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        return self._refined(X, metric, self._form(X, metric, spanning_tree))
