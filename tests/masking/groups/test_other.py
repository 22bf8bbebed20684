"""Spanning-tree, first-axis and fuzzy groups."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.groups.fuzzy import _memberships, fuzzy
from gpuanon.masking.groups.kmember import kmember
from gpuanon.masking.groups.mdav import mdav, split_large
from gpuanon.masking.groups.spanning_tree import _cut, _prim, spanning_tree
from gpuanon.masking.groups.univariate import first_axis
from tests.support import naive_groups as naive
from tests.support.groups import MIXED, random_partition


def sound(groups: Partition, n: int, k: int) -> None:
    assert sorted(groups.order.tolist()) == list(range(n))
    assert groups.sizes.min() >= k
    assert groups.sizes.max() <= 2 * k - 1


def cut_slowly(X: Any, k: int) -> set[tuple[int, ...]]:
    """SciPy's minimum spanning tree, edges removed one by one, components counted each time."""
    n = len(X)
    tree = minimum_spanning_tree(cdist(X, X)).tocoo()
    edges = sorted(zip(tree.data.tolist(), tree.row.tolist(), tree.col.tolist(), strict=True), reverse=True)
    kept = list(edges)

    def components(edges: list[Any]) -> Any:
        rows, columns = [edge[1] for edge in edges], [edge[2] for edge in edges]
        return connected_components(coo_matrix((np.ones(len(edges)), (rows, columns)), shape=(n, n)), directed=False)[1]

    for edge in edges:
        without = [other for other in kept if other is not edge]
        if np.bincount(components(without)).min() >= k:
            kept = without
    return naive.as_set(naive.members(Partition.from_labels(components(kept))))


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(1, 3))
@example(seed=0, k=2, parts=1)
def test_the_tree_is_cut_as_by_a_loop_over_edges(seed: int, k: int, parts: int) -> None:
    rng = np.random.default_rng(seed)
    n = parts * k + int(rng.integers(0, 30))
    X, within = rng.standard_normal((n, 2)), random_partition(rng, n, parts, k)
    for rows in naive.members(within):
        valid = np.arange(len(rows) + 3) < len(rows)
        Z = X[[*rows, rows[0], rows[0], rows[0]]]
        labels = _cut(*_prim(Z[None], valid[None], None), np.array([len(rows)]), k)[0][: len(rows)]
        assert naive.as_set(naive.members(Partition.from_labels(labels))) == cut_slowly(X[rows], k)
    groups = spanning_tree(X, within, k)
    sound(groups, n, k)
    whole = within.labels()
    assert all(len(set(whole[rows])) == 1 for rows in naive.members(groups))


def test_the_tree_has_the_length_of_scipys() -> None:
    X = np.random.default_rng(1).standard_normal((200, 5))
    edge = _prim(X[None], np.ones((1, 200), dtype=bool), None)[2][0, 1:]
    assert np.sqrt(edge).sum() == pytest.approx(minimum_spanning_tree(cdist(X, X)).sum())


@given(st.integers(0, 10**6), st.integers(2, 5), st.integers(2, 60))
@example(seed=0, k=2, more=2)
def test_mixed_and_tied_rows_give_valid_trees(seed: int, k: int, more: int) -> None:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.integers(0, 3, k + more) / 4, rng.integers(0, 3, k + more), rng.random(k + more)])
    sound(spanning_tree(X, Partition.whole(k + more), k, MIXED), k + more, k)


def test_rows_are_sorted_along_the_first_principal_axis() -> None:
    rng = np.random.default_rng(2)
    X = rng.standard_normal((103, 3)) @ np.array([[3, 1, 0], [0, 1, 0], [0, 0, 0.5]])
    order = np.argsort(PCA(1).fit_transform(X)[:, 0])
    got = naive.as_set(naive.members(first_axis(X, 5)))
    either_way = []
    for way in (order, order[::-1]):
        groups = [way[at : at + 5].tolist() for at in range(0, 95, 5)] + [way[95:].tolist()]
        either_way.append(naive.as_set(groups))
    assert got in [naive.as_set([*map(list, groups)]) for groups in either_way]


def drawn(X: Any, within: Partition, k: int, **options: Any) -> Partition:
    return fuzzy(X, within, k, Key(bytes(16)).draws(np.arange(len(X))), **options)


def fuzzy_of(X: Any, k: int, **options: Any) -> Partition:
    return drawn(X, Partition.whole(len(X)), k, **options)


@given(st.integers(0, 10**6), st.integers(2, 6), st.integers(0, 60), st.booleans())
@example(seed=0, k=2, more=0, tied=True)
def test_fuzzy_groups_are_valid(seed: int, k: int, more: int, tied: bool) -> None:
    X = np.random.default_rng(seed).standard_normal((k + more, 2))
    sound(fuzzy_of(np.round(X) if tied else X, k), k + more, k)


def test_memberships_are_a_fixed_point_of_their_definition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpuanon.masking.groups.fuzzy._ROUNDS", 500)
    X = np.random.default_rng(3).standard_normal((1, 60, 2))
    membership = _memberships(X, np.ones((1, 60), dtype=bool), 10, 1.5)
    np.testing.assert_allclose(membership.sum(axis=2), 1)
    weight = membership**1.5
    centres = np.einsum("blc,bld->bcd", weight, X) / weight.sum(axis=1)[:, :, None]
    inverse = cdist(X[0], centres[0]) ** (-2 / 0.5)
    np.testing.assert_allclose(membership[0], inverse / inverse.sum(axis=1, keepdims=True), atol=1e-6)


def test_fuzzier_memberships_draw_farther_clusters_and_crisp_ones_separate_clumps() -> None:
    rng = np.random.default_rng(4)
    X = np.repeat(np.arange(20.0), 5)[:, None] * 10 + rng.normal(scale=0.1, size=(100, 1))

    def error(groups: Partition) -> float:
        return float(sum(np.square(X[rows] - X[rows].mean()).sum() for rows in naive.members(groups)))

    assert error(fuzzy_of(X, 5, fuzziness=1.1)) < error(fuzzy_of(X, 5, fuzziness=3.0))
    assert error(fuzzy_of(X, 5, fuzziness=1.1)) < 0.05 * np.square(X - X.mean()).sum()


@pytest.mark.parametrize(("function", "n"), [(kmember, 3000), (mdav, 3000), (spanning_tree, 800), (drawn, 800)])
def test_batches_and_threads_change_nothing(function: Any, n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(7)
    X, within = rng.standard_normal((n, 4)), random_partition(rng, n, n // 75, 7)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    one = function(X, within, 7)
    monkeypatch.setenv("GPUANON_THREADS", "3")
    for elements in (1, 500, 1 << 20):
        other = function(X, within, 7, batch_elements=elements)
        np.testing.assert_array_equal(one.order, other.order)
        np.testing.assert_array_equal(one.starts, other.starts)


def test_large_groups_are_split_and_others_kept() -> None:
    X = np.random.default_rng(6).standard_normal((30, 2))
    groups = Partition.from_labels(np.repeat([0, 1], [23, 7]))
    after = split_large(X, groups, 4)
    sound(after, 30, 4)
    assert list(range(23, 30)) in naive.members(after)
    np.testing.assert_array_equal(split_large(X[:7], Partition.whole(7), 4).order, np.arange(7))
