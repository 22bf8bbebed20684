"""What gpuanon computes, written from the definition in NumPy: the slowest way of the benchmarks.

`tests/test_benchmarks.py` holds each to the function that it is compared with.
"""

from __future__ import annotations

import numpy as np
from frame import Host

from gpuanon.arrays.partition import Partition


def naive_mdav(X: Host, k: int) -> Host:
    """(n,) labels by MDAV from its definition: all distances at every step."""
    labels, free, label = np.zeros(len(X), dtype=np.int64), np.arange(len(X)), 0

    def take(seed: Host) -> None:
        nonlocal free, label
        near = np.argsort(np.square(X[free] - seed).sum(axis=1), kind="stable")[:k]
        labels[free[near]] = label
        free, label = np.delete(free, near), label + 1

    while len(free) >= 3 * k:
        r = X[free[np.square(X[free] - X[free].mean(axis=0)).sum(axis=1).argmax()]]
        s = X[free[np.square(X[free] - r).sum(axis=1).argmax()]]
        take(r)
        take(s)
    if len(free) >= 2 * k:
        take(X[free[np.square(X[free] - X[free].mean(axis=0)).sum(axis=1).argmax()]])
    labels[free] = label
    return labels


def naive_kmember(X: Host, k: int) -> Host:
    """(n,) labels by k-member clustering from its definition: all distances at every step, leftover rows at the end."""
    labels, free, groups = np.full(len(X), -1), np.arange(len(X)), len(X) // k
    seed = X[0]
    for label in range(groups):
        first = free[np.square(X[free] - seed).sum(axis=1).argmax()]
        seed, members, free = X[first], [first], free[free != first]
        for _ in range(k - 1):
            near = free[np.square(X[free] - X[members].mean(axis=0)).sum(axis=1).argmin()]
            members, free = [*members, near], free[free != near]
        labels[members] = label
    for row in free:
        sizes = np.bincount(labels[labels >= 0])
        means = np.stack([np.bincount(labels[labels >= 0], x) / sizes for x in X[labels >= 0].T], axis=1)
        labels[row] = (sizes / (sizes + 1) * np.square(means - X[row]).sum(axis=1)).argmin()
    return labels


def naive_cdfs(
    x: Host, sample_starts: Host, means: Host, whitening: Host, log_weights: Host, component_starts: Host
) -> Host:
    """Conditional distribution functions of mixtures, block after block, from their formula."""
    from scipy.special import ndtr

    u = np.empty_like(x)
    for block in range(len(sample_starts) - 1):
        some = slice(sample_starts[block], sample_starts[block + 1])
        c = slice(component_starts[block], component_starts[block + 1])
        z = np.einsum("cji,mci->mcj", whitening[c], x[some][:, None] - means[c])
        scale = np.diagonal(whitening[c], axis1=1, axis2=2)
        posterior = np.exp(log_weights[c]) * np.ones((len(z), 1))
        for j in range(x.shape[1]):
            u[some, j] = (posterior * ndtr(z[:, :, j])).sum(axis=1) / posterior.sum(axis=1)
            posterior = posterior * scale[:, j] * np.exp(-0.5 * z[:, :, j] ** 2)
    return u


def naive_inverse(u: Host, X: Host, parts: Partition) -> Host:
    """Inverse conditional distributions from their definition, row by row; column j given the columns before it."""
    out = np.empty_like(u)
    for rows in np.split(parts.order, parts.starts[1:-1]):
        for row in rows:
            left = X[rows]
            for j in range(X.shape[1]):
                values = np.sort(left[:, j])
                out[row, j] = values[min(int(u[row, j] * len(values)), len(values) - 1)]
                left = left[left[:, j] == out[row, j]]
    return out


def naive_neighbours(places: Host, cells: Partition, count: int) -> Host:
    """The nearest groups inside each cell: all distances, sorted."""
    near = np.empty((count, cells.n), dtype=np.int64)
    for first, last in zip(cells.starts[:-1], cells.starts[1:], strict=True):
        here = places[cells.order[first:last]].astype(np.float64)
        D = np.square(here[:, None] - here).sum(axis=2)
        np.fill_diagonal(D, np.inf)
        near[:, first:last] = first + np.argsort(D, axis=1, kind="stable")[:, :count].T
    return near


def naive_optimal(values: Host, k: int) -> Host:
    """(n,) labels of the optimal groups of a column: the shortest path, place by place."""
    x = np.sort(values)
    n, one, two = len(x), np.concatenate([[0], np.cumsum(x)]), np.concatenate([[0], np.cumsum(x * x)])
    cost, came = np.full(n + 1, np.inf), np.zeros(n + 1, dtype=np.int64)
    cost[0] = 0
    for end in range(k, n + 1):
        begin = np.arange(max(0, end - 2 * k + 1), end - k + 1)
        total = cost[begin] + two[end] - two[begin] - (one[end] - one[begin]) ** 2 / (end - begin)
        came[end] = begin[total.argmin()]
        cost[end] = total.min()
    labels, end, label = np.empty(n, dtype=np.int64), n, 0
    while end:
        labels[came[end] : end], end, label = label, came[end], label + 1
    return labels[np.argsort(np.argsort(values, kind="stable"), kind="stable")]
