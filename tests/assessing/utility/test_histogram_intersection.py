"""Histogram intersection: known extremes, the sampling floor by simulation, and levels."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.utility.histogram_intersection import (
    histogram_intersection,
    independent_sample,
    intersection,
    level_edges,
    to_levels,
)
from gpuanon.errors import ParameterError


def test_known_values():
    assert intersection([1, 1], [1, 1]) == 1
    assert intersection([1, 0], [0, 1]) == 0
    assert intersection([3, 1], [1, 1]) == pytest.approx(0.75)  # min(.75, .5) + min(.25, .5)


def test_copy_permutation_and_disjoint_tables():
    rng = np.random.default_rng(0)
    X = rng.integers(0, 4, (300, 3))
    assert histogram_intersection(X, X[rng.permutation(300)]).value == 1
    assert histogram_intersection(np.array([[0.0], [1.0]]), np.array([[1.0], [1.0]])).value == 0.5
    assert histogram_intersection(np.arange(10.0)[:, None], np.full((4, 1), 50.0)).value == pytest.approx(0.1)


def test_weights_set_the_shares():
    X, Y = np.array([[0], [1]]), np.array([[0], [1], [1]])
    assert histogram_intersection(X, Y, weights=np.array([1.0, 2.0])).value == pytest.approx(1)
    assert histogram_intersection(X, Y, release_weights=np.array([2.0, 1.0, 1.0])).value == pytest.approx(1)


def test_independent_sample_agrees_with_simulation():
    rng = np.random.default_rng(1)
    p = rng.dirichlet(np.ones(40))
    n = 2000
    draws = [intersection(p, rng.multinomial(n, p)) for _ in range(2000)]
    mean, deviation = independent_sample(p, n)
    assert mean == pytest.approx(np.mean(draws), abs=2e-3)
    assert deviation == pytest.approx(np.std(draws), rel=0.15)


def test_levels_keep_few_values_and_cut_many():
    rng = np.random.default_rng(2)
    X = np.column_stack([rng.integers(0, 2, 5000), rng.integers(0, 6, 5000), rng.normal(size=5000)])
    edges = level_edges(X, 500)
    assert [len(edge) + 1 for edge in edges] == [2, 6, 41]
    levels = to_levels(X, edges)
    assert np.bincount(levels[:, 2]).min() > 100
    np.testing.assert_array_equal(levels[:, 1], X[:, 1])


def test_values_between_levels_go_to_the_nearest():
    X = np.array([[0.0], [1.0], [2.0]])
    edges = level_edges(X, 500)
    np.testing.assert_array_equal(
        to_levels(np.array([[0.4], [0.6], [1.4], [9.0], [-3.0]]), edges)[:, 0], [0, 1, 1, 2, 0]
    )


def test_many_columns_stay_within_the_cells():
    X = np.random.default_rng(3).integers(0, 3, (200, 12))
    measured = histogram_intersection(X, X, cells=500)
    assert np.prod(list(measured.details["levels_by_column"].values())) <= 500
    assert measured.value == 1


def test_tables_that_do_not_fit_are_refused():
    with pytest.raises(ParameterError):
        histogram_intersection(np.zeros((2, 1)), np.zeros((2, 2)))


def test_what_draws_would_have_is_exact_for_sparse_cells() -> None:
    """500 cells and 300 draws: the mean of 4 000 simulated releases, to five standard errors."""
    rng = np.random.default_rng(13)
    p = rng.dirichlet(np.ones(500))
    found = [intersection(p, counts) for counts in rng.multinomial(300, p, size=4000)]
    assert independent_sample(p, 300)[0] == pytest.approx(np.mean(found), abs=5 * np.std(found) / np.sqrt(4000))
