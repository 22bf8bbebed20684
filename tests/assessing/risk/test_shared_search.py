"""One search of nearest records serves all measures that need it, and gives what each finds by itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.risk import match_auc, noise_stripping, reidentification
from gpuanon.assessing.risk.prediction import predict, standardised
from gpuanon.numerics.distance import distance_search
from gpuanon.recipe import Recipe
from gpuanon.tables.schema import Schema
from gpuanon.tables.table import Table


def tables(n=1500, d=10, rounded=None, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    Y = X + 0.4 * rng.normal(size=(n, d))
    if rounded is not None:
        X, Y = X.round(rounded), Y.round(rounded)
    order = rng.permutation(n)
    return X, Y[order], order


def comparison(X, Y, link):
    frames = [pd.DataFrame(side, columns=[f"x{j}" for j in range(side.shape[1])]) for side in (X, Y)]
    rules = Recipe.load({"columns": {name: {"role": "quasi"} for name in frames[0]}, "mask": [{"method": "svd-swap"}]})
    before, after = map(Table.of, frames)
    return Comparison(before, after, Schema.resolve(before, rules.columns, rules.others), link)


@pytest.mark.parametrize("rounded", [None, 0], ids=["continuous", "many ties"])
def test_hits_from_the_shared_search_are_those_of_the_attack(rounded):
    X, Y, link = tables(rounded=rounded)
    A, B = standardised(X, Y)
    shared = predict(A, B)
    found = reidentification._hits(A, B, link, shared.squared, shared.ties)
    np.testing.assert_allclose(found, reidentification.hit_probabilities(A, B, link), rtol=1e-12)


def test_many_columns_are_searched_once(monkeypatch):
    """Two searches of originals in the release before, several after: now one, that of an attacker who
    knows ten pairs, on some of the records, and those of stripped coordinates."""
    X, Y, link = tables()
    seen = []
    whole = distance_search.search
    monkeypatch.setattr(distance_search, "search", lambda a, b, k, m: seen.append(a.shape) or whole(a, b, k, m))
    c = comparison(X, Y, link)
    reidentification.reidentification(*c.quasi, c.link, hits=c.hits)
    reidentification.reidentification_by_class(*c.quasi, c.link, hits=c.hits)
    match_auc.match_auc(*c.standardised, c.link, prediction=c.prediction)
    assert seen == [X.shape, (500, 10)]
    noise_stripping.noise_stripping(*c.standardised, c.link, prediction=c.prediction)
    assert [shape[1] for shape in seen] == [10, 10, 1, 2, 5, 8, 9]


def test_stripping_by_coordinates_is_that_by_projection():
    """Distances in the coordinates of the components are those of the projections."""
    X, Y, link = tables(600, 6)
    A, B = standardised(X, Y)
    for kept in (2, 4):
        found = noise_stripping.noise_stripping(A, B, link, components=kept)
        leading = np.linalg.svd(B - B.mean(axis=0), full_matrices=False)[2][:kept]
        known, shown = (B.mean(axis=0) + (rows - B.mean(axis=0)) @ leading.T @ leading for rows in (A, B))
        naive = ((known[:, None] - shown[None]) ** 2).sum(axis=2).argmin(axis=1)
        assert found.value == pytest.approx((link[naive] == np.arange(len(A))).mean(), abs=1e-12)
        error = np.sqrt(((A[link] - shown) ** 2).mean())
        assert found.details["error_after"] == pytest.approx(error, rel=1e-12)


def test_a_sample_of_the_originals_says_so_and_is_near_the_whole():
    X, Y, link = tables(2000)
    whole = reidentification.attacked(X, Y, link)
    some = reidentification.attacked(X, Y, link, limit=1000)
    assert whole.note is None
    assert len(some.rows) == 500
    assert "500 of 2000" in some.note
    np.testing.assert_array_equal(some.values, whole.values[some.rows])
    by_class = reidentification.reidentification_by_class(X, Y, link, hits=some)
    assert by_class.value == pytest.approx(some.values.mean())
    assert not by_class.parts


def test_classes_count_once_in_a_sample_of_records():
    """Weighted by one over the size of their class, records give the mean over classes."""
    X, Y, link = tables(3000, 8)
    X[:1500] = X[:30].repeat(50, axis=0)
    hits = reidentification.attacked(X, Y, link)
    every = reidentification.reidentification_by_class(X, Y, link, hits=hits)
    rows = np.flatnonzero(np.random.default_rng(1).random(3000) < 0.7)
    some = reidentification.Hits(rows, hits.values[rows], 3000)
    found = reidentification.reidentification_by_class(X, Y, link, hits=some)
    assert abs(found.value - every.value) < 4 * found.details["standard_error"]
