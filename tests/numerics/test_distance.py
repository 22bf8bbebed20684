"""Distances on the host, against loops from the definitions, SciPy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.spatial.distance import cdist
from sklearn.neighbors import NearestNeighbors

from gpuanon.arrays import compiled
from gpuanon.errors import ParameterError
from gpuanon.numerics import equal_rows
from gpuanon.numerics.distance import distance_search
from gpuanon.numerics.distance.distance import (
    distances,
    furthest,
    k_nearest,
    nearest,
    nearest_with_ties,
    paired,
    row_sums,
)
from gpuanon.numerics.distance.distance_bounds import BoundedBlocks
from gpuanon.numerics.distance.distance_host import Columns
from gpuanon.numerics.distance.distance_leaves import Leaves
from gpuanon.numerics.distance.distance_search import Distinct
from gpuanon.numerics.distance.distance_tiles import Tiles
from gpuanon.numerics.metric import EUCLIDEAN, Metric

needs_numba = pytest.mark.skipif(not compiled.use_compiled(10**9), reason="numba is not installed or is turned off")


def naive(X, Y, metric):
    """The definition, pair by pair."""
    d = X.shape[1]
    weights = metric.weights or (1.0,) * d
    flags = metric.categorical or (False,) * d
    out = np.zeros((len(X), len(Y)))
    for i, x in enumerate(X.astype(np.float64)):
        for j, y in enumerate(Y.astype(np.float64)):
            if metric.kind == "euclidean":
                out[i, j] = sum(w * (a - b) ** 2 for w, a, b in zip(weights, x, y, strict=True))
            else:
                shares = (
                    w * (float(a != b) if flag else abs(a - b))
                    for w, a, b, flag in zip(weights, x, y, flags, strict=True)
                )
                out[i, j] = sum(shares) / sum(weights)
    return out


def metrics(d):
    rng = np.random.default_rng(d)
    weights = tuple(rng.uniform(0.1, 3, d))
    flags = tuple(bool(flag) for flag in rng.integers(0, 2, d))
    return [EUCLIDEAN, Metric(weights=weights), Metric("gower"), Metric("gower", weights, flags)]


@st.composite
def tables(draw):
    """Two tables with the same columns, of few whole numbers (ties) or of any numbers."""
    d = draw(st.integers(1, 20))
    shapes = [(draw(st.integers(1, 8)), d), (draw(st.integers(1, 12)), d)]
    elements = draw(st.sampled_from([st.integers(0, 2), st.floats(-100, 100, width=32)]))
    return [draw(hnp.arrays(np.float64, shape, elements=elements)) for shape in shapes]


@given(tables(), st.integers(0, 3), st.sampled_from([np.float64, np.float32]))
@example([np.zeros((1, 1)), np.zeros((3, 1))], 0, np.float64)
@example([np.zeros((2, 17)), np.ones((3, 17))], 3, np.float32)
@example([np.zeros((1, 11)), np.array([[0.0, 2, 1, 1, 1, 1, 1, 1, 0, 1, 1], [0] + [1] * 10])], 2, np.float64)
def test_reductions_equal_those_of_the_matrix_and_the_matrix_equals_the_definition(XY, which, dtype):
    X, Y = (table.astype(dtype) for table in XY)
    metric = metrics(X.shape[1])[which]
    D = distances(X, Y, metric)
    assert D.dtype == dtype
    smallest = max(1e-300, float(np.finfo(dtype).tiny))
    np.testing.assert_allclose(D, naive(X, Y, metric), rtol=(X.shape[1] + 4) * np.finfo(dtype).eps, atol=smallest)
    exact = distances(X.astype(np.float64), Y.astype(np.float64), metric)
    most, index = furthest(X, Y, metric)
    assert np.array_equal(index, exact.argmax(axis=1))
    assert np.array_equal(most, D.max(axis=1))
    tied = exact <= exact.min(axis=1, keepdims=True) * (1 + (1e-12 if dtype == np.float64 else 2.0**-16))
    ordered, shown = (np.where(tied, table.min(axis=1, keepdims=True), table) for table in (exact, D))
    least, index = nearest(X, Y, metric)
    assert np.array_equal(index, tied.argmax(axis=1))
    assert np.array_equal(least, D.min(axis=1))
    assert np.array_equal(nearest_with_ties(X, Y, metric)[1], tied.sum(axis=1))
    k = (len(Y) + 1) // 2
    values, index = k_nearest(X, Y, k, metric)
    order = np.argsort(ordered, axis=1, kind="stable")[:, :k]
    assert np.array_equal(index, order)
    assert np.array_equal(values, np.take_along_axis(shown, order, 1))
    np.testing.assert_allclose(row_sums(X, Y, metric), exact.sum(axis=1), rtol=1e-12, atol=1e-10)
    chosen = np.arange(len(X)) % len(Y)
    assert np.array_equal(paired(X, Y, metric, index=chosen), D[np.arange(len(X)), chosen])


def search_cases():
    rng = np.random.default_rng(7)
    for d in (1, 3, 6, 9, 25):
        yield "normal", rng.normal(size=(150, d)), rng.normal(size=(400, d))
        yield "grid", rng.integers(0, 3, (150, d)) * 1.0, rng.integers(0, 3, (400, d)) * 1.0
        yield "copies", rng.normal(size=(150, d)), np.repeat(rng.normal(size=(40, d)), 10, axis=0)
    X, Y = rng.normal(size=(150, 9)), rng.normal(size=(400, 9))
    yield "far from zero", X + 1e9, Y + 1e9
    yield "one row far away", X, np.concatenate([Y, 1e7 * Y[:1]])
    yield "a query far away", np.concatenate([X, 1e30 * X[:1]]), Y
    yield "tiny", X * 1e-160, Y * 1e-160
    yield "near copies", X + 1e6, X[rng.integers(0, 150, 400)] + 1e6 + 1e-8 * rng.normal(size=(400, 9))
    yield "constant", np.zeros((150, 9)), np.zeros((400, 9))


@pytest.fixture(params=["0", pytest.param("1", marks=needs_numba)], ids=["plain", "compiled"])
def large(request, monkeypatch):
    """Search small tables as if they were large, without and with compiled functions."""
    monkeypatch.setattr(distance_search, "_SMALL", 0)
    monkeypatch.setattr(distance_search, "_FEWEST_COLUMNS", 0)
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    monkeypatch.setenv("GPUANON_COMPILED", request.param)


@pytest.mark.parametrize("case", list(search_cases()), ids=lambda case: f"{case[0]} {case[1].shape[1]}")
@pytest.mark.usefixtures("large")
def test_large_tables_are_searched_exactly(case):
    """The tree, the bounds and the search over all pairs give the same rows, ties included."""
    _, X, Y = case
    weights = tuple(np.random.default_rng(1).uniform(0.2, 2, X.shape[1]))
    for metric in (EUCLIDEAN, Metric(weights=weights), Metric("gower", weights)):
        D = distances(X, Y, metric)
        least, ties = nearest_with_ties(X, Y, metric)
        assert np.array_equal(least, D.min(axis=1))
        assert np.array_equal(ties, (least[:, None] == D).sum(axis=1))
        for k in (1, 6, 40):
            order = np.argsort(D, axis=1, kind="stable")[:, :k]
            values, index = k_nearest(X, Y, k, metric)
            assert np.array_equal(index, order)
            assert np.array_equal(values, np.take_along_axis(D, order, 1))
        assert np.array_equal(furthest(X, Y, metric)[1], D.argmax(axis=1))


@pytest.mark.parametrize("d", [4, 12])
def test_real_sizes_agree_with_scipy_and_scikit_learn(d):
    rng = np.random.default_rng(d)
    X, Y = rng.normal(size=(2500, d)), rng.normal(size=(3000, d))
    values, index = k_nearest(X, Y, 5)
    expected, places = NearestNeighbors(n_neighbors=5, algorithm="ball_tree").fit(Y).kneighbors(X)
    assert np.array_equal(index, places)
    np.testing.assert_allclose(np.sqrt(values), expected, rtol=1e-12)
    np.testing.assert_allclose(furthest(X, Y)[0], cdist(X, Y, "sqeuclidean").max(axis=1), rtol=1e-12)
    weights = tuple(rng.uniform(0.5, 2, d))
    np.testing.assert_allclose(
        row_sums(X, Y, Metric("gower", weights)), cdist(X, Y, "cityblock", w=weights).sum(axis=1) / sum(weights),
        rtol=1e-11,
    )  # fmt: skip


def test_a_masked_table_of_copies_has_its_groups_as_ties():
    """What reidentification counts: k equal rows, and whether the true one is among them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(3000, 12))
    release = np.repeat(X.reshape(-1, 5, 12).mean(axis=1), 5, axis=0)
    least, ties = nearest_with_ties(X, release)
    assert (ties % 5 == 0).all()
    hits = paired(X, release) == least
    D = distances(X[:200], release)
    assert np.array_equal(hits[:200], D[np.arange(200), np.arange(200)] == D.min(axis=1))
    assert 0.01 < hits.mean() < 0.99


def test_threads_change_nothing(monkeypatch):
    rng = np.random.default_rng(2)
    X, Y = rng.normal(size=(2000, 11)), rng.normal(size=(4000, 11))
    several = (*k_nearest(X, Y, 3), *furthest(X, Y), distances(X[:50], Y))
    monkeypatch.setenv("GPUANON_THREADS", "1")
    for one, other in zip(several, (*k_nearest(X, Y, 3), *furthest(X, Y), distances(X[:50], Y)), strict=True):
        assert np.array_equal(one, other)


def test_bounds_leave_few_candidates():
    rng = np.random.default_rng(3)
    X, Y = rng.normal(size=(256, 10)), rng.normal(size=(20_000, 10))
    for index in (BoundedBlocks.of(Columns.of(Y, EUCLIDEAN)), Tiles.of(Y, np.ones(10))):
        query, _, _ = index.candidates(X, 1)
        assert len(query) < 3 * len(X)


def tiled_cases():
    """Tables of many tiles: related columns, indicators of categories, heavy tails, clusters far apart, copies."""
    rng = np.random.default_rng(7)
    for d in (9, 30):
        mix = rng.normal(size=(d, d)) * np.geomspace(1, 0.01, d)
        rows = rng.normal(size=(2800, d)) @ mix.T
        yield "related", rows[:300], rows[300:]
        levels = np.eye(d)[rng.integers(0, d, 2800)] + 0.1 * rows
        yield "categories", levels[:300], levels[300:]
        tails = np.sinh(rows)
        yield "heavy tails", tails[:300], tails[300:]
        clusters = rows + 1e4 * rng.integers(0, 4, (2800, 1))
        yield "clusters", clusters[:300], clusters[300:]
        few = rng.integers(0, 2, (2800, d)) * 1.0
        yield "copies", few[:300], few[300:]
        yield "one axis", np.outer(rows[:300, 0], np.ones(d)), np.outer(rows[300:, 0], np.ones(d))


@pytest.mark.parametrize("case", list(tiled_cases()), ids=lambda case: f"{case[0]} {case[1].shape[1]}")
@pytest.mark.usefixtures("large")
def test_many_tiles_are_searched_exactly(case, monkeypatch):
    monkeypatch.setattr("gpuanon.numerics.distance.distance_tiles._TILE", 64)
    monkeypatch.setattr("gpuanon.numerics.distance.distance_tiles.QUERIES", 100)
    _, X, Y = case
    weights = tuple(np.random.default_rng(1).uniform(0.2, 2, X.shape[1]))
    for metric in (EUCLIDEAN, Metric(weights=weights)):
        D = distances(X, Y, metric)
        order = np.argsort(D, axis=1, kind="stable")
        for k in (1, 7, 90):
            values, index = k_nearest(X, Y, k, metric)
            assert np.array_equal(index, order[:, :k])
            assert np.array_equal(values, np.take_along_axis(D, order[:, :k], 1))


@needs_numba
@pytest.mark.parametrize("case", [*tiled_cases(), *search_cases()], ids=lambda case: f"{case[0]} {case[1].shape[1]}")
@pytest.mark.parametrize("count", [1, 7, 40])
def test_leaves_propose_the_nearest_rows_and_a_bound_of_all_others(case, count):
    """Also where single precision tells nothing apart: the bound is then low, and never too high."""
    name, X, Y = case
    weights = np.random.default_rng(1).uniform(0.2, 2, X.shape[1])
    place, bound = Leaves.of(Y, weights).propose(X, count)
    D = distances(X, Y, Metric(weights=tuple(weights)))
    last = np.take_along_axis(D, place, axis=1).max(axis=1)
    np.put_along_axis(D, place, np.inf, axis=1)
    assert all(len(set(rows)) == count for rows in place.tolist())
    assert (bound <= D.min(axis=1)).all()
    if name in ("related", "normal") and X.shape[1] > 1:
        assert np.median(bound / last) > 0.999


def test_distinct_rows_are_found_in_spite_of_hash_collisions(monkeypatch):
    rng = np.random.default_rng(5)
    rows = rng.integers(0, 3, (200, 2)).astype(np.float64)
    rows[rows == 0] *= rng.choice([-1, 1], (rows == 0).sum())  # −0 and 0 are the same number
    expected = np.unique(rows, axis=0, return_index=True, return_counts=True)

    def check():
        found = Distinct.of(rows)
        by = np.lexsort(found.rows.T[::-1])
        assert np.array_equal(found.rows[by], expected[0])
        assert np.array_equal(found.order[found.starts[:-1]][by], expected[1])
        assert np.array_equal(found.counts[by], expected[2])
        assert np.array_equal(found.rows[found.inverse()], rows)

    check()
    monkeypatch.setattr(equal_rows, "_hashes", lambda X: (X[:, 0] % 2).astype(np.uint64))
    check()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda X: nearest(X, X[:, :2]), "same columns"),
        (lambda X: nearest(X, X[:0]), "Y: at least one row"),
        (lambda X: k_nearest(X, X, 0), "k: a number from 1 to 5"),
        (lambda X: k_nearest(X, X, 6), "k: a number from 1 to 5"),
        (lambda X: nearest(X * np.nan, X), "finite"),
        (lambda X: nearest(X, X + np.inf), "finite"),
        (lambda X: nearest(X, X * 1e200), "smaller than 1e"),
        (lambda X: nearest(X, X, Metric(weights=(1.0,))), "metric weights: one per column"),
        (lambda X: nearest(X, X, Metric(weights=(1.0, -1.0, 1.0))), "from 0 up"),
        (lambda X: nearest(X, X, Metric("gower", None, (True,))), "metric categorical: one per column"),
        (lambda X: paired(X, X[:2]), "Y: 5 rows are needed, got 2"),
    ],
)
def test_invalid_arguments_are_refused(call, message):
    with pytest.raises(ParameterError, match=message):
        call(np.arange(15.0).reshape(5, 3))


def test_empty_queries_give_empty_results():
    X, Y = np.empty((0, 3)), np.ones((2, 3))
    assert distances(X, Y).shape == (0, 2)
    assert nearest(X, Y)[1].shape == (0,)
    assert k_nearest(X, Y, 2)[0].shape == (0, 2)
    assert furthest(X, Y)[0].shape == (0,)
    assert row_sums(Y, X).tolist() == [0, 0]
    assert paired(X, X).shape == (0,)
