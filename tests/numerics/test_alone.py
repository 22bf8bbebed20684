"""Who is alone on few columns, against counts by pandas over every set."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest

from gpuanon.numerics import alone
from gpuanon.numerics.alone import alone_on_few


def naive(codes, persons, most):
    """By definition: every set of columns, every class."""
    frame = pd.DataFrame(codes)
    frame["who"] = np.arange(len(codes)) if persons is None else persons
    found, shares = set(), []
    for size in range(1, most + 1):
        for names in combinations(range(codes.shape[1]), size):
            people = frame.groupby(list(names))["who"].transform("nunique")
            found |= set(frame["who"][people == 1])
        shares.append(len(found) / frame["who"].nunique())
    return shares


def table(seed, rows=120, columns=6):
    rng = np.random.default_rng(seed)
    return np.stack([rng.integers(-1, rng.integers(2, 30), rows) for _ in range(columns)], axis=1)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("with_persons", [False, True])
def test_shares_are_those_of_every_set_and_class(seed, with_persons):
    codes = table(seed)
    persons = np.random.default_rng(seed + 100).integers(0, 50, len(codes)) if with_persons else None
    found = alone_on_few(codes, persons)
    np.testing.assert_allclose(found.shares, naive(codes, persons, 3))
    assert found.sampled == 0
    assert found.errors == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("with_persons", [False, True])
def test_a_sample_of_all_open_rows_gives_the_exact_shares(monkeypatch, with_persons):
    codes = table(3, rows=150, columns=7)
    persons = np.random.default_rng(5).integers(0, 60, len(codes)) if with_persons else None
    expected = naive(codes, persons, 3)
    monkeypatch.setattr(alone, "EXACT_WORK", 0)
    monkeypatch.setattr(alone, "_FIRST", 16)
    found = alone_on_few(codes, persons)
    assert found.sampled > 0
    np.testing.assert_allclose(found.shares, expected)


def test_an_estimate_is_within_its_error(monkeypatch):
    rng = np.random.default_rng(0)
    codes = np.stack([rng.integers(0, 9, 4000) for _ in range(8)], axis=1)
    expected = alone_on_few(codes).shares
    monkeypatch.setattr(alone, "EXACT_WORK", 4000 * 40)
    monkeypatch.setattr(alone, "_FULLEST", 400)
    far = []
    for seed in range(10):
        found = alone_on_few(codes, rng=np.random.default_rng(seed))
        assert found.sampled == 400
        far.append((found.shares[2] - expected[2]) / found.errors[2])
    assert np.abs(far).max() < 4
    assert abs(np.mean(far)) < 1.3


def test_the_sets_that_single_out_most_are_named():
    rng = np.random.default_rng(1)
    codes = np.stack(
        [rng.integers(0, 2, 500), np.arange(500) // 25, np.arange(500) % 25, rng.integers(0, 3, 500)], axis=1
    )
    found = alone_on_few(codes)
    assert found.leading[0] == ((1, 2), 1.0)
    assert found.shares[1] == 1.0


def test_equal_and_constant_columns_change_nothing():
    codes = table(7)
    more = np.concatenate([codes, codes[:, :2] * 3 + 1, np.zeros((len(codes), 1), dtype=int)], axis=1)
    assert alone_on_few(more).shares == alone_on_few(codes).shares


@pytest.mark.parametrize("shape", [(0, 3), (1, 0), (1, 2), (4, 1)])
def test_small_tables(shape):
    found = alone_on_few(np.zeros(shape, dtype=np.int64))
    assert found.share == (1.0 if shape == (1, 2) else 0.0)
