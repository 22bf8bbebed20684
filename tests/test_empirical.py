"""Inverse empirical conditional distributions, against the definition, row by row."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.arrays.partition import Partition
from gpuanon.numerics.empirical import conditional_inverse, conditional_stretches


def by_definition(u, X, labels, weights):
    """Eq. 9: the smallest v with F(v | x̂_<j) ≥ u, one row and one column at a time."""
    released = np.empty_like(X)
    for i in range(len(X)):
        rows = np.flatnonzero(labels == labels[i])
        for j in range(X.shape[1]):
            total = weights[rows].sum()
            for v in np.unique(X[rows, j]):
                if weights[rows][X[rows, j] <= v].sum() >= u[i, j] * total:
                    break
            released[i, j] = v
            rows = rows[X[rows, j] == v]
    return released


tables = st.integers(1, 40).flatmap(
    lambda n: st.tuples(
        hnp.arrays(np.int64, (n, 3), elements=st.integers(0, 4)),
        hnp.arrays(np.int64, n, elements=st.integers(0, 2)),
        hnp.arrays(np.int64, n, elements=st.integers(1, 7)),
        st.integers(0, 2**32 - 1),
    )
)


@settings(max_examples=60, deadline=None)
@given(tables, st.booleans())
@example((np.zeros((1, 3), dtype=int), np.zeros(1, dtype=int), np.ones(1, dtype=int), 0), True)
@example((np.arange(30).reshape(10, 3) % 4, np.arange(10) % 2, np.arange(10) % 5 + 1, 1), False)
def test_inverse_is_the_smallest_value_that_reaches_u(table, weighted):
    X, labels, weights, seed = table
    X = X.astype(float)
    u = np.random.default_rng(seed).random(X.shape)
    source = conditional_inverse(u, X, Partition.from_labels(labels), weights.astype(float) if weighted else None)
    expected = by_definition(u, X, labels, weights if weighted else np.ones(len(X)))
    np.testing.assert_array_equal(X[source], expected)
    assert (labels[source] == labels).all()


def test_a_grid_of_u_returns_every_row_once():
    """Unweighted, u at the middle of each row's share of the conditional distributions gives the row back."""
    rng = np.random.default_rng(4)
    X = rng.integers(0, 3, (200, 2)).astype(float)
    X[:, 1] += rng.random(200) * 0.1
    order = np.lexsort((X[:, 1], X[:, 0]))
    u = np.empty_like(X)
    first = X[order, 0]
    u[order, 0] = (np.searchsorted(first, first) + 0.5) / 200
    position = np.arange(200) - np.searchsorted(first, first)
    u[order, 1] = (position + 0.5) / np.bincount(first.astype(int))[first.astype(int)]
    np.testing.assert_array_equal(conditional_inverse(u, X, Partition.whole(200)), np.arange(200))


def test_extreme_u_stays_inside_the_block():
    X = np.random.default_rng(0).random((50, 2))
    blocks = Partition.from_labels(np.arange(50) % 3)
    for value in (0.0, 1.0):
        source = conditional_inverse(np.full((50, 2), value), X, blocks)
        assert (blocks.labels()[source] == blocks.labels()).all()
        for part in range(3):
            rows = np.flatnonzero(blocks.labels() == part)
            extreme = rows[np.argmin(X[rows, 0])] if value == 0 else rows[np.argmax(X[rows, 0])]
            assert (source[rows] == extreme).all()


def test_uniform_u_draws_rows_in_proportion_to_their_weights():
    rng = np.random.default_rng(9)
    X = rng.integers(0, 3, (12, 2)).astype(float)
    weights = rng.integers(0, 5, 12).astype(float)
    weights[0] = 3.0
    many = np.tile(X, (5000, 1))
    labels = np.repeat(np.arange(5000), 12)
    source = conditional_inverse(rng.random((60_000, 2)), many, Partition.from_labels(labels), np.tile(weights, 5000))
    cells = X @ [3, 1]
    drawn = np.bincount((many[source] @ [3, 1]).astype(int), minlength=9) / 60_000
    expected = np.bincount(cells.astype(int), weights, minlength=9) / weights.sum()
    np.testing.assert_allclose(drawn, expected, atol=5 * 0.5 / np.sqrt(60_000))
    assert drawn[expected == 0].sum() == 0


def test_stretches_hold_all_rows_equal_to_the_drawn_one():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (80, 3)).astype(float)
    low, high, order = conditional_stretches(rng.random((80, 3)), X, Partition.whole(80))
    for i in range(80):
        members = order[low[i] : high[i]]
        np.testing.assert_array_equal(np.sort(members), np.flatnonzero((X[members[0]] == X).all(axis=1)))


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_tables(n):
    assert set(conditional_inverse(np.full((n, 1), 0.3), np.zeros((n, 1)), Partition.whole(n))) == {0}
