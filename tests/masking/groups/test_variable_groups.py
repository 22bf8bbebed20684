"""V-MDAV and constrained k-means, against naive versions and a linear programme."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.groups.constrained_kmeans import ConstrainedKMeans, constrained_kmeans, optimal_assignment
from gpuanon.masking.groups.k_ward import k_ward
from gpuanon.masking.groups.mdav.mdav_models import v_mdav

KEY = Key(b"a key for the tests of groups")


def naive_v_mdav(X, k, gamma):
    """One row after another, as the paper has it."""
    free, labels, number = list(range(len(X))), np.full(len(X), -1), 0
    mean = X.mean(axis=0)
    while len(free) >= k:
        seed = max(free, key=lambda i: (((X[i] - mean) ** 2).sum(), -i))
        members = sorted(free, key=lambda i: (((X[i] - X[seed]) ** 2).sum(), i))[:k]
        free = [i for i in free if i not in members]
        while free and len(members) < 2 * k - 1:
            nearest = {i: min(((X[i] - X[j]) ** 2).sum() for j in members) for i in free}
            i = min(free, key=lambda i: (nearest[i], i))
            others = [((X[i] - X[j]) ** 2).sum() for j in free if j != i]
            if nearest[i] >= gamma**2 * (min(others) if others else np.inf):
                break
            members.append(i)
            free.remove(i)
        labels[members] = number
        number += 1
    means = [X[labels == g].mean(axis=0) for g in range(number)]
    for i in free:
        labels[i] = int(np.argmin([((X[i] - m) ** 2).sum() for m in means]))
    return labels


@given(st.integers(2, 5), st.integers(5, 40), st.sampled_from([0.2, 1.1, 3.0]), st.integers(0, 5))
@example(3, 7, 1.1, 0)
def test_v_mdav_is_what_the_definition_says(k, n, gamma, seed):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    expected = naive_v_mdav(X, k, gamma)
    found = v_mdav(X, Partition.whole(n), k, gamma=gamma)
    assert np.array_equal(found.labels(), Partition.from_labels(expected).labels())
    assert found.sizes.min() >= k


def test_v_mdav_keeps_clumps_together():
    """Clumps of four with k = 3: the fourth row is far nearer to its clump than to any other free row."""
    rng = np.random.default_rng(0)
    centres = 100 * rng.normal(size=(20, 2))
    X = np.repeat(centres, 4, axis=0) + 0.1 * rng.normal(size=(80, 2))
    found = v_mdav(X, Partition.whole(80), 3, gamma=0.5).labels()
    assert all(len(set(found[4 * at : 4 * at + 4])) == 1 for at in range(20))


def naive_k_ward(X, k):
    """One union after another, as the definition has it."""

    def error(rows):
        return ((X[rows] - X[rows].mean(axis=0)) ** 2).sum()

    def divided(rows):
        if len(rows) < 2 * k:
            return [rows]
        free = list(rows)
        mean = X[rows].mean(axis=0)
        groups = []
        seed = max(free, key=lambda i: (((X[i] - mean) ** 2).sum(), -i))
        for _ in range(2):
            apart = {i: ((X[i] - X[seed]) ** 2).sum() for i in rows}
            members = sorted(free, key=lambda i: (apart[i], i))[:k]
            groups.append(members)
            free = [i for i in free if i not in members]
            seed = max(free, key=lambda i: (apart[i], -i)) if free else seed
        groups += [[i] for i in free]
        while any(len(group) < k for group in groups):
            pairs = [
                (error(a + b) - error(a) - error(b), x, y)
                for x, a in enumerate(groups)
                for y, b in enumerate(groups)
                if x < y and (len(a) < k or len(b) < k)
            ]
            _, x, y = min(pairs)
            groups[x] = groups[x] + groups[y]
            del groups[y]
        return [part for group in groups for part in divided(sorted(group))]

    labels = np.empty(len(X), dtype=int)
    for number, rows in enumerate(divided(list(range(len(X))))):
        labels[rows] = number
    return labels


@given(st.integers(2, 4), st.integers(4, 26), st.integers(0, 5))
@example(2, 4, 0)
@example(3, 25, 1)
def test_k_ward_is_what_the_definition_says(k, n, seed):
    X = np.random.default_rng(seed).normal(size=(n, 2))
    found, expected = k_ward(X, Partition.whole(n), k), naive_k_ward(X, k)
    assert len({*zip(found.labels().tolist(), expected.tolist(), strict=True)}) == found.parts == expected.max() + 1
    assert k <= found.sizes.min() <= found.sizes.max() < 2 * k


@given(st.integers(1, 4), st.integers(1, 4), st.integers(0, 6), st.integers(0, 9))
@example(2, 2, 0, 0)
def test_the_assignment_is_optimal(clusters, k, more, seed):
    """Against the linear programme of the minimum-cost flow, whose corners are whole numbers."""
    n = clusters * k + more
    D = np.random.default_rng(seed).random((n, clusters))
    found = optimal_assignment(D, k)
    assert np.bincount(found, minlength=clusters).min() >= k
    rows = np.kron(np.eye(n), np.ones(clusters))
    sizes = -np.tile(np.eye(clusters), n)
    best = linprog(D.reshape(-1), A_ub=sizes, b_ub=np.full(clusters, -k), A_eq=rows, b_eq=np.ones(n))
    assert D[np.arange(n), found].sum() == pytest.approx(best.fun, abs=1e-9)


def test_constrained_k_means_finds_clusters_and_holds_their_size():
    rng = np.random.default_rng(1)
    X = np.vstack([rng.normal(size=(12, 2)), 20 + rng.normal(size=(9, 2)), 40 + rng.normal(size=(3, 2))])
    labels, error = constrained_kmeans(X, 5, KEY.draws(np.arange(24)), 3)
    assert np.bincount(labels).min() >= 5
    means = np.stack([X[labels == at].mean(axis=0) for at in range(3)])
    assert error == pytest.approx(((X - means[labels]) ** 2).sum())
    draws = KEY.draws(np.arange(24))
    best = ConstrainedKMeans(k=5, optimise=True).form(X, draws)
    most = ConstrainedKMeans(k=5).form(X, draws)
    assert most.sizes.min() >= 5

    def loss(groups):
        means = np.stack([X[groups.labels() == at].mean(axis=0) for at in range(groups.parts)])
        return ((X - means[groups.labels()]) ** 2).sum()

    assert loss(best) <= loss(most)


def test_too_many_clusters_and_too_large_parts_are_refused():
    with pytest.raises(ParameterError, match="clusters"):
        optimal_assignment(np.ones((5, 3)), 2)
    with pytest.raises(ParameterError, match="block"):
        ConstrainedKMeans(k=2, block=0).form(np.zeros((5000, 1)), KEY.draws(np.arange(5000)))
