"""Groupings that are not offered, as small prototypes, against those that are: loss and time.

    GPUANON_DATA=folder python bench/studies/grouping_references.py

matching      : recursive optimal matching (Lasko 2007, 2.3.4): pairs of least total distance among 23 nearest
                neighbours by an integer programme (SciPy's HiGHS), then pairs of pairs; groups of 4 and 8
penalised     : Lloyd's algorithm with a cost for each cluster that makes clusters equally large (Rebollo-Monedero et
                al. 2013), then an optimal assignment for the rest
mesh          : edges of the Delaunay mesh are removed from the longest on, unless that would leave a group below k
spanning tree : the same with the edges of the minimum spanning tree
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import LinearConstraint, milp
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial import Delaunay, cKDTree
from scipy.spatial.distance import pdist, squareform

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.groups.constrained_kmeans import ConstrainedKMeans, optimal_assignment
from gpuanon.masking.groups.kmember import KMember
from gpuanon.masking.groups.mdav.mdav_models import Mdav

Host = np.ndarray[Any, Any]
DRAWS = Key(b"the key of the study of groupings")
NEIGHBOURS = 23


def loss(X: Host, labels: Host) -> float:
    """100 · SSE / SST."""
    sizes = np.bincount(labels)
    means = np.stack([np.bincount(labels, column) for column in X.T], axis=1)[sizes > 0] / sizes[sizes > 0, None]
    rank = np.cumsum(sizes > 0) - 1
    return float(100 * ((X - means[rank[labels]]) ** 2).sum() / ((X - X.mean(axis=0)) ** 2).sum())


def best_pairs(X: Host, weights: Host) -> Host:
    """(n,) pair of each row, least total increase of the squared error; of an odd number of rows one joins a pair."""
    n = len(X)
    _, near = cKDTree(X).query(X, min(NEIGHBOURS + 1, n))
    edges = np.unique(np.sort(np.column_stack([np.repeat(np.arange(n), near.shape[1]), near.ravel()]), axis=1), axis=0)
    edges = edges[edges[:, 0] != edges[:, 1]]
    i, j = edges.T
    cost = ((X[i] - X[j]) ** 2).sum(axis=1) * weights[i] * weights[j] / (weights[i] + weights[j])
    incidence = csr_array(
        (np.ones(2 * len(edges)), (edges.ravel(), np.repeat(np.arange(len(edges)), 2))), (n, len(edges))
    )
    # Each row in one pair at most; a row without a pair costs more than any pair.
    alone = 10 * cost.max() + 1
    solved = milp(
        cost - 2 * alone, constraints=LinearConstraint(incidence, -np.inf, 1), integrality=1, bounds=(0, 1),
        options={"time_limit": 60, "mip_rel_gap": 1e-6},
    )  # fmt: skip
    pairs = edges[np.round(solved.x).astype(bool)]
    labels = np.full(n, -1)
    labels[pairs[:, 0]] = labels[pairs[:, 1]] = np.arange(len(pairs))
    for row in np.flatnonzero(labels < 0):
        others = np.flatnonzero(labels >= 0)
        labels[row] = labels[others[((X[others] - X[row]) ** 2).sum(axis=1).argmin()]]
    return labels


def matching(X: Host, k: int) -> Host:
    """Groups of k, a power of two, or a little more."""
    labels, points, weights = np.arange(len(X)), X, np.ones(len(X))
    for _ in range(int(np.log2(k))):
        labels = best_pairs(points, weights)[labels]
        weights = np.bincount(labels).astype(float)
        points = np.stack([np.bincount(labels, column) for column in X.T], axis=1) / weights[:, None]
    return labels


def penalised(X: Host, k: int, rounds: int = 20, turns: int = 100) -> Host:
    """Clusters of k rows or more by Lloyd's algorithm with a cost for each cluster."""
    rng = np.random.default_rng(0)
    count = len(X) // k
    centres, costs = X[rng.choice(len(X), count, replace=False)], np.zeros(count)
    for _ in range(rounds):
        D = ((X[:, None] - centres[None]) ** 2).sum(axis=2)
        step = D.min(axis=1).mean()
        for turn in range(turns):
            sizes = np.bincount((D + costs).argmin(axis=1), minlength=count)
            costs += step / (1 + turn) * (sizes - len(X) / count) / (len(X) / count)
        labels = (D + costs).argmin(axis=1)
        sizes = np.bincount(labels, minlength=count)
        sums = np.stack([np.bincount(labels, column, count) for column in X.T], axis=1)
        centres = np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1)[:, None], centres)
    return optimal_assignment(((X[:, None] - centres[None]) ** 2).sum(axis=2), k)


def cut(n: int, edges: Host, lengths: Host, k: int) -> Host:
    """Groups that are left when edges are removed from the longest on, unless a group below k would be left.

    Groups below 2 k are not divided further.  Naive: the connected components are found anew for every edge.
    """
    there = np.ones(len(edges), dtype=bool)
    for edge in np.argsort(-lengths, kind="stable"):
        there[edge] = False
        graph = csr_array((np.ones(there.sum()), edges[there].T), (n, n))
        labels = connected_components(graph, directed=False)[1]
        one, other = (labels == labels[end] for end in edges[edge])
        if labels[edges[edge][0]] != labels[edges[edge][1]] and (
            min(one.sum(), other.sum()) < k or one.sum() + other.sum() < 2 * k
        ):
            there[edge] = True
    return connected_components(csr_array((np.ones(there.sum()), edges[there].T), (n, n)), directed=False)[1]


def mesh(X: Host, k: int) -> Host:
    """By the Delaunay mesh."""
    simplices = Delaunay(X).simplices
    pairs = np.concatenate([simplices[:, pair] for pair in combinations(range(simplices.shape[1]), 2)])
    edges = np.unique(np.sort(pairs, axis=1), axis=0)
    return cut(len(X), edges, np.linalg.norm(X[edges[:, 0]] - X[edges[:, 1]], axis=1), k)


def tree(X: Host, k: int) -> Host:
    """By the minimum spanning tree."""
    found = minimum_spanning_tree(squareform(pdist(X))).tocoo()
    edges = np.column_stack([found.row, found.col])
    return cut(len(X), edges, found.data, k)


def ours(groups: Any) -> Callable[[Host, int], Host]:
    """One of the groupings that are offered, on the whole table."""

    def labels(X: Host, k: int) -> Host:
        found: Partition = groups(k).form(X, DRAWS.draws(np.arange(len(X))))
        return np.asarray(found.labels())

    return labels


GROUPINGS: dict[str, Callable[[Host, int], Host]] = {
    "mdav": ours(lambda k: Mdav(k=k, block=0, refine=False)),
    "k-member": ours(lambda k: KMember(k=k, block=0, refine=False)),
    "k-member, refined (default)": ours(lambda k: KMember(k=k, block=0)),
    "constrained-k-means (minimum-cost flow)": ours(lambda k: ConstrainedKMeans(k=k, block=0)),
    "penalised Lloyd": penalised,
    "recursive matching": matching,
    "spanning tree, cut": tree,
    "mesh, cut": mesh,
}


def same_partition(one: Host, other: Host) -> bool:
    """Whether two labellings divide the rows alike."""
    pairs = len(np.unique(np.column_stack([one, other]), axis=0))
    return pairs == len(np.unique(one)) == len(np.unique(other))


def tables() -> dict[str, Host]:
    """Standardised tables."""
    rng = np.random.default_rng(1)
    found = {
        f"normal, {n} × {d}": rng.normal(size=(n, d)) @ np.linalg.cholesky(0.5 * np.eye(d) + 0.5).T
        for n, d in ((250, 2), (500, 3), (1000, 3))
    }
    if "GPUANON_DATA" in os.environ:
        file = Path(os.environ["GPUANON_DATA"]) / "census" / "census.csv"
        found["census, 1080 × 13"] = np.genfromtxt(file, delimiter=",", skip_header=1)
    return {name: (X - X.mean(axis=0)) / X.std(axis=0) for name, X in found.items()}


def main() -> None:
    print("| table | k | grouping | loss | seconds | smallest group |")
    print("|---|---|---|---|---|---|")
    for name, X in tables().items():
        for k in (4, 8):
            for label, group in GROUPINGS.items():
                if label in ("mesh, cut", "spanning tree, cut") and (X.shape[1] > 3 or len(X) > 500 or k == 8):
                    continue
                began = time.perf_counter()
                labels = group(X, k)
                seconds = time.perf_counter() - began
                sizes = np.bincount(labels)
                print(f"| {name} | {k} | {label} | {loss(X, labels):.2f} | {seconds:.2f} | {sizes[sizes > 0].min()} |")
    rng = np.random.default_rng(2)
    equal = 0
    for trial in range(30):
        X = rng.normal(size=(40, 2 + trial % 3))
        equal += same_partition(mesh(X, 3), tree(X, 3))
    print(f"\nmesh and spanning tree divide alike: {equal} of 30 tables of 40 rows, 2 to 4 columns, k = 3")


if __name__ == "__main__":
    main()
