"""Groupings written from their definitions, row by row, in exact arithmetic for whole numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from gpuanon.arrays.partition import Partition
from gpuanon.numerics.distance import Metric

Rows = np.ndarray[Any, Any]


def members(p: Partition) -> list[list[int]]:
    """The rows of each part."""
    return [p.order[a:b].tolist() for a, b in zip(p.starts[:-1], p.starts[1:], strict=True)]


def as_set(groups: list[list[int]]) -> set[tuple[int, ...]]:
    """The groups as a set, independent of their order and that of their rows."""
    return {tuple(sorted(group)) for group in groups}


def square(x: Rows, y: Rows) -> Any:
    """Squared Euclidean distance; of whole numbers, exact."""
    return sum((a - b) ** 2 for a, b in zip(x.tolist(), y.tolist(), strict=True))


def gower(x: Rows, y: Rows, metric: Metric) -> float:
    """Gower's distance."""
    weights = metric.weights or (1.0,) * len(x)
    kinds = metric.categorical or (False,) * len(x)
    terms = [w * (float(a != b) if c else abs(a - b)) for a, b, w, c in zip(x, y, weights, kinds, strict=True)]
    return float(sum(terms) / sum(weights))


def furthest(rows: list[int], distance: Any) -> int:
    """The row with the largest distance; ties: the lowest row."""
    return max(rows, key=lambda row: (distance(row), -row))


def nearest(rows: list[int], distance: Any) -> int:
    """The row with the least distance; ties: the lowest row."""
    return min(rows, key=lambda row: (distance(row), row))


def kmember(D: Any, rows: list[int], k: int) -> list[list[int]]:
    """Greedy k-member clusters of `rows`; `D(i, j)` is the distance."""
    free = sorted(rows)
    seed = free[0]
    clusters = []
    for _ in range(len(rows) // k):
        last = seed
        seed = furthest(free, lambda row, last=last: D(row, last))
        free.remove(seed)
        cluster = [seed]
        while len(cluster) < k:
            best = nearest(free, lambda row, cluster=cluster: sum(D(row, other) for other in cluster))
            free.remove(best)
            cluster.append(best)
        clusters.append(cluster)
    for row in free:
        raises = [distortion(D, [*cluster, row]) - distortion(D, cluster) for cluster in clusters]
        clusters[raises.index(min(raises))].append(row)
    return clusters


def distortion(D: Any, cluster: list[int]) -> Any:
    """Σ_{i<j} D(i, j) / |C|, exact if D is a whole number."""
    total = sum(D(a, b) for at, a in enumerate(cluster) for b in cluster[at + 1 :])
    return Fraction(total, len(cluster)) if isinstance(total, int) else total / len(cluster)


def mdav(X: Rows, rows: list[int], k: int) -> list[list[int]]:
    """MDAV groups of `rows` under the squared Euclidean distance."""

    def from_mean(row: int) -> Any:
        total = [sum(column) for column in zip(*(X[other].tolist() for other in free), strict=True)]
        return sum((len(free) * x - t) ** 2 for x, t in zip(X[row].tolist(), total, strict=True))

    def take(centre: int) -> list[int]:
        group = [centre]
        free.remove(centre)
        while len(group) < k:
            group.append(nearest(free, lambda row: square(X[row], X[centre])))
            free.remove(group[-1])
        return group

    free = sorted(rows)
    groups = []
    while len(free) >= 2 * k:
        enough_for_two = len(free) >= 3 * k
        r = furthest(free, from_mean)
        groups.append(take(r))
        if enough_for_two:
            groups.append(take(furthest(free, lambda row, r=r: square(X[row], X[r]))))
    return [*groups, free]
