"""Refinement: simulated annealing that exchanges rows between near groups, across block borders too.

The greedy order and the block borders cost quality.  So at every turn the groups are cut into cells of some hundred
near groups, each time along other axes.  Inside a cell pairs of near groups are visited in random order.  The best
exchange of rows between two groups is carried out if it lowers their distortion, and at a positive temperature also if
it raises it a little (Metropolis' rule; the unit of temperature is the pair's distortion per row).  The temperature of
the last turn is zero.

The random numbers are a fixed hash of the group numbers, not secret.  Rows are first rounded to whole numbers, about
2^20 of them along the widest column, so that every sum is exact: equal tables get equal groups, whatever the device,
the number of threads and the batch size, and ties are the same on every device.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.refine.annealing import Schedule, anneal
from gpuanon.masking.groups.refine.effort import Effort, refinement_of
from gpuanon.masking.groups.refine.overlapping_cells import Neighbourhood
from gpuanon.masking.groups.split import split_large
from gpuanon.masking.groups.whole_numbers import places_of, whole_numbers
from gpuanon.numerics.metric import EUCLIDEAN, Metric, weighted

_HEAT = 0.5
_BATCH = 1 << 14  # rows of a batch on the host


def refine(
    X: Array,
    groups: Partition,
    k: int,
    metric: Metric = EUCLIDEAN,
    *,
    effort: Effort = "normal",
    turns: int | None = None,
) -> Partition:
    """Exchange rows between neighbouring groups so that the distortion falls.

    The distortion of a group C is ``Σ_{i<j} D(i, j) / |C|``, the sum of squared errors when D is the squared Euclidean
    distance.  Groups of 2k rows or more are split first (MDAV).  Two groups swap rows, or a row moves from a group of
    more than k rows to one of fewer than 2k − 1.

    Parameters
    ----------
    X : (n, d) array
    groups : groups of at least k rows
    k : least rows in a group
    metric : distance between rows
    effort : how long, see `effort`
    turns : how often new cells are cut; more turns cool more slowly and end at a lower distortion.  With normal effort
        10 for large tables, up to 50 for small ones

    Notes
    -----
    Guarantee : every group has k to 2k − 1 rows, and the distortion is not higher than before.
    Cost      : O(n · turns · (d + k)), memory O(n · d); it always ends after the given turns.

    References
    ----------
    .. [1] N. Metropolis, A. W. Rosenbluth, M. N. Rosenbluth, A. H. Teller, E. Teller (1953), Equation of state
       calculations by fast computing machines, J. Chem. Phys. 21(6).
    .. [2] S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi (1983), Optimization by simulated annealing, Science 220.
    """
    groups = split_large(X, groups, k, metric)
    if groups.parts < 2:
        return groups
    members, sizes = _table(groups, k)
    rows, mismatch, bits = whole_numbers(X, groups.order, metric, members.shape[1])
    places = places_of(rows, mismatch, metric)
    usual, steps, count = refinement_of(effort, groups.parts, k, X.shape[1])
    turns = turns or usual
    neighbourhood = Neighbourhood(places, bits, min(count, groups.parts - 1))
    changed = 0.0
    with one_blas_thread():
        for turn in range(turns):
            with progress.stage(""):  # progress is reported per turn, not per batch
                cells, near = neighbourhood.at(turn, members, sizes)
                schedule = Schedule(turn, steps, turn * steps, max(1, (turns - 1) * steps), _HEAT)
                changed = changed + anneal(rows, mismatch, members, sizes, near, cells, k, schedule)
            progress.report(0.99 * (turn + 1) / turns)
    refined = _partition(groups, members, sizes)
    return refined if _lower(X, groups, refined, metric, float(changed), bits) else groups


def _table(groups: Partition, k: int) -> tuple[Array, Array]:
    """(g, w) places of each group's rows in the groups' order, and (g,) sizes.

    If all groups have k rows, rows are only swapped; else a group may grow to at most 2k − 1 rows.
    """
    xp = namespace(groups.order)
    largest = int(groups.sizes.max())
    width = largest if largest == k else min(2 * k - 1, largest + 1)
    place = xp.arange(groups.n, dtype=np.int64)
    line = groups.part_of_sorted()
    members = xp.zeros((groups.parts, width), dtype=np.int64)
    members[line, place - groups.starts[line]] = place
    return members, groups.sizes.copy()


def _partition(groups: Partition, members: Array, sizes: Array) -> Partition:
    """The groups of the table, whose members are places in the order of `groups`."""
    xp = namespace(members)
    filled = xp.arange(members.shape[1])[None, :] < sizes[:, None]
    line = xp.broadcast_to(xp.arange(groups.parts, dtype=np.int64)[:, None], members.shape)
    labels = xp.empty(groups.n, dtype=np.int64)
    labels[groups.order[members[filled]]] = line[filled]
    return Partition.from_labels(labels)


def _lower(X: Array, before: Partition, after: Partition, metric: Metric, changed: float, bits: int) -> bool:
    """Whether the distortion of the unrounded rows fell, if that of the rounded ones `changed` so much.

    Rounding changes Gower's distance by at most 1 per column, and the distortion by half as much per row.  A squared
    Euclidean distortion F is the square of a length, which rounding changes by at most ``√(n d) / 2``.  As
    ``√F ≤ √(n d) 2^(bits − 1)``, F fell if that of the rounded rows did by more than ``n d 2^bits``: nearly always.
    """
    gower = metric.kind == "gower"
    certain = X.size * (1.0 if gower else 2.0**bits)
    if gower or changed >= 0 or changed < -certain:
        return bool(changed < -certain)
    X = weighted(X, metric).astype(np.float64, copy=False)
    return _squares(X, after) < (1 - 1e-9) * _squares(X, before)


def _squares(X: Array, groups: Partition) -> float:
    """Sum of the squared distances of the rows from their groups' means."""
    means, labels = segment_means(X, groups), groups.labels()

    def work(rows: slice) -> float:
        apart = X[rows] - means[labels[rows]]
        return float(namespace(X).vdot(apart, apart))

    return sum(each(work, row_ranges(X, _BATCH)))
