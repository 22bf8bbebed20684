"""Synthetic rows in small classes, against their definition."""

from __future__ import annotations

from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy.optimize import LinearConstraint, milp

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.claims.class_claims import EqualRecords
from gpuanon.masking.given import ClassInfo, Records
from gpuanon.masking.operations.pad import Pad, parents_of, short_classes, short_maximal_classes
from gpuanon.masking.outcomes import Moved

KEY = Key(b"a key for the tests of padding")
tables = hnp.arrays(np.int64, st.tuples(st.integers(1, 30), st.integers(1, 3)), elements=st.integers(-1, 2))


def added_beside(codes, groups, k):
    """(m,) the row beside which each added row is made."""
    return parents_of(*short_classes(codes, groups, k))


def apply(codes, k, wildcard=False):
    columns = codes.shape[1]
    classes = ClassInfo(tuple("abc"[:columns]), (True,) * columns, (np.zeros((3, 1), np.int64),) * columns, wildcard)
    return Pad(k=k).apply(
        codes, Partition.whole(len(codes)), Records(KEY.draws(np.arange(len(codes))), classes=classes)
    )


def covering(patterns, rows):
    """(p,) rows that have all values of each pattern."""
    return ((patterns[:, None] == rows[None]) | (patterns[:, None] < 0)).all(axis=2).sum(axis=1)


@given(tables, st.integers(2, 5))
@example(np.array([[3]]), 5)
@example(np.zeros((4, 2), np.int64), 4)
@example(np.full((2, 1), -1), 3)
def test_every_class_reaches_k_with_the_fewest_rows(codes, k):
    outcome = apply(codes, k)
    assert isinstance(outcome, Moved)
    columns = list(range(codes.shape[1]))
    before = pd.DataFrame(codes).groupby(columns).size()
    after = pd.DataFrame(codes[outcome.source]).groupby(columns).size()
    pd.testing.assert_series_equal(after, before.clip(lower=k))
    assert outcome.added == (k - before).clip(lower=0).sum() == outcome.facts["rows_synthetic"]
    np.testing.assert_array_equal(outcome.source[: len(codes)], np.arange(len(codes)))
    np.testing.assert_array_equal(outcome.rows, outcome.source)


def test_members_take_turns():
    codes = np.array([[0], [1], [0], [1], [1]])
    np.testing.assert_array_equal(added_beside(codes, Partition.whole(5), 5), [0, 2, 0, 1, 3])


def test_equal_rows_of_different_groups_do_not_count_together():
    np.testing.assert_array_equal(
        added_beside(np.zeros((2, 1), np.int64), Partition.from_labels(np.array([0, 1])), 2), [0, 1]
    )


@given(tables, st.integers(2, 5))
@example(np.full((2, 1), -1), 3)
@example(np.array([[0, 0, -1], [0, 0, 1]]), 5)
def test_with_wildcards_k_rows_have_all_values_of_each_row(codes, k):
    outcome = apply(codes, k, wildcard=True)
    assert (covering(codes, codes[outcome.source]) >= k).all()
    patterns, counts = np.unique(codes, axis=0, return_counts=True)
    maximal = covering(patterns, codes) == counts
    assert outcome.added == np.maximum(k - counts[maximal], 0).sum()
    assert outcome.added <= apply(codes, k).added


def test_the_worked_example_of_the_paper():
    """One record ('AC221', 'M', null) and one ('AC221', 'M', 1997): for k = 5, 4 rows with wildcards, 8 without."""
    codes = np.array([[0, 0, -1], [0, 0, 0]])
    assert apply(codes, 5, wildcard=True).added == 4
    assert apply(codes, 5).added == 8


@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 4), st.just(2)), elements=st.integers(-1, 1)), st.integers(2, 3))
@example(np.array([[0, -1], [0, 0], [0, 1]]), 3)
def test_no_smaller_number_of_rows_that_occur_will_do(codes, k):
    """All ways of adding fewer copies of rows that occur are tried."""
    patterns = np.unique(codes, axis=0)
    fewest = short_maximal_classes(codes, k)[1].sum()
    for copies in product(range(k), repeat=len(patterns)):
        if sum(copies) < fewest:
            rows = np.concatenate([codes, np.repeat(patterns, copies, axis=0)])
            assert (covering(patterns, rows) < k).any()


def test_no_rows_stay_no_rows():
    empty = np.empty((0, 2), np.int64)
    assert len(added_beside(empty, Partition.whole(0), 2)) == 0
    assert short_maximal_classes(empty, 2)[1].sum() == 0


def test_the_claim_speaks_of_the_own_k():
    operation = Pad(k=4)
    assert (operation.sees, operation.rows, operation.learns) == ("classes", "added", False)
    assert operation.claims(None, [("age", "sex")]) == (EqualRecords(4, (("age", "sex"),)),)
    with pytest.raises(ValueError, match="fill"):
        Pad(k=4, fill="mean")
    with pytest.raises(ValueError, match="another fill is needed"):
        Pad(k=4, fill="joint", calibrate={"means": ["cost"]})
    with pytest.raises(ValueError, match="a formula such as"):
        Pad(k=4, calibrate={"regressions": ["cost"]})


def test_the_minimum_is_that_of_an_integer_programme_on_300_random_tables():
    """Copies of rows that occur, as few as will do, so that k rows have all values of each pattern: by HiGHS."""
    rng = np.random.default_rng(14)
    for _ in range(300):
        codes = rng.integers(-1, 3, (rng.integers(1, 12), rng.integers(1, 4)))
        k = int(rng.integers(2, 6))
        patterns = np.unique(codes, axis=0)
        covers = ((patterns[:, None] == patterns[None]) | (patterns[:, None] < 0)).all(axis=2)
        needed = np.maximum(k - covering(patterns, codes), 0)
        found = milp(
            np.ones(len(patterns)),
            constraints=LinearConstraint(covers.astype(float), needed, np.inf),
            integrality=np.ones(len(patterns)),
        )
        assert short_maximal_classes(codes, k)[1].sum() == round(found.fun)


def test_the_certificate_counts_and_names_no_value():
    codes = np.array([[7, 7, -1], [7, 7, 9], [7, 7, 9], [8, -1, -1]])
    facts = apply(codes, 3).facts
    assert facts["padded_by"] == {"1": 1, "2": 2}
    assert facts["rows_where_null"] == {"none": 1, "c": 2, "b, c": 2}
    assert (facts["classes"], facts["classes_padded"], facts["rows_synthetic"]) == (3, 3, 5)
    assert facts["classes_below_k_as_values"] == 0
    wild = apply(codes, 3, wildcard=True).facts
    assert (wild["rows_synthetic"], wild["classes_below_k_as_values"]) == (3, 1)
