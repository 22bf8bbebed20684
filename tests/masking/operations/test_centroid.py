"""The centroid operation, against loops over the groups."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.masking.given import Records
from gpuanon.masking.operations.centroid import Centroid


def records(n: int, categorical=None) -> Records:
    return Records(Key(b"sixteen bytes or more").draws(np.arange(n)), None, categorical)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.integers(1, 4))
@example([0], 1)
@example([3, 3, 0, 0, 3], 2)
@pytest.mark.parametrize(("centre", "naive"), [("mean", np.mean), ("median", np.median)])
def test_every_record_receives_the_centre_of_its_group(centre, naive, labels, d):
    labels = np.array(labels)
    X = np.random.default_rng(len(labels)).normal(size=(len(labels), d))
    values = Centroid(centre=centre).apply(X, Partition.from_labels(labels), records(len(X))).values
    for label in np.unique(labels):
        members = labels == label
        np.testing.assert_allclose(values[members], np.tile(naive(X[members], axis=0), (members.sum(), 1)), atol=1e-14)
        assert (values[members] == values[members][0]).all()  # to the bit


def test_the_median_leaves_categories_their_shares():
    X = np.array([[1.0, 1.0], [2.0, -1.0], [9.0, -1.0]])
    values = Centroid(centre="median").apply(X, Partition.whole(3), records(3, (False, True))).values
    np.testing.assert_allclose(values[0], [2.0, -1 / 3])
