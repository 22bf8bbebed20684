"""Added rows told from records: the extremes, and the traces that an attacker may use."""

from __future__ import annotations

import numpy as np
import pytest

import gpuanon
from gpuanon.assessing.risk.synthetic_rows_auc import synthetic_rows_auc
from gpuanon.errors import GuaranteeError
from tests.support.every import COLUMNS, registry


def classes(count=600, size=5, seed=1):
    """Classes of one record and four added rows each; a column that depends on the class."""
    rng = np.random.default_rng(seed)
    known = np.repeat(np.arange(count), size)[:, None].astype(np.int64)
    mean = rng.normal(size=count)[known[:, 0]]
    added = np.arange(count * size) % size > 0
    return rng, known, mean, added


def test_rows_from_the_same_distribution_cannot_be_told():
    rng, known, mean, added = classes(2000)
    found = synthetic_rows_auc(known, np.round(mean + rng.normal(size=len(mean)), 1)[:, None], added, names=["x"])
    assert abs(found.value - 0.5) < 0.04  # three times the deviation over which row of a class is called the record
    assert found.interval.low < found.value < found.interval.high
    assert found.details["classes"] == 2000


def test_what_all_rows_of_a_class_share_says_nothing():
    """Classes differ in size, so that unbalanced records and added rows would differ in the class itself."""
    rng = np.random.default_rng(1)
    sizes = rng.integers(2, 9, 2000)
    known = np.repeat(np.arange(2000), sizes)[:, None]
    first = np.concatenate([[True], known[1:, 0] != known[:-1, 0]])
    shown = sizes[known[:, 0]].astype(float)[:, None]
    found = synthetic_rows_auc(
        known, rng.integers(0, 4, (len(known), 1)).astype(float), ~first, names=["x"], quasi=shown
    )
    assert abs(found.value - 0.5) < 0.04


def test_rows_that_ignore_their_class_are_told():
    rng, known, mean, added = classes()
    x = np.where(added, rng.permutation(mean), mean)
    found = synthetic_rows_auc(known, x[:, None], added, names=["x"], quasi=mean[:, None])
    assert found.value > 0.75


def test_copies_of_rare_values_are_told_although_the_values_are_right():
    """Records of large classes give their values to made rows, each of which then has a twin; padded records do not."""
    rng, known, _, added = classes()
    known = np.concatenate([known, np.full((3000, 1), 1000)])
    added = np.concatenate([added, np.zeros(3000, bool)])
    x = rng.normal(size=6000)
    x[added] = x[3000:][rng.integers(0, 3000, added.sum())]
    assert synthetic_rows_auc(known, x[:, None], added, names=["x"]).value > 0.95


def test_classes_of_one_value_are_counted():
    rng, known, _, added = classes(count=100)
    x = np.stack([known[:, 0] * 1.0, rng.random(500)], axis=1)
    found = synthetic_rows_auc(known, x, added, names=["same", "other"])
    assert found.details["one_value_share"] == {"same": 1.0, "other": 0.0}
    assert found.details["smallest_diversity"] == {"same": 1, "other": 5}


def test_without_added_rows_there_is_nothing_to_tell():
    found = synthetic_rows_auc(np.arange(4)[:, None], np.zeros((4, 1)), np.zeros(4, bool), names=["x"])
    assert found.value == 0.5
    assert "nothing to tell" in found.note


@pytest.mark.parametrize(("fill", "kept"), [("tree", True), ("joint-mean", False)])
def test_it_can_be_a_limit(fill, kept):
    """Means of a class, which no record has, are told at once; draws of a tree are not."""
    names = ["sex", "education", "smoker", "age"]
    columns = {name: COLUMNS[name] for name in names} | {"cost": {"role": "sensitive"}, "visits": {"role": "sensitive"}}
    rules = {
        "columns": columns,
        "others": "drop",
        "nulls": "category",
        "mask": [{"method": "synthetic-rows", "k": 5, "fill": fill}],
        "limits": {"synthetic_rows_auc": 0.6},
    }
    if kept:
        found = gpuanon.protect(registry(3000), rules, rng=7).manifest["measured"]["synthetic_rows_auc"]
        assert found < 0.6
    else:
        with pytest.raises(GuaranteeError, match=r"synthetic_rows_auc: at most 0\.6"):
            gpuanon.protect(registry(3000), rules, rng=7)
