"""The order of words, the comparison of rows and the counts of classes are the same when they are compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gpuanon.arrays import compiled, sorting
from gpuanon.arrays.sorting import argsort_words
from gpuanon.numerics import equal_rows as module
from gpuanon.numerics.equal_rows import equal_rows, equal_rows_adjacent
from gpuanon.tables.class_counts import count_classes
from gpuanon.tables.table import Table

pytestmark = pytest.mark.skipif(not compiled.use_compiled(10**9), reason="numba is not installed or is turned off")


@pytest.fixture
def both(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], tuple[Any, Any]]:
    """The results of a function by NumPy and by compiled functions, of which one must be reached."""
    monkeypatch.setattr(compiled, "LEAST_WORK", 0)
    for place in (sorting, module):
        monkeypatch.setattr(place, "LEAST_COMPILED", 0)

    def run(work: Callable[[], Any]) -> tuple[Any, Any]:
        monkeypatch.setenv("GPUANON_COMPILED", "0")
        plain = work()
        monkeypatch.setenv("GPUANON_COMPILED", "1")
        reached: list[int] = []
        monkeypatch.setattr(compiled, "_works", lambda: bool(reached.append(1)) or True)
        found = work()
        assert reached, "no compiled function was asked for"
        return plain, found

    return run


WORDS: dict[str, Callable[[np.random.Generator, int], Any]] = {
    "random": lambda rng, n: rng.integers(0, 2**64, n, dtype=np.uint64),
    "five of each": lambda rng, n: rng.permutation(np.repeat(rng.integers(0, 2**64, n, dtype=np.uint64), 5)),
    "few": lambda rng, n: rng.integers(0, 2**64, 9, dtype=np.uint64)[rng.integers(0, 9, n)],
    "equal upper bits": lambda rng, n: rng.integers(0, 2**64, n, dtype=np.uint64) & np.uint64(0xFFF0000000000007),
    "small": lambda rng, n: rng.integers(0, 50, n, dtype=np.uint64),
    "the largest and 0": lambda rng, n: np.where(rng.random(n) < 0.5, np.uint64(2**64 - 1), np.uint64(0)),
}


@pytest.mark.parametrize("kind", WORDS)
def test_the_order_of_words(kind: str, both: Any) -> None:
    rng = np.random.default_rng(len(kind))
    for n in (0, 1, 2, 3, 100, 255, 256, 257, 5_000, 70_000):
        words = WORDS[kind](rng, n)
        for found in both(lambda: argsort_words(words)):  # noqa: B023
            np.testing.assert_array_equal(found, np.argsort(words, kind="stable"), err_msg=str(n))
            assert found.dtype == np.int64


def test_words_that_share_too_many_bits_are_left_to_numpy() -> None:
    rng = np.random.default_rng(1)
    words = rng.permutation(np.arange(20_000, dtype=np.uint64))
    assert sorting._argsort_compiled(words) is None
    assert sorting._argsort_compiled(rng.permutation(np.repeat(words[:2], 10_000) << np.uint64(50))) is not None


def rows(seed: int) -> tuple[Any, Any]:
    """Continuous, whole, repeated rows and rows with zeros of both signs, infinities and NaN in turn; and labels."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.integers(1, 900)), int(rng.integers(1, 9))
    X: Any = rng.standard_normal((n, d))
    if seed % 5 == 1:
        X = rng.integers(-(2**62), 2**62, (n, d))[rng.integers(0, n, n)]
    if seed % 5 == 2:
        X = X[rng.integers(0, max(1, n // 4), n)]
    if seed % 5 == 3:
        quiet, other, signalling = np.array([0x7FF8 << 48, 0x7FF8000000000001, 0x7FF0000000000001], np.uint64).view(
            float
        )
        X = rng.choice(np.array([0.0, -0.0, 1.0, np.inf, -np.inf, quiet, -quiet, other, signalling]), (n, d))
    if seed % 5 == 4:
        X = np.asfortranarray(rng.integers(0, 3, (n, d)).astype(np.float32 if seed % 2 else np.float64))
    return X, rng.integers(0, 4, n) if seed % 3 == 0 else None


@pytest.mark.parametrize("first", range(0, 300, 60))
def test_classes_of_rows(first: int, both: Any) -> None:
    """300 tables."""
    for seed in range(first, first + 60):
        X, within = rows(seed)
        with np.errstate(invalid="ignore"):  # sums of signalling NaN
            plain, found = both(lambda: (*equal_rows_adjacent(X, within), equal_rows(X, within)))  # noqa: B023
        for mine, twin in zip(found, plain, strict=True):
            np.testing.assert_array_equal(mine, twin, err_msg=f"seed {seed}")


def test_collisions_of_hashes_are_found(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that differ in their last column only, all with the same hash."""
    monkeypatch.setattr(module, "_hashes", lambda X: np.zeros(len(X), np.uint64))
    reached: list[bool] = []
    original = module._any_differs_compiled
    monkeypatch.setattr(module, "_any_differs_compiled", lambda *given: reached.append(original(*given)) or reached[-1])
    X = np.zeros((500, 3))
    X[:, 2] = np.random.default_rng(1).integers(0, 40, 500)
    plain, found = both(lambda: equal_rows(X))
    np.testing.assert_array_equal(found, plain)
    np.testing.assert_array_equal(np.bincount(found), np.unique(X[:, 2], return_counts=True)[1])
    assert reached == [True]


@pytest.mark.parametrize("seed", range(20))
def test_counts_of_classes_with_nulls_and_categories(seed: int, both: Any) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 3000))
    null = rng.random((4, n)) < (0.0, 0.05, 0.5)[seed % 3]
    levels = pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 6, n), mask=null[2]), list("abcdef"))
    data = pa.table(
        {
            "float": pa.array(rng.integers(-2, 3, n) / 4 * rng.choice([-1.0, 1.0], n), mask=null[0]),
            "whole": pa.array(rng.integers(0, 5, n), mask=null[1]),
            "level": levels,
            "text": pa.array(rng.choice(["x", "y", ""], n), mask=null[3]),
        }
    )
    wanted = [(tuple(data.column_names), False, False), (("float", "level"), False, False)]
    plain, found = both(lambda: count_classes(Table.of(data), wanted))
    for mine, twin in zip(found, plain, strict=True):
        np.testing.assert_array_equal(mine.bits, twin.bits)
        np.testing.assert_array_equal(mine.sizes, twin.sizes)
    assert found[0].sizes.sum() == n
    counted = data.group_by(data.column_names).aggregate([([], "count_all")])["count_all"].to_numpy()
    np.testing.assert_array_equal(np.sort(found[0].sizes), np.sort(counted))
