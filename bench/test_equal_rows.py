"""Equivalence classes: hashes sorted, equal rows found, classes of a release counted."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from frame import Host, Record, sizes, ways

from gpuanon.arrays.sorting import argsort_words
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.class_counts import count_classes
from gpuanon.tables.table import Table


def fives(rows: int, columns: int) -> Host:
    """Normal rows, each five times, in random order: a microaggregated table."""
    rng = np.random.default_rng(1)
    return rng.standard_normal((rows // 5, columns))[rng.permutation(rows) // 5]


def with_nulls(rows: int) -> pa.Table:
    """Four numbers of few values, two whole ones, two categories; one value of twenty is null."""
    rng = np.random.default_rng(1)
    null = rng.random((8, rows)) < 0.05
    found = {f"float {j}": pa.array(rng.standard_normal(rows).round(1), mask=null[j]) for j in range(4)}
    found |= {f"whole {j}": pa.array(rng.integers(0, 50, rows), mask=null[4 + j]) for j in range(2)}
    for j in range(2):
        codes = pa.array(rng.integers(0, 20, rows).astype(np.int32), mask=null[6 + j])
        found[f"level {j}"] = pa.DictionaryArray.from_arrays(codes, [f"level {at}" for at in range(20)])
    return pa.table(found)


@sizes(100_000, 1_000_000, full=(10_000_000,))
@ways("numpy", "compiled")
def test_order_of_hashes(record: Record, rows: int, way: str) -> None:
    """64-bit hashes, each five times."""
    words = fives(rows, 1)[:, 0].view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    record(lambda: argsort_words(words), group="classes: order of hashes", rows=rows, columns=1)


@sizes(100_000, 1_000_000, full=(10_000_000,))
@ways("numpy", "compiled")
def test_equal_rows(record: Record, rows: int, way: str) -> None:
    """Classes of five rows."""
    X = fives(rows, 8)
    quality = lambda labels: {"classes": float(labels.max() + 1)}
    record(lambda: equal_rows(X), group="classes: equal rows", rows=rows, columns=8, quality=quality)


@sizes(100_000, 1_000_000, full=(10_000_000,))
@ways("numpy", "compiled")
def test_counts_of_classes(record: Record, rows: int, way: str) -> None:
    """Of a microaggregated table: what verification counts."""
    X = fives(rows, 8)
    table = Table.of(pa.table({f"x{j}": X[:, j] for j in range(8)}))
    wanted = [(tuple(table.names), False, False)]
    work = lambda: count_classes(table, wanted)[0]
    quality = lambda counts: {"smallest": float(counts.smallest)}
    record(work, group="classes: counts", rows=rows, columns=8, quality=quality)


@sizes(100_000, 1_000_000, full=(10_000_000,))
@ways("numpy", "compiled")
def test_counts_of_classes_with_nulls(record: Record, rows: int, way: str) -> None:
    """Of numbers and categories with nulls, most of them alone in their class."""
    table = Table.of(with_nulls(rows))
    wanted = [(tuple(table.names), False, False)]
    record(lambda: count_classes(table, wanted)[0], group="classes: counts, nulls", rows=rows, columns=8)
