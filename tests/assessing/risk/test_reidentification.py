"""Reidentification: against an attack played out by brute force, closed forms, and the definition."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Key
from gpuanon.assessing.risk.reidentification import (
    hit_probabilities,
    reidentification,
    reidentification_by_class,
)
from gpuanon.errors import ParameterError
from gpuanon.masking.operations.centroid import centroid
from gpuanon.masking.operations.dither.permute import permute, resample
from gpuanon.numerics import equal_rows as equal_rows_module
from gpuanon.numerics.equal_rows import equal_rows
from tests.support.attacks import class_means, permuted_probabilities

KEY = Key(b"a key for the tests of reidentification")


def brute_force(X, Y, link):
    """Exact in integers: all distances, all ties."""
    hits = []
    for i, x in enumerate(X.tolist()):
        squared = [sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) for y in Y.tolist()]
        ties = [r for r, s in enumerate(squared) if s == min(squared)]
        hits.append(float(Fraction(sum(link[r] == i for r in ties), len(ties))))
    return np.array(hits)


@given(
    st.integers(1, 25).flatmap(
        lambda n: st.tuples(
            hnp.arrays(np.int64, (n, 2), elements=st.integers(-3, 3)),
            hnp.arrays(np.int64, (n, 2), elements=st.integers(-3, 3)),
            hnp.arrays(np.int64, n, elements=st.integers(-1, n - 1)),
        )
    )
)
@example((np.zeros((3, 2), dtype=int), np.zeros((3, 2), dtype=int), np.arange(3)))
@example((np.array([[0, 0]]), np.array([[1, 0]]), np.array([0])))
@example((np.array([[0, 0], [2, 0]]), np.array([[1, 0], [1, 0]]), np.array([1, -1])))
def test_equals_brute_force(tables):
    X, Y, link = tables
    expected = brute_force(X, Y, link)
    np.testing.assert_allclose(hit_probabilities(X.astype(float), Y.astype(float), link), expected, atol=1e-14)
    # Scaled numbers whose squares round: ties must survive.
    np.testing.assert_allclose(hit_probabilities(X * 0.1 + 0.3, Y * 0.1 + 0.3, link), expected, atol=1e-14)


def test_many_columns_take_the_other_road():
    rng = np.random.default_rng(0)
    X, Y = rng.integers(0, 2, (60, 20)), rng.integers(0, 2, (80, 20))
    link = np.concatenate([np.arange(60), np.full(20, -1)])
    np.testing.assert_allclose(hit_probabilities(X, Y, link), brute_force(X, Y, link), atol=1e-14)


def test_averages_the_attack_played_out():
    rng = np.random.default_rng(1)
    X = rng.integers(0, 6, (40, 2))
    Y = X[rng.permutation(40)]
    exact = hit_probabilities(X, Y, np.arange(40))
    rate = np.zeros(40)
    for i in range(40):
        squared = ((Y - X[i]) ** 2).sum(axis=1)
        ties = np.flatnonzero(squared == squared.min())
        rate[i] = (rng.choice(ties, 4000) == i).mean()
    assert np.abs(rate - exact).max() < 5 * 0.5 / np.sqrt(4000)


def test_permutation_has_its_closed_form():
    """The mean over every permutation of small groups equals the closed form."""
    X = np.array([[0, 1], [0, 1], [2, 2], [0, 1], [3, 1], [2, 2], [0, 1]])
    labels = np.array([0, 0, 0, 1, 1, 1, 1])
    groups = Partition.from_labels(labels)
    total, count = np.zeros(7), 0
    for a, b in itertools.product(itertools.permutations(range(3)), itertools.permutations(range(3, 7))):
        total += hit_probabilities(X, X[list(a + b)], np.arange(7))
        count += 1
    np.testing.assert_allclose(permuted_probabilities(X, groups), total / count, atol=1e-12, rtol=0)


def test_unmasked_copy_and_disjoint_link():
    X = np.array([[0.0], [0], [1], [2]])
    measured = reidentification(X, X, np.arange(4))
    assert measured.value == pytest.approx(0.75)
    assert measured.to_json()["unmasked"] == pytest.approx(0.75)
    assert reidentification(X, X, np.full(4, -1)).value == 0
    assert reidentification(X, X[::-1], np.arange(4)[::-1]).value == pytest.approx(0.75)
    distinct = np.arange(5.0)[:, None]
    assert reidentification(distinct, distinct, np.arange(5)).value == 1


def test_groups_of_k_bound_the_rate():
    """On continuous columns: centroid, resample and permute stay at or below 1/k, up to the noise of the draws."""
    n, k, trials = 2000, 5, 20
    X = np.random.default_rng(2).normal(size=(n, 3))
    from gpuanon.numerics.cuts.median_blocks import blocks

    groups = blocks(X, Partition.whole(n), k)
    link = np.arange(n)
    limit = 1 / k + 4 / np.sqrt(k * n * trials)
    assert reidentification(X, centroid(X, groups), link).value <= 1 / k + 4 / np.sqrt(k * n)
    for draw in (resample, permute):
        values = [
            reidentification(X, X[draw(groups, KEY.draws(link, f"{draw.__name__} {t}"))], link).value
            for t in range(trials)
        ]
        assert np.mean(values) <= limit
        assert np.mean(values) > 0.8 / k  # and the attack is no paper tiger


def test_by_class_counts_every_class_once():
    X = np.array([[0.0], [0], [0], [5]])
    Y = np.array([[0.0], [0], [0], [5]])
    measured = reidentification_by_class(X, Y, np.arange(4))
    assert measured.value == pytest.approx((1 / 3 + 1) / 2)
    assert measured.details["classes"] == 2
    assert measured.to_json()["distribution"]["max"] == pytest.approx(1)
    np.testing.assert_allclose(np.sort(class_means(X, np.array([1.0, 0, 0, 1]))), [1 / 3, 1])


def test_interval_and_baselines_come_with_the_value():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(200, 2))
    details = reidentification(X, X + rng.normal(size=X.shape), np.arange(200)).to_json()
    assert details["interval"][0] <= details["value"] <= details["interval"][1]
    assert details["guess"] == 1 / 200
    assert details["unmasked"] == 1


@pytest.mark.parametrize(
    ("X", "Y", "link"),
    [
        (np.zeros((2, 1)), np.zeros((2, 2)), np.arange(2)),
        (np.zeros((2, 1)), np.zeros((2, 1)), np.arange(3)),
        (np.zeros((0, 1)), np.zeros((2, 1)), np.arange(2)),
        (np.array([[np.nan]]), np.zeros((1, 1)), np.arange(1)),
    ],
)
def test_tables_that_do_not_fit_are_refused(X, Y, link):
    with pytest.raises(ParameterError):
        reidentification(X, Y, link)


class TestEqualRows:
    @given(hnp.arrays(np.int64, st.tuples(st.integers(1, 30), st.integers(0, 3)), elements=st.integers(-2, 2)))
    @example(np.array([[0], [-0], [1]]))
    def test_same_classes_as_numpy(self, X):
        for table in (X, X * 0.5):
            labels = equal_rows(table)
            expected = np.unique(table, axis=0, return_inverse=True)[1].reshape(-1) if X.shape[1] else np.zeros(len(X))
            assert len({*zip(labels, expected, strict=True)}) == len({*labels}) == len({*expected})

    def test_whole_numbers_of_any_range(self):
        wide = np.array([[-(2**62), 5], [2**62, 5], [-(2**62), 5], [0, 2**63 - 1]])
        labels = equal_rows(wide)
        assert labels[0] == labels[2]
        assert len(set(labels)) == 3
        assert equal_rows(np.array([[7], [3], [7]]), np.array([0, 5, 5])).tolist() == [0, 1, 2]
        assert equal_rows(np.array([[250], [3]], dtype=np.uint8)).tolist() == [1, 0]

    def test_negative_zero_and_within(self):
        assert equal_rows(np.array([[0.0], [-0.0]])).tolist() == [0, 0]
        assert equal_rows(np.array([[1.0], [1.0], [1.0]]), np.array([1, 0, 1])).tolist() == [1, 0, 1]

    def test_rows_that_mix_alike_are_still_told_apart(self, monkeypatch):
        class Zeros:
            def integers(self, *args, **kwargs):
                return np.zeros(2, dtype=np.uint64)

        # With the multiplier 1 for both columns, (1, 2) and (2, 1) mix to one number.
        monkeypatch.setattr(equal_rows_module.np.random, "default_rng", lambda seed: Zeros())
        X = np.array([[1.0, 2], [2, 1], [1, 2], [2, 1], [1, 2]])
        labels = equal_rows(X)
        assert len(set(labels)) == 2
        assert len({*zip(labels, X[:, 0], strict=True)}) == 2
