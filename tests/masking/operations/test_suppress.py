"""Suppression of small classes, against its definition."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import gpuanon
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import GuaranteeError
from gpuanon.masking.claims import Evidence
from gpuanon.masking.claims.class_claims import EqualRecords, FewDropped
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.suppress import Suppress, suppress, suppress_incompatible
from gpuanon.masking.outcomes import Moved
from tests.support.every import recipe, registry

KEY = Key(b"a key for the tests of suppression")
tables = hnp.arrays(np.int64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.integers(-1, 2))


def records_of(codes, wildcard=False):
    columns = codes.shape[1]
    ancestors = tuple(np.arange(codes[:, j].max() + 1)[:, None] for j in range(columns))
    names = tuple(f"c{j}" for j in range(columns))
    return Records(KEY.draws(np.arange(len(codes))), classes=ClassInfo(names, (True,) * columns, ancestors, wildcard))


def dropped_one_at_a_time(codes, k):
    """Rows that are left when single rows with fewer than k compatible rows are dropped, one after another."""
    left = list(range(len(codes)))
    while True:
        rows = codes[left]
        equal = (rows[:, None] == rows[None]) | (rows[:, None] < 0) | (rows[None] < 0)
        poor = np.flatnonzero(equal.all(axis=2).sum(axis=1) < k)
        if len(poor) == 0:
            return left
        del left[poor[-1]]


@given(tables, st.integers(2, 5))
@example(np.array([[3]]), 2)
@example(np.zeros((4, 2), np.int64), 4)
@example(np.full((2, 1), -1), 3)
def test_rows_of_small_classes_are_dropped(codes, k):
    columns = list(range(codes.shape[1]))
    sizes = pd.DataFrame(codes).groupby(columns)[0].transform("size").to_numpy()
    outcome = Suppress(k=k).apply(codes, Partition.whole(len(codes)), records_of(codes))
    assert isinstance(outcome, Moved)
    np.testing.assert_array_equal(outcome.source, np.flatnonzero(sizes >= k))
    np.testing.assert_array_equal(outcome.rows, outcome.source)
    assert outcome.facts == {"rows_suppressed": int((sizes < k).sum())}
    assert outcome.added == 0


@given(tables, st.integers(2, 5))
@example(np.array([[3]]), 2)
@example(np.full((3, 2), -1), 3)
@example(np.array([[0, -1], [-1, 0], [0, 1], [1, 0], [2, 2]]), 3)
def test_with_wildcards_rows_are_dropped_until_all_have_k_compatible_ones(codes, k):
    outcome = Suppress(k=k).apply(codes, Partition.whole(len(codes)), records_of(codes, wildcard=True))
    np.testing.assert_array_equal(outcome.source, dropped_one_at_a_time(codes, k))
    assert outcome.facts == {"rows_suppressed": len(codes) - len(outcome.source)}


def test_dropped_rows_take_others_with_them():
    """Each row of the chain is compatible with its neighbours only; the ends go first."""
    codes = np.array([[0, -1, -1], [0, 1, -1], [-1, 1, 2], [3, 1, 2], [3, -1, 5]])
    assert len(suppress_incompatible(codes, 3)) < len(codes)
    np.testing.assert_array_equal(suppress_incompatible(codes, 3), dropped_one_at_a_time(codes, 3))


def test_equal_rows_of_different_groups_do_not_count_together():
    codes = np.zeros((5, 1), np.int64)
    groups = Partition.from_labels(np.array([0, 0, 0, 1, 1]))
    np.testing.assert_array_equal(suppress(codes, groups, 3), [0, 1, 2])


def test_no_rows_stay_no_rows():
    empty = np.empty((0, 2), np.int64)
    assert len(suppress(empty, Partition.whole(0), 2)) == 0
    assert len(suppress_incompatible(empty, 2)) == 0


def test_the_claim_speaks_of_the_own_k():
    operation = Suppress(k=4)
    assert (operation.sees, operation.rows, operation.learns) == ("classes", "dropped", False)
    assert operation.claims(None, [("age", "sex")]) == (EqualRecords(4, (("age", "sex"),)),)
    assert operation.reading("numeric") == "same"
    with pytest.raises(ValueError, match="greater than or equal to 2"):
        Suppress(k=1)


def test_a_limit_on_rows_is_kept_over_all_cells():
    mask = {"method": "suppress", "k": 3, "columns": ["sex", "education", "region"]}
    free = gpuanon.protect(registry(), recipe(mask), rng=b"a key for limits of suppression", backend="numpy")
    share = free.manifest["rows_dropped"] / 300
    assert 0 < share < 1
    kept = gpuanon.protect(registry(), recipe(mask | {"limit": share}), rng=b"a key for limits of suppression")
    assert kept.manifest["guarantee"][1]["share_left_out"] == pytest.approx(share)
    with pytest.raises(GuaranteeError, match="more than limit"):
        gpuanon.protect(registry(), recipe(mask | {"limit": share / 2}), rng=b"a key for limits of suppression")
    later = {"method": "microaggregation", "k": 2, "columns": ["sex", "education", "region"]}
    masked = gpuanon.protect(registry(), recipe(mask | {"limit": share}, later), rng=b"a key for limits of suppression")
    assert masked.manifest["guarantee"][0]["share_left_out"] == pytest.approx(share)
    with pytest.raises(GuaranteeError, match="more than limit"):  # whatever becomes of the columns afterwards
        gpuanon.protect(registry(), recipe(mask | {"limit": share / 2}, later), rng=b"a key for limits of suppression")
    claim = FewDropped(3, (("a",),), most=0.2)
    cells = Evidence({"groups": 1, "rows_before": 10, "rows_after": 9}).merge(
        Evidence({"groups": 1, "rows_before": 10, "rows_after": 7})
    )
    assert claim.conclude(cells, {}).verified is True
