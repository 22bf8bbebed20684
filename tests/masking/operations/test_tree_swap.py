"""Tree swapping and restored marginals: what survives, what does not, against plain definitions."""

from __future__ import annotations

import numpy as np
import pytest
from pydantic import TypeAdapter
from scipy import stats
from scipy.sparse.csgraph import minimum_spanning_tree
from sklearn.metrics import mutual_info_score

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.bases.linear import Ica, Svd, restore_marginals
from gpuanon.masking.given import Records
from gpuanon.masking.operations import AnyOperation
from gpuanon.masking.operations.swap import TreeSwap, swap, tree_swap
from gpuanon.numerics.chow_liu import dependence_forest, link_threshold, mutual_information, quantile_classes
from tests.cuda.fixtures import host, xp

__all__ = ["xp"]


def draws(n: int, name: str = ""):
    return Key(b"tree swap tests, tree").draws(np.arange(n), name)


def rows_of(p: Partition, part: int) -> np.ndarray:
    return p.order[p.starts[part] : p.starts[part + 1]]


def linked(n: int, seed: int = 0) -> np.ndarray:
    """Four uncorrelated columns: the spread of the second hangs on the first, the fourth on the square of the third."""
    rng = np.random.default_rng(seed)
    a, c = rng.normal(size=(2, n))
    return np.column_stack([a, np.exp(a) * rng.normal(size=n), c, c**2 - 1 + 0.3 * rng.normal(size=n)])


def test_quantile_classes_are_those_of_pandas():
    import pandas as pd

    rng = np.random.default_rng(0)
    columns = rng.normal(size=(2, 3, 40))
    found = quantile_classes(columns, np.array([40, 25]), np.array([5, 3]))
    for part, (rows, count) in enumerate(((40, 5), (25, 3))):
        for j in range(3):
            values = columns[part, j, :rows]
            borders = np.sort(values)[[k * rows // count for k in range(1, count)]]
            np.testing.assert_array_equal(found[part, j, :rows], np.searchsorted(borders, values, side="right"))
            sizes = pd.Series(found[part, j, :rows]).value_counts()
            assert sizes.max() - sizes.min() <= 1


def test_equal_values_share_a_class_wherever_they_stand():
    columns = np.array([[[1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 2.0, 1.0]]])
    classes = quantile_classes(columns, np.array([8]), np.array([4]))[0, 0]
    assert len(set(classes[[1, 2, 3, 4, 6]])) == 1


def test_mutual_information_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    classes = rng.integers(0, 4, size=(2, 3, 60)).astype(np.int8)
    classes[:, 1] = np.where(rng.random((2, 60)) < 0.5, classes[:, 0], classes[:, 1])
    rows = np.array([60, 45])
    found = mutual_information(classes, rows, 4)
    for part in range(2):
        for i in range(3):
            for j in range(3):
                expected = mutual_info_score(classes[part, i, : rows[part]], classes[part, j, : rows[part]])
                assert found[part, i, j] == pytest.approx(expected, abs=1e-12)


def test_the_threshold_is_that_of_the_g_test():
    found = link_threshold(np.array([200, 80]), np.array([5, 1]), 0.01)
    assert found[0] == pytest.approx(stats.chi2.isf(0.01, 16) / 400)
    assert found[1] == np.inf, "a single class links nothing"


def test_the_forest_is_the_maximum_spanning_tree():
    rng = np.random.default_rng(2)
    strength = rng.random((5, 8, 8))
    strength = strength + strength.transpose(0, 2, 1)
    order, parent = dependence_forest(strength, np.zeros(5))
    for part in range(5):
        children = np.flatnonzero(parent[part] >= 0)
        total = strength[part][children, parent[part][children]].sum()
        assert len(children) == 7
        assert total == pytest.approx(-minimum_spanning_tree(-strength[part]).sum())
        place = np.argsort(order[part])
        assert (place[parent[part][children]] < place[children]).all(), "parents come first"
    _, parent = dependence_forest(strength, np.full(5, 3.0))
    assert (parent == -1).all()


@pytest.mark.parametrize("sizes", [(400,), (1, 2, 30, 90, 250)], ids=str)
def test_every_column_is_permuted_inside_its_group(sizes):
    n = 1200
    p = Partition.from_labels(np.repeat(np.arange(n), np.resize(sizes, n))[:n])
    T = linked(n)
    T[:, 2] = np.round(T[:, 2])
    out = tree_swap(T, p, draws(n))
    for part in range(p.parts):
        rows = rows_of(p, part)
        np.testing.assert_array_equal(np.sort(out[rows], axis=0), np.sort(T[rows], axis=0))


def test_links_survive_that_independent_swapping_loses():
    T = linked(4000)
    whole = Partition.whole(4000)

    def links(Z: np.ndarray) -> np.ndarray:
        size = np.abs(Z)
        return np.array([stats.spearmanr(Z[:, 0], size[:, 1])[0], stats.spearmanr(size[:, 2], Z[:, 3])[0]])

    original, along, apart = (
        links(T),
        links(tree_swap(T, whole, draws(4000), classes=20)),
        links(swap(T, whole, draws(4000))),
    )
    assert (original > 0.5).all()
    assert (along > 0.9 * original).all()
    assert (np.abs(apart) < 0.06).all()


def test_records_do_not_survive():
    T = linked(4000)
    out = tree_swap(T, Partition.whole(4000), draws(4000), classes=10)
    for j in range(4):
        assert abs(stats.spearmanr(T[:, j], out[:, j])[0]) < 0.06, "a record's new value knows nothing of its old one"


def test_the_swap_follows_the_definition():
    # One link by construction: released children are those of originals whose parent is in the same class.
    T = linked(2000)[:, :2]
    out = tree_swap(T, Partition.whole(2000), draws(2000), classes=4)
    borders = np.quantile(T[:, 0], [0.25, 0.5, 0.75])
    for of, other in ((0, 1), (1, 0)):
        cuts = borders if of == 0 else np.quantile(T[:, 1], [0.25, 0.5, 0.75])
        before, after = (np.searchsorted(cuts, Z[:, of]) for Z in (T, out))
        kept = all(np.array_equal(np.sort(T[before == k, other]), np.sort(out[after == k, other])) for k in range(4))
        if kept:
            return
    pytest.fail("neither column was swapped inside the classes of the other")


def test_constant_columns_link_nothing():
    rng = np.random.default_rng(4)
    T = np.sort(rng.normal(size=(800, 2)), axis=0)  # sorted: the order of rows is a link that must not be kept
    T = np.column_stack([T[:, 0], np.zeros(800), np.zeros(800), rng.permutation(T[:, 1])])
    out = tree_swap(T, Partition.whole(800), draws(800))
    assert abs(stats.spearmanr(T[:, 0], out[:, 0])[0]) < 0.12


def test_orthonormal_keeps_the_covariance_and_most_of_the_links():
    T = linked(3000)
    out = tree_swap(T, Partition.whole(3000), draws(3000), orthonormal=True)
    np.testing.assert_allclose(np.cov(out.T), np.cov(T.T), rtol=1e-10, atol=1e-10)
    assert stats.spearmanr(out[:, 0], np.abs(out[:, 1]))[0] > 0.4


def test_a_group_is_swapped_alike_alone_and_in_company(monkeypatch):
    T, p = linked(900), Partition.from_labels(np.arange(900) % 3)
    out = tree_swap(T, p, draws(900))
    rows = rows_of(p, 1)
    np.testing.assert_array_equal(out[rows], tree_swap(T[rows], Partition.whole(300), draws(900).take(rows)))
    monkeypatch.setenv("GPUANON_THREADS", "1")
    np.testing.assert_array_equal(tree_swap(T, p, draws(900)), out)


def test_long_parts_are_judged_by_a_sample_and_swapped_whole():
    T = linked(40_000)
    out = tree_swap(T, Partition.whole(40_000), draws(40_000), classes=10)
    np.testing.assert_array_equal(np.sort(out, axis=0), np.sort(T, axis=0))
    assert stats.spearmanr(out[:, 0], np.abs(out[:, 1]))[0] > 0.5


def test_marginals_come_back_exactly_in_the_order_of_the_image():
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.lognormal(size=300), rng.integers(0, 5, 300), np.where(rng.random(300) < 0.2, 1.0, -1.0)])
    p = Partition.from_labels(rng.integers(0, 4, 300))
    Y = X[rng.permutation(300)] + rng.normal(size=X.shape)
    out = restore_marginals(Y, X, p)
    for part in range(4):
        rows = rows_of(p, part)
        np.testing.assert_array_equal(np.sort(out[rows, :2], axis=0), np.sort(X[rows, :2], axis=0))
        assert stats.spearmanr(out[rows, 0], Y[rows, 0])[0] == pytest.approx(1.0)
        # Two values stand for a category: only shifted, so that as many are above the middle as before.
        np.testing.assert_allclose(np.ptp(out[rows, 2] - Y[rows, 2]), 0, atol=1e-12)
        assert (out[rows, 2] > 0).sum() == (X[rows, 2] > 0).sum()


@pytest.mark.parametrize("basis", [Svd(per_group=True, marginals=True), Ica(marginals=True)], ids=["svd", "ica"])
def test_bases_restore_marginals_when_asked(basis):
    X = linked(300)
    p = Partition.from_labels(np.arange(300) % 2)
    T, back = basis.forward(X, p)
    np.testing.assert_array_equal(back(T), X)
    release = back(swap(T, p, draws(300)))
    for part in range(2):
        rows = rows_of(p, part) if basis.per_group else slice(None)
        np.testing.assert_array_equal(np.sort(release[rows], axis=0), np.sort(X[rows], axis=0))


def test_recipes_name_tree_swapping():
    assert TypeAdapter(AnyOperation).validate_python({"use": "tree-swap", "classes": 8}) == TreeSwap(classes=8)
    T = linked(100)
    outcome = TreeSwap().apply(T, Partition.whole(100), Records(draws(100)))
    np.testing.assert_array_equal(outcome.values, tree_swap(T, Partition.whole(100), draws(100).child("tree-swap")))


def test_it_runs_where_the_array_lives(xp):
    T = linked(240)
    p = Partition.from_labels(np.arange(240) % 2)
    moved = Partition(xp.asarray(p.order), xp.asarray(p.starts))
    records = Key(b"tree swap tests, tree").draws(xp.arange(240))
    out = tree_swap(xp.asarray(T), moved, records)
    assert isinstance(out, xp.ndarray)
    np.testing.assert_array_equal(host(out), tree_swap(T, p, draws(240)))
    restored = restore_marginals(out * 2, xp.asarray(T), moved)
    assert isinstance(restored, xp.ndarray)
    np.testing.assert_array_equal(host(restored), host(out))
