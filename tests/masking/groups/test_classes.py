"""Equivalence classes as groups."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.errors import ParameterError
from gpuanon.masking.bases.linear import Codes
from gpuanon.masking.groups.plain_groups import EqualRows, classes

KEY = Key(b"a key for the tests of classes")


@given(hnp.arrays(np.int64, st.tuples(st.integers(1, 40), st.integers(1, 3)), elements=st.integers(-1, 2)))
@example(np.array([[5]]))
@example(np.full((6, 2), -1))
@example(np.array([[0, 2**40], [-1, 7], [0, 2**40], [-1, 7]]))
def test_equal_rows_share_a_group_and_others_do_not(codes):
    found = classes(codes)
    expected = pd.DataFrame(codes).groupby(list(range(codes.shape[1]))).ngroup().to_numpy()
    labels = found.labels()
    assert ((labels[:, None] == labels[None]) == (expected[:, None] == expected[None])).all()
    assert (np.sort(found.order) == np.arange(len(codes))).all()


def test_no_rows_have_no_groups():
    assert classes(np.empty((0, 2), np.int64)).parts == 0


def test_the_model_declares_what_the_engine_asks():
    groups = EqualRows()
    assert (groups.sees, groups.placement, groups.least, groups.per_column) == ("classes", "class", None, False)
    assert groups.form(np.array([[1], [0], [1]]), KEY.draws(np.arange(3))).parts == 2


def test_codes_have_no_coordinates():
    basis = Codes()
    assert (basis.sees, basis.plain, basis.use) == ("classes", True, "codes")
    with pytest.raises(ParameterError, match="codes have no coordinates"):
        basis.forward(np.zeros((2, 1)), Partition.whole(2))
