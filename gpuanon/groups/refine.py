"""Refinement: rows change places between neighbouring groups, annealed, across the borders of blocks too.

Groups that were formed greedily, and inside blocks, lose much to the order of the greed and to the borders.  Here
cells of some hundred near groups are cut anew at every turn, each time along other axes.  Inside a cell pairs of near
groups meet in random order; the best exchange of rows between the two is carried out when it lowers their distortion,
and while the table is warm also when it raises it by little (Metropolis' rule, the temperature in units of the pair's
own distortion a row).  The last turn is cold.

The random numbers are a fixed hash of the groups' numbers, no secret: equal tables get equal groups, whatever the
number of threads and the size of the batches.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Array, on_device
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.threads import each
from gpuanon.groups.device_refine import Rules, refine_cuda
from gpuanon.groups.exchange import EuclideanTable, GowerTable, Table
from gpuanon.groups.lockstep import Host, equal_batches, weighted
from gpuanon.groups.neighbours import Cells, disjoint_pairs, nearest_inside, place_codes
from gpuanon.groups.split import split_large
from gpuanon.numerics.distance import EUCLIDEAN, Metric

_HEAT = 0.5
_NEIGHBOURS = 4
_STEPS = 30
_FEWEST_TURNS, _MOST_TURNS = 10, 30
_BATCH_ROWS = 1 << 14
_NOISE = -np.log((np.arange(1 << 16) + 0.5) / (1 << 16))
"""Quantiles of the exponential distribution: what Metropolis' rule allows, in units of the temperature."""


def refine(
    X: Array,
    groups: Partition,
    k: int,
    metric: Metric = EUCLIDEAN,
    *,
    turns: int | None = None,
    batch_rows: int = _BATCH_ROWS,
) -> Partition:
    """Exchange rows between neighbouring groups so that the distortion falls.

    The distortion of a group C is ``Σ_{i<j} D(i, j) / |C|``, the sum of squared errors when D is the squared Euclidean
    distance.  Groups of 2k rows and more are split first (MDAV).  Rows change places, or go over from a group of more
    than k rows to one of fewer than 2k − 1.

    Parameters
    ----------
    X : (n, d) array
    groups : groups of at least k rows
    k : least rows in a group
    metric : how far rows are apart
    turns : how often cells are cut anew; more turns cool more slowly and end lower.  By default 10 for large tables,
        up to 30 for small ones
    batch_rows : rows worked on at once; changes the speed, not the result

    Notes
    -----
    Guarantee : every group has k to 2k − 1 rows, and the distortion is not higher than before.
    Cost      : O(n · turns · (d + k)), memory O(n · d); it ends after the given turns.

    References
    ----------
    .. [1] N. Metropolis, A. W. Rosenbluth, M. N. Rosenbluth, A. H. Teller, E. Teller (1953), Equation of state
       calculations by fast computing machines, J. Chem. Phys. 21(6).
    .. [2] S. Kirkpatrick, C. D. Gelatt, M. P. Vecchi (1983), Optimization by simulated annealing, Science 220.
    """
    if on_device(X):
        rules = Rules(lambda parts: turns or _usual_turns(parts), _STEPS, _NEIGHBOURS, _HEAT)
        return refine_cuda(X, groups, k, metric, rules)
    X = weighted(X, metric)
    groups = split_large(X, groups, k, EUCLIDEAN if metric.kind == "euclidean" else metric)
    if groups.parts < 2:
        return groups
    turns = turns or _usual_turns(groups.parts)
    state = _State.of(X, groups, k, metric)
    cells = Cells()
    distortion = 0.0
    with one_blas_thread():
        for turn in range(turns):
            cooled = (turn * _STEPS + np.arange(_STEPS)) / max(1, (turns - 1) * _STEPS)
            heats = _HEAT * np.maximum(0.0, 1 - cooled)
            with progress.stage(""):  # the turns are what is reported, not the batches of each
                batches = equal_batches(cells.at(turn, state.centres), max(1, batch_rows // k))
                changes = each(lambda batch: state.anneal(batch, turn, heats), batches)  # noqa: B023
            before, after = np.sum(changes, axis=0)
            distortion = distortion or before
            progress.report(0.99 * (turn + 1) / turns)
    return state.partition(groups.order) if after < distortion else groups


def _usual_turns(groups: int) -> int:
    """Turns for so many groups: a small table can afford more of them, a tiny one has no use for them."""
    return min(int(np.clip(12 * np.sqrt(20_000 / groups), _FEWEST_TURNS, _MOST_TURNS)), 4 + groups // 4)


@dataclass
class _State:
    """The groups between two turns.

    X       : (n, d) rows, sorted by their group at the start: what is exchanged lies close together
    P       : (n, e) the same rows as places, by which near groups are found
    members : (g, w) rows of each group, by their number in X
    sizes   : (g,) slots of `members` that are used
    centres : (g, e) mean place of each group
    """

    X: Host
    P: Host
    members: Host
    sizes: Host
    centres: Host
    k: int
    metric: Metric

    @classmethod
    def of(cls, X: Host, groups: Partition, k: int, metric: Metric) -> _State:
        X = X[groups.order]
        P = X if metric.kind == "euclidean" else place_codes(X, metric)
        sizes = groups.sizes.copy()
        largest = int(sizes.max())
        # Where all groups have k rows none can give one away; else one may grow, but not to 2k.
        width = largest if largest == k else min(2 * k - 1, largest + 1)
        line, row = groups.part_of_sorted(), np.arange(groups.n)
        members = np.zeros((groups.parts, width), dtype=np.int64)
        members[line, row - groups.starts[line]] = row
        centres = np.add.reduceat(P, groups.starts[:-1], axis=0) / sizes[:, None].astype(P.dtype)
        return cls(X, P, members, sizes, centres, k, metric)

    def anneal(self, batch: Batch, turn: int, heats: Host) -> tuple[float, float]:
        """Let the groups of some cells exchange rows; return their distortion before and after."""
        lines = batch.rows[batch.valid]
        origin = self.centres[batch.rows[:, 0]][np.nonzero(batch.valid)[0]]
        members, x = self.members[lines], self.X.take(self.members[lines], axis=0)
        table: Table
        if self.metric.kind == "euclidean":
            table = EuclideanTable(x - origin[:, None, :], self.sizes[lines], self.k)
        else:
            table = GowerTable(x, self.sizes[lines], self.k, self.metric)
        before = float(table.distortion.sum(dtype=np.float64))
        _meet(table, _lists(self.centres[lines] - origin, batch.valid), _bits(lines, turn), heats)
        self.sizes[lines] = table.sizes
        self.members[lines] = members = members.reshape(-1)[table.members]
        filled = np.arange(members.shape[1]) < table.sizes[:, None]
        places = np.where(filled[:, :, None], self.P.take(members, axis=0), 0)
        self.centres[lines] = places.sum(axis=1) / table.sizes[:, None].astype(places.dtype)
        return before, float(table.distortion.sum(dtype=np.float64))

    def partition(self, order: Host) -> Partition:
        """The groups as they are now."""
        line, slot = np.nonzero(np.arange(self.members.shape[1]) < self.sizes[:, None])
        labels = np.empty(len(order), dtype=np.int64)
        labels[order[self.members[line, slot]]] = line
        return Partition.from_labels(labels)


def _lists(places: Host, valid: Host) -> Host:
    """(count, g) the groups nearest to each group of a batch of cells, by their line in the batch."""
    padded = np.zeros((*valid.shape, places.shape[1]), dtype=np.float32)
    padded[valid] = places
    near = nearest_inside(padded, valid, _NEIGHBOURS)
    number = np.cumsum(valid).reshape(valid.shape) - 1
    return np.ascontiguousarray(number[np.arange(len(valid))[:, None, None], near][valid].T)


def _meet(table: Table, near: Host, bits: Host, heats: Host) -> None:
    """Let each group meet its neighbours again and again, in disjoint pairs, while the table cools."""
    holder = np.empty(len(bits), dtype=np.int64)
    for step, heat in enumerate(heats):
        coin = (bits >> np.uint64(step)) & np.uint64(1) == 1
        a, b = disjoint_pairs(near[step % len(near)], coin, holder)
        noise = _NOISE[(bits[a] * np.uint64(2 * step + 1)) >> np.uint64(48)]
        table.visit(a, b, heat * noise)


def _bits(lines: Host, turn: int) -> Host:
    """(g,) 64 random bits for each group and turn: the finaliser of SplitMix64."""
    x = (lines.astype(np.uint64) << np.uint64(16)) + np.uint64(turn + 1)
    x *= np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
