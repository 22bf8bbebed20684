"""Inverse empirical conditional distributions, against the definition, row by row."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.arrays.partition import Partition
from gpuanon.masking.operations.dither.empirical import (
    conditional_inverse,
    conditional_ranges,
    quantile_place,
    running_weights,
)


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
    """Unweighted, u at the middle of each row's share of the conditional distributions gives the row itself."""
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


def test_ranges_hold_all_rows_equal_to_the_drawn_one():
    rng = np.random.default_rng(2)
    X = rng.integers(0, 2, (80, 3)).astype(float)
    low, high, order = conditional_ranges(rng.random((80, 3)), X, Partition.whole(80))
    for i in range(80):
        members = order[low[i] : high[i]]
        np.testing.assert_array_equal(np.sort(members), np.flatnonzero((X[members[0]] == X).all(axis=1)))


@pytest.mark.parametrize("n", [1, 2])
def test_tiny_tables(n):
    assert set(conditional_inverse(np.full((n, 1), 0.3), np.zeros((n, 1)), Partition.whole(n))) == {0}


def shares(weights, parts):
    """What `running_weights` makes of the share of each row in its part."""
    units = np.diff(running_weights(weights, parts))
    return units / np.add.reduceat(units, parts.starts[:-1])[parts.part_of_sorted()]


def test_short_weights_keep_their_exact_shares():
    """The border between two values depends on the exact weights, not on their rounding."""
    rng = np.random.default_rng(1)
    parts = Partition.from_labels(np.sort(np.arange(400) % 7))
    weights = rng.integers(0, 1000, 400) / 8
    running = running_weights(weights, parts)
    assert running.dtype == np.int64
    for start, stop in zip(parts.starts[:-1], parts.starts[1:], strict=True):
        total = Fraction(weights[start:stop].sum())
        for at in range(start, stop):
            share = Fraction(int(running[at + 1] - running[at]), int(running[stop] - running[start]))
            assert share == Fraction(weights[at]) / total


@pytest.mark.parametrize("scale", [1e-300, 1e-5, 1.0, 1e300])
@pytest.mark.parametrize("rows", [3, 1000])
def test_the_unit_of_weights_follows_their_size(scale, rows):
    weights = np.random.default_rng(2).lognormal(sigma=3, size=rows) * scale
    parts = Partition.from_labels(np.sort(np.arange(rows) % 3))
    totals = np.add.reduceat(weights, parts.starts[:-1])[parts.part_of_sorted()]
    # Half a unit: 2^-52 of the largest weight times the rows of the part, twice at most.
    np.testing.assert_allclose(shares(weights, parts), weights / totals, rtol=0, atol=rows * 2.0**-51)


def test_weights_above_0_stay_above_0_and_parts_without_weight_count_as_unweighted():
    parts = Partition.from_labels(np.repeat([0, 1, 2], 4))
    weights = np.array([1.0, 1e-200, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 5e-324, 0.0, 1e308, 1e308])
    units = np.diff(running_weights(weights, parts))
    np.testing.assert_array_equal(units > 0, (weights > 0) | (np.arange(12) // 4 == 1))
    assert len(set(units[4:8])) == 1


def test_the_running_sum_fits_64_bits_however_many_parts_there_are():
    parts = Partition(np.arange(200_000), np.arange(0, 200_001, 2))
    running = running_weights(np.random.default_rng(3).random(200_000), parts)
    assert (np.diff(running) > 0).all()
    assert running[-1] < 2**62


def test_rows_of_weight_0_are_never_drawn():
    weights = np.array([0.0, 0.3, 0.0, 0.7, 0.0])
    running = running_weights(weights, Partition.whole(5))
    u = np.linspace(1e-300, 1, 1001)
    low, high = np.zeros(1001, int), np.full(1001, 5)
    np.testing.assert_array_equal(quantile_place(u, low, high, running), np.where(u <= 0.3, 1, 3))
