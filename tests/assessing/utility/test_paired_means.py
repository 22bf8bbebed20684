"""Paired tests of means by sign flips."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from gpuanon.assessing.utility import paired_means as module
from gpuanon.assessing.utility.paired_means import paired_means


def exact_p(d):
    """Every sign flip of the differences of one column."""
    flips = np.array(list(product((-1, 1), repeat=len(d))))
    sums = np.abs(flips @ d)
    return float((sums >= abs(d.sum()) - 1e-9).mean())


@pytest.mark.parametrize("seed", range(4))
def test_p_is_the_share_of_all_sign_flips(seed):
    rng = np.random.default_rng(seed)
    before = rng.normal(size=(12, 1))
    after = before + rng.normal(0.4, 1, size=(12, 1))
    found = paired_means(before, after, permutations=4000)
    assert found.value == pytest.approx(exact_p((after - before)[:, 0]), abs=0.025)  # 3 standard errors of 4000 draws


def test_many_columns_are_adjusted_for():
    rng = np.random.default_rng(0)
    before = rng.normal(size=(200, 30))
    after = before + rng.normal(size=(200, 30))
    found = paired_means(before, after)
    alone = [paired_means(before[:, [j]], after[:, [j]]).value for j in range(30)]
    assert min(alone) < 0.05  # the smallest of thirty
    assert found.value > min(alone)


def test_the_normal_limit_agrees_with_flips_one_by_one(monkeypatch):
    rng = np.random.default_rng(1)
    before = rng.normal(size=(1500, 5)) @ rng.normal(size=(5, 5))
    after = before + rng.normal(size=(1500, 5)) + np.array([0.07, 0, 0, 0, 0])
    flipped = paired_means(before, after, permutations=4000)
    monkeypatch.setattr(module, "FLIPPED_ROWS", 100)
    limit = paired_means(before, after, permutations=4000)
    assert limit.details["flips"] != flipped.details["flips"]
    first, second = (list(found.parts[0].values.values()) for found in (flipped, limit))
    assert first == pytest.approx(second, abs=0.035)


def test_nothing_changed_is_the_best_and_a_shifted_column_is_named():
    before = np.random.default_rng(2).normal(size=(100, 3))
    assert paired_means(before, before.copy()).value == 1.0
    after = before + np.array([0.0, 0.3, 0.0])
    found = paired_means(before, after, names=["a", "b", "c"])
    assert found.worst[0] == "b"
    assert found.value == pytest.approx(1 / 1000)


def test_added_rows_are_left_out():
    before = np.random.default_rng(3).normal(size=(50, 2))
    release = np.concatenate([before, np.full((10, 2), 99.0)])
    link = np.concatenate([np.arange(50), np.full(10, -1)])
    assert paired_means(before, release, link=link).value == 1.0


@pytest.mark.parametrize("rows", [1000, 5000])
def test_records_that_stay_as_they_are_do_not_count(rows):
    """Three of many records move up by one: two of the eight flips of their signs go as far."""
    before = np.random.default_rng(0).normal(size=(rows, 1))
    after = before.copy()
    after[:3] += 1
    found = paired_means(before, after)
    assert found.value == pytest.approx(2 / 8, abs=0.05)
    assert found.details["pairs"] == rows
