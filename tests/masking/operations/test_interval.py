"""Ranges and sets of the values of a group, against their definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.centroid import GroupInterval
from gpuanon.masking.outcomes import Recoded

KEY = Key(b"a key for the tests of intervals")
VALUES = 4

rows = st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 3), st.integers(0, 4)), min_size=1, max_size=30)


def apply(codes, groups, ordered):
    ancestors = tuple(np.arange(VALUES)[:, None] for _ in ordered)
    classes = ClassInfo(tuple(f"c{j}" for j in range(len(ordered))), ordered, ancestors)
    return GroupInterval().apply(codes, groups, Records(KEY.draws(np.arange(len(codes))), classes=classes))


@given(rows)
@example([(-1, -1, 0)])
@example([(-1, 2, 0), (3, -1, 0), (1, 2, 0), (-1, -1, 1)])
@example([(2, 2, 0)] * 5)
def test_ranges_and_sets_are_those_of_the_group(table):
    table = np.array(table)
    codes, labels = table[:, :2], table[:, 2]
    outcome = apply(codes, Partition.from_labels(labels), (True, False))
    assert isinstance(outcome, Recoded)
    assert outcome.rows is None
    low, high, category = outcome.columns
    assert [column.column for column in outcome.columns] == [0, 0, 1]
    assert category.members.shape[1] == VALUES + 1
    for row, label in enumerate(labels):
        group = codes[labels == label]
        present = group[group[:, 0] >= 0, 0]
        expected = (present.min(), present.max()) if len(present) else (-1, -1)
        assert (low.codes[row], high.codes[row]) == expected
        members = set(np.flatnonzero(category.members[category.codes[row]]))
        assert members == {VALUES if code < 0 else code for code in group[:, 1]}


def test_the_rows_of_a_group_are_equal_whether_or_not_their_value_is_missing():
    codes = np.array([[-1], [2], [0], [-1], [-1]])
    low, high = apply(codes, Partition.from_labels(np.array([0, 0, 0, 1, 1])), (True,)).columns
    np.testing.assert_array_equal(low.codes, [0, 0, 0, -1, -1])
    np.testing.assert_array_equal(high.codes, [2, 2, 2, -1, -1])
    assert low.codes.dtype == high.codes.dtype == np.int64


def test_a_column_of_nulls_has_no_values():
    classes = ClassInfo(("a", "b"), (True, False), (np.empty((0, 1), np.int64),) * 2)
    codes = np.full((3, 2), -1)
    low, high, category = (
        GroupInterval().apply(codes, Partition.whole(3), Records(KEY.draws(np.arange(3)), classes=classes)).columns
    )
    assert (low.codes == -1).all()
    assert (high.codes == -1).all()
    np.testing.assert_array_equal(category.members, [[True]])


def test_what_the_engine_asks():
    operation = GroupInterval()
    assert (operation.sees, operation.rows) == ("classes", "kept")
    assert operation.claims(3, [("a_low", "a_high", "b")]) == (EqualRecords(3, (("a_low", "a_high", "b"),)),)
    assert operation.claims(None, [("a",)]) == ()
    assert [operation.reading(kind) for kind in ("numeric", "date", "ordinal", "categorical")] == [
        *["interval"] * 3,
        "set",
    ]


def test_points_are_refused():
    with pytest.raises(ParameterError, match="seen as classes"):
        GroupInterval().apply(np.zeros((2, 1), np.int64), Partition.whole(2), Records(KEY.draws(np.arange(2))))
