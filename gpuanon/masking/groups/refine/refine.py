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

from typing import Annotated, Literal, NamedTuple, TypeAlias

import numpy as np
from pydantic import Field

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Partition, segment_means
from gpuanon.arrays.ranges import row_ranges
from gpuanon.arrays.threads import each
from gpuanon.masking.groups.mdav import split_large
from gpuanon.masking.groups.refine.annealing import Schedule, anneal, noise_on
from gpuanon.masking.groups.refine.overlapping_cells import Neighbourhood
from gpuanon.masking.groups.whole_numbers import places_of, whole_numbers
from gpuanon.numerics.metric import EUCLIDEAN, Metric, weighted

Seconds: TypeAlias = Annotated[float, Field(strict=True, gt=0, le=86_400, allow_inf_nan=False)]
Effort: TypeAlias = Literal["fast", "normal", "best"] | Seconds
"""Two thirds to four fifths of the usual time; as usual; about a minute, or twenty times the usual; or about so many
seconds on two cores with compiled functions.

Seconds become a number of turns by a fixed cost of a turn, not by a clock: a release depends on the recipe and the key,
never on the speed of a machine.  A small table has at most 50 000 turns, and 250 for each of its groups, beyond which
little was gained on census: it takes less than many seconds.
"""

EFFORT = (
    "how long groups are refined: fast (two thirds to four fifths of the usual time), normal, best (about a minute and"
    " more), or about so many seconds on two cores with compiled functions, fewer for a small table"
)
"""The description of a parameter."""

FAST_BLOCK = 2048
"""Rows of a block of the fast effort, unless others are asked for: half the borders cost less time than turns."""

_NEIGHBOURS, _BEST_NEIGHBOURS = 4, 8
_STEPS = 30
_FAST_STEPS = 40
"""Steps of a turn of the fast effort: it has half as many turns, whose cells and neighbours cost as much as steps."""
_FEWEST_TURNS, _MOST_TURNS = 10, 50
_BEST_WORK = 10_800_000
"""Groups times turns of the best effort: less than a minute, compiled."""
_GROUPS_OF_A_CORE = 1024  # a few cells, which one core exchanges at a time


class Refinement(NamedTuple):
    """What an effort amounts to for a table."""

    turns: int
    steps: int
    neighbours: int


def refinement_of(effort: Effort, groups: int, k: int, columns: int) -> Refinement:
    """Turns, steps of a turn and neighbours: usually more turns for small tables, few for tiny ones."""
    most = min(4 + 250 * groups, 1000 * _MOST_TURNS)  # small tables are refined to the end long before
    if effort == "best":
        turns = min(max(_BEST_WORK // groups, 20 * _FEWEST_TURNS), most)
        return Refinement(turns, _STEPS, _BEST_NEIGHBOURS)
    if not isinstance(effort, str):
        turns = int(np.clip(effort / _seconds_of_turn(groups, k, columns), 2, most))
        return Refinement(turns, _STEPS, _NEIGHBOURS)
    usual = min(int(np.clip(13 * np.sqrt(20_000 / groups), _FEWEST_TURNS, _MOST_TURNS)), 4 + groups // 3)
    if effort == "normal":
        return Refinement(usual, _STEPS, _NEIGHBOURS)
    return Refinement(max(2, usual // 2), _FAST_STEPS, _NEIGHBOURS)


def _seconds_of_turn(groups: int, k: int, columns: int) -> float:
    """Seconds of a turn on two cores, compiled, squared Euclidean distances; few groups keep one core busy.

    The processor time of a group was fitted to 25 cases of k = 2 to 25 and 2 to 32 columns, of which it states 0.8 to
    1.1 of the time; the fixed part is that of Python.
    """
    cores = 2 if groups > _GROUPS_OF_A_CORE else 1
    return 0.3e-3 + 1e-6 * (0.76 + 0.025 * k * columns + 0.007 * k * k) * groups / cores


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
    neighbourhood = Neighbourhood(places, bits, groups.parts, min(count, groups.parts - 1), turns)
    noise, changed = noise_on(rows), []
    with one_blas_thread():
        for turn in range(turns):
            with progress.stage(""):  # progress is reported per turn, not per batch
                cells, near, largest = neighbourhood.at(turn, members, sizes)
                schedule = Schedule(turn, steps, turn * steps, max(1, (turns - 1) * steps), _HEAT)
                change = anneal(rows, mismatch, members, sizes, near, cells, k, schedule, largest=largest, noise=noise)
                changed.append(change.reshape(-1))
            progress.report(0.99 * (turn + 1) / turns)
    refined = _partition(groups, members, sizes)
    fell = float(namespace(rows).concatenate(changed).sum()) if changed else 0.0
    return refined if _lower(X, groups, refined, metric, fell, bits) else groups


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
