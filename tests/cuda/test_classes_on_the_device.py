"""Classes, what is done to them, and copulas on the stand-in for CuPy: as on NumPy, and rows are never copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.bases.normal_scores import NormalScores
from gpuanon.masking.contract import Operation
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.groups.plain_groups import classes
from gpuanon.masking.operations.centroid import GroupInterval
from gpuanon.masking.operations.pad import Pad
from gpuanon.masking.operations.recode import Recode
from gpuanon.masking.operations.sample import Sample
from gpuanon.masking.operations.suppress import Suppress
from gpuanon.numerics.compatible import compatible_counts, covering_counts
from tests.cuda.fixtures import host
from tests.cuda.support.fake_cupy import fake_cupy

KEY = Key(b"a key for classes on the device")
ROWS, VALUES = 300, 6
CODES = np.random.default_rng(7).integers(-1, VALUES, (ROWS, 3))
ANCESTORS = np.stack([np.arange(VALUES), np.arange(VALUES) // 2, np.zeros(VALUES, np.int64)], axis=1)


def records_of(xp: Any, wildcard: bool) -> Records:
    ancestors = tuple(xp.asarray(ANCESTORS) for _ in range(3))
    info = ClassInfo(("a", "b", "c"), (True, False, True), ancestors, wildcard)
    return Records(KEY.draws(xp.arange(ROWS)), classes=info)


def released(outcome: Any) -> list[Any]:
    """All arrays of an outcome."""
    rows = [] if outcome.rows is None else [outcome.rows, outcome.source]
    columns = getattr(outcome, "columns", ())
    return [*rows, *(c.codes for c in columns), *(c.members for c in columns if c.members is not None)]


@pytest.mark.parametrize("wildcard", [False, True])
@pytest.mark.parametrize("operation", [Suppress(k=3), Pad(k=4), GroupInterval(), Recode(levels={"a": 2, "b": 1})])
def test_operations_on_classes_are_those_of_the_host(operation: Operation, wildcard: bool) -> None:
    groups = Partition.from_labels(np.arange(ROWS) % 40)
    expected = operation.apply(CODES, groups, records_of(np, wildcard))
    with fake_cupy() as cp:
        codes, records = cp.asarray(CODES), records_of(cp, wildcard)
        on_device = Partition(cp.asarray(groups.order), cp.asarray(groups.starts))
        uploads = len(cp.transfers.uploads)
        found = operation.apply(codes, on_device, records)
        assert len(cp.transfers.uploads) == uploads
        # The manifest says how many rows each pattern receives: one download.
        assert len(cp.transfers.downloads) == isinstance(operation, Pad)
        assert all(isinstance(array, cp.ndarray) for array in released(found))
        for array, wanted in zip(released(found), released(expected), strict=True):
            np.testing.assert_array_equal(host(array), wanted)
    assert (found.added, found.facts) == (expected.added, expected.facts)


def test_classes_are_those_of_the_host() -> None:
    expected = classes(CODES)
    with fake_cupy() as cp:
        found = classes(cp.asarray(CODES))
        np.testing.assert_array_equal(host(found.order), expected.order)
        np.testing.assert_array_equal(host(found.starts), expected.starts)


@pytest.mark.parametrize("function", [compatible_counts, covering_counts])
def test_counts_are_those_of_the_host(function: Any) -> None:
    patterns, counts = np.unique(CODES, axis=0, return_counts=True)
    expected = function(patterns, counts)
    with fake_cupy() as cp:
        np.testing.assert_array_equal(host(function(cp.asarray(patterns), cp.asarray(counts))), expected)


def test_rows_of_a_copula_are_those_of_the_host() -> None:
    rng = np.random.default_rng(3)
    X = np.hstack([rng.normal(size=(ROWS, 2)), np.eye(4)[rng.integers(0, 4, ROWS)], np.ones((ROWS, 1))])
    expected = _sampled(np, X)
    with fake_cupy() as cp:
        found = _sampled(cp, cp.asarray(X))
        assert isinstance(found, cp.ndarray)
        # Products are summed in another order on a device.
        np.testing.assert_allclose(host(found), expected, atol=1e-9)


def _sampled(xp: Any, X: Any) -> Any:
    whole, draws = Partition.whole(ROWS, like=X), KEY.draws(xp.arange(ROWS))
    T, back = NormalScores().forward(X, whole)
    learned = Sample().learn(T, whole, Records(draws))
    outcome = Sample().apply(T, whole, Records(draws, learned=learned))
    assert outcome.added == ROWS
    return back(outcome.values)
