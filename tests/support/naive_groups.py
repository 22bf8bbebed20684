"""Groupings written from their definitions, row by row, in exact arithmetic for whole numbers."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from gpuanon.arrays.partition import Partition
from gpuanon.numerics.metric import Metric

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


def whole_distance(x: list[int], y: list[Any], mismatch: list[int] | None) -> Any:
    """Squared Euclidean, or Gower's distance of whole numbers or fractions; −1 in `mismatch`: a numeric column."""
    if mismatch is None:
        return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))
    return sum(abs(a - b) if m < 0 else m * (a != b) for a, b, m in zip(x, y, mismatch, strict=True))


def centre(rows: list[list[int]], mismatch: list[int] | None) -> list[Any]:
    """Means as fractions, and modes of categorical columns; of equally frequent codes the lowest."""
    centres: list[Any] = []
    for column, apart in zip(zip(*rows, strict=True), mismatch or [-1] * len(rows[0]), strict=True):
        mode = max(sorted(set(column)), key=column.count)
        centres.append(Fraction(sum(column), len(column)) if apart < 0 else mode)
    return centres


def mdav(X: Rows, rows: list[int], k: int, mismatch: list[int] | None = None) -> list[list[int]]:
    """MDAV groups of `rows`, of whole numbers (or of binary fractions) without any rounding."""
    listed = {row: [Fraction(x) for x in X[row].tolist()] for row in rows}

    def take(first: int) -> list[int]:
        group = [first]
        free.remove(first)
        while len(group) < k:
            group.append(nearest(free, lambda row: whole_distance(listed[row], listed[first], mismatch)))
            free.remove(group[-1])
        return group

    free = sorted(rows)
    groups = []
    while len(free) >= 2 * k:
        enough_for_two = len(free) >= 3 * k
        mean = centre([listed[row] for row in free], mismatch)
        r = furthest(free, lambda row, mean=mean: whole_distance(listed[row], mean, mismatch))
        groups.append(take(r))
        if enough_for_two:
            groups.append(take(furthest(free, lambda row, r=r: whole_distance(listed[row], listed[r], mismatch))))
    return [*groups, free]
