"""Random tables and recipes: never a traceback, never a headline that the file does not keep, no trace in the bytes."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.fuzz import run_case

CASES, CHUNK = 2000, 50


@pytest.mark.parametrize(
    "first",
    [first if first < 500 else pytest.param(first, marks=pytest.mark.slow) for first in range(0, CASES, CHUNK)],
)
def test_random_tables_and_recipes(tmp_path, first):
    found = Counter()
    for seed in range(first, first + CHUNK):
        folder = tmp_path / str(seed)
        folder.mkdir()
        found[run_case(seed, folder)] += 1
    assert found["released"] >= CHUNK // 10  # the cases are worth their time: odd types are refused by some formats
