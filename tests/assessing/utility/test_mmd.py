"""Maximum mean discrepancy by random features."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel

from gpuanon.assessing.utility.mmd import _bandwidth, mmd


def exact(X, Y, bandwidth):
    """The square root of the V-statistic of [1], eq. 5, from all pairs."""
    gamma = 1 / (2 * bandwidth**2)
    return np.sqrt(rbf_kernel(X, X, gamma).mean() + rbf_kernel(Y, Y, gamma).mean() - 2 * rbf_kernel(X, Y, gamma).mean())


def test_random_features_approach_the_kernel():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(300, 3)), rng.normal(0.7, 1.3, size=(250, 3))
    found = mmd(X, Y, features=8000, permutations=0).value
    assert found == pytest.approx(exact(X, Y, _bandwidth(X)), rel=0.03)


@pytest.mark.slow
def test_tables_of_one_distribution_are_rejected_as_often_as_the_level_says():
    rng = np.random.default_rng(1)
    shares = [
        mmd(*rng.normal(size=(2, 60, 2)), features=32, permutations=39).details["permuted_share"] for _ in range(600)
    ]
    assert np.mean(np.array(shares) <= 0.05) == pytest.approx(0.05, abs=0.027)  # three standard errors


def test_a_joint_change_that_no_margin_shows_is_seen():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 1)) + 0.2 * rng.normal(size=(400, 2))
    Y = np.stack([X[:, 0], rng.permutation(X[:, 1])], axis=1)
    found = mmd(X, Y)
    assert found.details["permuted_share"] == pytest.approx(0.01)
    assert found.value > 3 * found.beside[0].value


def test_labels_are_exchanged_within_pairs_when_the_link_is_known():
    X = np.random.default_rng(3).normal(size=(200, 2))
    found = mmd(X, X + 0.3, link=np.arange(200))  # every record moved a little, all the same way
    assert found.details["exchanged_within_pairs"] is True
    assert found.details["permuted_share"] == pytest.approx(0.01)


def test_large_tables_are_sampled_alike():
    X = np.random.default_rng(4).normal(size=(21_000, 1))
    found = mmd(X, X, permutations=0, features=8)
    assert found.value == pytest.approx(0, abs=1e-12)  # sums of 20 000 numbers
    assert "sample of 20000" in found.note
    assert found.details["rows"] == 20_000
