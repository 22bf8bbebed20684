"""Classes counted piece by piece: what pandas counts in the whole table."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np
import pandas as pd
import pytest

from gpuanon.tables import class_counts
from gpuanon.tables.table import Table

ROWS = 3000


@cache
def whole() -> pd.DataFrame:
    rng = np.random.default_rng(4)
    frame = pd.DataFrame({"a": rng.integers(0, 40, ROWS), "b": rng.integers(0, 40, ROWS), "c": rng.normal(size=ROWS)})
    return pd.concat([frame, frame.iloc[:500]], ignore_index=True)


def pieces() -> Iterator[Table]:
    frame = whole()
    for at in range(0, len(frame), 333):
        yield Table.of(frame.iloc[at : at + 333])


@pytest.mark.parametrize("merged", [1, 50, 1 << 19])  # classes of a range; most ranges of few bits hold none
@pytest.mark.parametrize("held", [4000, 10**9])  # several rounds, and one
def test_sizes_are_those_of_the_whole_table(monkeypatch: pytest.MonkeyPatch, merged: int, held: int) -> None:
    monkeypatch.setattr(class_counts, "_MERGED", merged)
    monkeypatch.setattr(class_counts, "_PENDING", 200)
    sets = [["a", "b"], ["a"], ["a", "b", "c"]]
    found = class_counts.sizes_by_set(pieces, len(whole()), sets, held)
    for columns, sizes in zip(sets, found, strict=True):
        assert sorted(sizes.tolist()) == sorted(whole().groupby(columns).size().tolist())


def test_ranges_are_merged_in_the_order_of_the_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(class_counts, "_MERGED", 64)
    rng = np.random.default_rng(5)
    bits = rng.integers(0, 2**64, (900, 2), dtype=np.uint64)
    bits[:300, 0] = bits[0, 0]  # classes that share their first 64 bits
    bits = np.concatenate([bits, bits[::3]])
    parts = [class_counts.ClassCounts.of(bits[at : at + 200]) for at in range(0, len(bits), 200)]
    merged = class_counts.ClassCounts.merged(parts)
    expected, sizes = np.unique(bits, axis=0, return_counts=True)
    assert np.array_equal(merged.bits, expected)
    assert np.array_equal(merged.sizes, sizes)
