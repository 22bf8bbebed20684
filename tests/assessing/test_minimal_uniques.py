"""Minimal sample uniques against brute force from the definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gpuanon.assessing.risk.suda2 import minimal_uniques


def naive(codes, size):
    """A set is minimal unique for a row that is alone on it, has no null in it, and is alone on no proper subset."""
    n, p = codes.shape
    found = {}
    for row in range(n):
        unique = []
        for s in range(1, min(size, p) + 1):
            for chosen in combinations(range(p), s):
                own = codes[row, list(chosen)]
                if (own < 0).any() or any(set(subset) <= set(chosen) for subset in unique):
                    continue
                if (codes[:, list(chosen)] == own).all(axis=1).sum() == 1:
                    unique.append(chosen)
                    found.setdefault(chosen, []).append(row)
    return found


def computed(codes, size):
    return {chosen: rows.tolist() for chosen, rows in minimal_uniques(codes, size)}


tables = st.tuples(st.integers(1, 12), st.integers(1, 5)).flatmap(
    lambda shape: arrays(np.int64, shape, elements=st.integers(-1, 3))
)


@given(tables, st.integers(1, 5))
@example(np.array([[0, 0], [0, 1], [1, 1]]), 2)
@example(np.array([[-1, 0], [0, 0], [0, 0]]), 2)
@example(np.array([[7]]), 3)
def test_every_minimal_unique_is_found_and_nothing_else(codes, size):
    assert computed(codes, size) == naive(codes, size)


@pytest.mark.parametrize("width", [1, 2**40])  # by counting, and by sorting
def test_codes_of_any_range_give_the_same_sets(width):
    codes = np.random.default_rng(4).integers(0, 6, (60, 5))
    assert computed(codes * width, 3) == naive(codes, 3)


def test_products_beyond_64_bits_are_counted_right():
    rng = np.random.default_rng(5)
    codes = np.stack([rng.permutation(3000) // 2 for _ in range(6)], axis=1)
    sets = computed(codes, 6)
    assert sets.keys() <= {*combinations(range(6), 2), *combinations(range(6), 3)}
    for chosen, rows in sets.items():
        for subset in combinations(chosen, len(chosen) - 1):
            _, at, counts = np.unique(codes[:, list(subset)], axis=0, return_inverse=True, return_counts=True)
            assert (counts[at.reshape(-1)][rows] > 1).all()
