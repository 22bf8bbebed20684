"""Global recoding, against a lookup value by value."""

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
from gpuanon.masking.operations.recode import Recode

KEY = Key(b"a key for the tests of recoding")
ZIP = np.array([[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0]])
SEX = np.array([[0, 0], [1, 0]])
AGE = np.arange(5)[:, None]
CLASSES = ClassInfo(("zip", "sex", "age"), (False, False, True), (ZIP, SEX, AGE))


def apply(levels, codes):
    records = Records(KEY.draws(np.arange(len(codes))), classes=CLASSES)
    return Recode(levels=levels).apply(codes, Partition.whole(len(codes)), records)


@given(
    st.lists(st.tuples(st.integers(-1, 3), st.integers(-1, 1), st.integers(-1, 4)), min_size=1, max_size=20),
    st.integers(0, 2),
    st.integers(0, 1),
)
@example([(-1, -1, -1)], 2, 1)
def test_every_value_goes_to_its_ancestor_and_nulls_stay(rows, zip_depth, sex_depth):
    outcome = apply({"zip": zip_depth, "sex": sex_depth}, np.array(rows))
    assert outcome.rows is None
    assert [(c.column, c.depth, c.members) for c in outcome.columns] == [
        (0, zip_depth, None),
        (1, sex_depth, None),
        (2, 0, None),
    ]
    for row, values in enumerate(rows):
        for column, table, depth in zip(outcome.columns, (ZIP, SEX, AGE), (zip_depth, sex_depth, 0), strict=True):
            value = values[column.column]
            assert column.codes[row] == (-1 if value < 0 else table[value, depth])


def test_one_depth_may_hold_for_all_columns():
    codes = np.array([[3, 1, 4], [-1, 0, 0]])
    for column, expected in zip(apply(0, codes).columns, codes.T, strict=True):
        np.testing.assert_array_equal(column.codes, expected)


def test_depths_that_are_not_there_are_all_named():
    with pytest.raises(ParameterError) as error:
        apply({"zip": 3, "age": 1, "town": 0}, np.zeros((1, 3), np.int64))
    assert str(error.value).splitlines() == [
        "levels: column 'town' is not among the columns of the mask",
        "levels: column 'zip': its hierarchy has depths 0 to 2, got 3",
        "levels: column 'age': it has no hierarchy, only depth 0, got 1",
    ]


def test_a_column_of_nulls_stays_null():
    classes = ClassInfo(("a",), (False,), (np.empty((0, 3), np.int64),))
    records = Records(KEY.draws(np.arange(2)), classes=classes)
    outcome = Recode(levels=2).apply(np.full((2, 1), -1), Partition.whole(2), records)
    np.testing.assert_array_equal(outcome.columns[0].codes, [-1, -1])


def test_what_the_engine_asks():
    operation = Recode(levels={"zip": 1})
    assert (operation.sees, operation.rows) == ("classes", "kept")
    assert operation.claims(5, [("zip",)]) == ()
    assert Recode(levels=1, k=3).claims(None, [("zip",)]) == (EqualRecords(3, (("zip",),)),)
    assert {operation.reading(kind) for kind in ("numeric", "date", "ordinal", "categorical")} == {"level"}
    assert Recode.model_validate_json(operation.model_dump_json()) == operation
    for wrong in (-1, {"zip": -1}):
        with pytest.raises(ValueError, match="greater than or equal to 0"):
            Recode(levels=wrong)
    with pytest.raises(ParameterError, match="seen as classes"):
        operation.apply(np.zeros((2, 1), np.int64), Partition.whole(2), Records(KEY.draws(np.arange(2))))
