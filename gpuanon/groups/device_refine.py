"""Refinement on a GPU: cells of near groups, one a thread block, exchange rows; then other cells, and so on.

The twin of `refine`: the same exchanges, matched and accepted by the same rules.  Cells are turned otherwise, and
neighbours and changes are exact here and rounded there: the groups are as good, and not the same.  What the kernels do
is held to NumPy's own version of them, in `annealing`, with which this file runs on either device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays import progress
from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Partition
from gpuanon.groups.annealing import Schedule, anneal, neighbours, random_words
from gpuanon.groups.blocks import blocks
from gpuanon.groups.mdav import mdav
from gpuanon.numerics.distance import Metric

_CELL = 256
"""Groups in a cell, at most."""
_REFLECTIONS = 3
_AXES = 4  # of the space in which the categories of a column lie


@dataclass(frozen=True)
class Rules:
    """How the refinement anneals.

    turns : for a number of groups, how often the cells are laid out anew
    steps : how often a group meets a neighbour in each turn
    near  : neighbours that a group has
    heat  : of the first step, in units of the distortion of a row; that of the last turn is 0
    """

    turns: Callable[[int], int]
    steps: int
    near: int
    heat: float


def refine_cuda(X: Array, groups: Partition, k: int, metric: Metric, rules: Rules, *, cell: int = _CELL) -> Partition:
    """Exchange rows between near groups so that the distortion falls; see `gpuanon.groups.refine`."""
    xp = namespace(X)
    groups = _split_large(X, groups, k, metric)
    if groups.parts < 2:
        return groups
    rows = _weighted_rows(X, groups.order, metric)
    places = _places(rows, metric)
    members, sizes = _table(groups, k)
    margin = 1e-5 if rows.dtype == np.float32 else 1e-9
    changed = xp.zeros((), dtype=np.float64)
    turns, steps = rules.turns(groups.parts), rules.steps
    for turn in range(turns):
        centres = _centres(places, members, sizes)
        cells = _cells(centres, turn, cell)
        close = neighbours(centres, cells, min(rules.near, groups.parts - 1))
        schedule = Schedule(turn, steps, turn * steps, max(1, (turns - 1) * steps), rules.heat, margin)
        changed = changed + anneal(rows, members, sizes, close, cells, k, metric, schedule)
        progress.report(0.99 * (turn + 1) / turns)
    if not float(changed) < 0:
        return groups
    filled = xp.arange(members.shape[1])[None, :] < sizes[:, None]
    labels = xp.empty(groups.n, dtype=np.int64)
    line = xp.broadcast_to(xp.arange(groups.parts, dtype=np.int64)[:, None], members.shape)
    labels[groups.order[members[filled]]] = line[filled]
    return Partition.from_labels(labels)


def _weighted_rows(X: Array, order: Array, metric: Metric) -> Array:
    """(n, d) the rows, group after group, as floats; the roots of Euclidean weights are in the columns."""
    real = X.dtype if X.dtype in (np.float32, np.float64) else np.dtype(np.float64)
    rows = X[order].astype(real)
    if metric.kind == "euclidean" and metric.weights is not None:
        for j, weight in enumerate(metric.weights):
            rows[:, j] *= real.type(np.sqrt(weight))
    return rows


def _table(groups: Partition, k: int) -> tuple[Array, Array]:
    """(g, w) places of each group's rows in the groups' order, and (g,) sizes.

    Where all groups have k rows none can give one away; else one may grow, but not to 2k.
    """
    xp = namespace(groups.order)
    largest = int(groups.sizes.max())
    width = largest if largest == k else max(largest, min(2 * k - 1, largest + 1))
    place = xp.arange(groups.n, dtype=np.int64)
    line = groups.part_of_sorted()
    members = xp.zeros((groups.parts, width), dtype=np.int64)
    members[line, place - groups.starts[line]] = place
    return members, groups.sizes.copy()


def _places(rows: Array, metric: Metric) -> Array:
    """(n, e) rows as places whose Euclidean distances go with the metric's: categories become random directions."""
    if metric.kind == "euclidean":
        return rows
    xp = namespace(rows)
    weights = metric.weights or (1.0,) * rows.shape[1]
    places = []
    for j, weight in enumerate(weights):
        if metric.categorical is not None and metric.categorical[j]:
            codes = rows[:, j].astype(np.int64)
            words = (random_words(codes, j * _AXES + axis) for axis in range(_AXES))
            # Uniform numbers, spread so that two categories are about 1 apart.
            spread = weight * np.sqrt(6 / _AXES)
            places += [(((word >> np.uint64(11)) * 2.0**-53 - 0.5) * spread).astype(rows.dtype) for word in words]
        else:
            places.append(rows[:, j] * rows.dtype.type(weight))
    return xp.stack(places, axis=1)


def _centres(places: Array, members: Array, sizes: Array) -> Array:
    """(g, e) mean places of the groups."""
    xp = namespace(places)
    filled = xp.arange(members.shape[1])[None, :] < sizes[:, None]
    centres = xp.empty((len(members), places.shape[1]), dtype=places.dtype)
    for j in range(places.shape[1]):
        centres[:, j] = xp.where(filled, places[:, j][members], 0).sum(axis=1) / sizes
    return centres


def _cells(centres: Array, turn: int, size: int) -> Partition:
    """Cells of near groups that lie differently at every turn: its number decides the axes of the cuts."""
    turned = centres.copy()
    rng = np.random.default_rng(turn)
    for _ in range(_REFLECTIONS):
        mirror = rng.standard_normal(centres.shape[1])
        mirror /= np.linalg.norm(mirror)
        # Column by column with plain numbers: nothing is copied to the device, and every device rounds alike.
        along = sum(turned[:, j] * centres.dtype.type(share) for j, share in enumerate(mirror))
        for j, share in enumerate(mirror):
            turned[:, j] -= along * centres.dtype.type(2 * share)
    return blocks(turned, Partition.whole(len(centres), like=centres), size)


def _split_large(X: Array, groups: Partition, k: int, metric: Metric) -> Partition:
    """Split the groups of 2k rows and more, which never raises the distortion."""
    xp = namespace(X)
    large = groups.sizes >= 2 * k
    if not bool(large.any()):
        return groups
    rows = groups.order[large[groups.part_of_sorted()]]
    ends = xp.cumsum(groups.sizes[large])
    parts = Partition(xp.arange(len(rows), dtype=np.int64), xp.concatenate([xp.zeros(1, dtype=np.int64), ends]))
    labels = groups.labels()
    labels[rows] = groups.parts + mdav(X[rows], parts, k, metric).labels()
    return Partition.from_labels(labels)
