"""Propensity scores by a random forest: scikit-learn's own held-out scores, extremes, and comparison with chance."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.model_selection import cross_val_predict

from gpuanon.assessing.utility.propensity import forest as propensity_forest
from gpuanon.assessing.utility.propensity.forest import BINS, _binned, _halves, _scores, pmse_forest


def tables(n=400, shift=0.0, seed=1):
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=2 * n), rng.integers(0, 4, size=2 * n), rng.normal(size=2 * n)])
    return X[:n], X[n:] + np.array([shift, 0, 0]), [False, True, False]


def test_records_are_scored_by_the_forest_of_the_other_half():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)).astype(np.float32)
    y = (rng.random(600) < 1 / (1 + np.exp(-2 * X[:, 0]))).astype(float)
    halves = _halves(X)
    assert 240 < halves.sum() < 360
    model = RandomForestClassifier(
        propensity_forest.TREES, max_depth=16, min_samples_leaf=10, max_features="sqrt", bootstrap=False, random_state=0
    )
    folds = [(np.flatnonzero(halves != half), np.flatnonzero(halves == half)) for half in (False, True)]
    expected = cross_val_predict(model, X, y, cv=folds, method="predict_proba")[:, 1]
    np.testing.assert_allclose(_scores(X, halves, y), expected, atol=1e-12)


def test_equal_records_stay_in_one_half():
    X = np.repeat(np.random.default_rng(2).normal(size=(50, 2)), 4, axis=0)
    assert (_halves(X).reshape(50, 4).std(axis=1) == 0).all()


def test_columns_of_many_values_are_binned_in_order_and_others_kept():
    rng = np.random.default_rng(5)
    X = np.column_stack([np.exp(rng.normal(size=5000)), rng.integers(-3, 4, 5000), np.full(5000, 7.0)])
    found = _binned(X)
    counts = np.bincount(found[:, 0].astype(int))
    assert len(counts) == BINS
    assert set(counts) <= {5000 // BINS, 5000 // BINS + 1}
    assert (np.diff(found[np.argsort(X[:, 0]), 0]) >= 0).all()
    np.testing.assert_array_equal(found[:, 1], X[:, 1] + 3)
    assert (found[:, 2] == 0).all()


def test_extremes():
    X, Y, flags = tables()
    assert pmse_forest(X, X.copy(), categorical=flags).value == 0
    shuffled = X[np.random.default_rng(3).permutation(len(X))]
    assert pmse_forest(X, shuffled, categorical=flags).value == 0
    assert pmse_forest(X, Y + 100, categorical=flags).value == pytest.approx(0.25, abs=1e-12)
    # One column tells them apart, and a split does not always look at it.
    assert 0.2 < pmse_forest(X, Y + np.array([100, 0, 0]), categorical=flags).value < 0.25


def test_dependence_that_a_logit_does_not_see_is_seen():
    """The margins are equal, the columns' dependence is lost."""
    from gpuanon.assessing.utility.propensity.pmse import pmse_logit

    rng = np.random.default_rng(4)
    a = rng.normal(size=1500)
    X = np.column_stack([a, a + 0.3 * rng.normal(size=1500)])
    Y = np.column_stack([X[:, 0], rng.permutation(X[:, 1])])
    assert pmse_logit(X, Y).value < 1e-4
    assert pmse_forest(X, Y).value > 0.05


@pytest.mark.slow
def test_chance_gives_a_ratio_of_one_and_a_shift_more():
    ratios = []
    for seed in range(6):
        X, Y, flags = tables(n=150, seed=seed)
        ratios.append(pmse_forest(X, Y, categorical=flags, permutations=2).details["ratio"])
    # Seen over 12 tables: deviation 0.2 of one, 0.08 of the mean of six.
    assert np.mean(ratios) == pytest.approx(1, abs=0.35)
    X, Y, flags = tables(n=150, shift=1.0)
    apart = pmse_forest(X, Y, categorical=flags, permutations=4)
    assert apart.details["ratio"] > 1.5
    assert apart.details["permuted_share"] == pytest.approx(1 / 5)
    paired = pmse_forest(X, Y, categorical=flags, permutations=2, link=np.arange(150))
    assert paired.details["ratio"] > 1.5


def test_missing_values_and_tables_with_nothing_to_learn():
    X, Y, flags = tables(n=200)
    holes = Y.copy()
    holes[:, 2] = np.nan
    assert pmse_forest(X, holes, categorical=flags).value > 0.2
    X[::3, 0] = np.nan
    assert pmse_forest(X, X.copy(), categorical=flags).value == 0
    assert pmse_forest(np.ones((5, 2)), np.ones((3, 2))).value == 0
    assert np.isfinite(pmse_forest(np.zeros((1, 1)), np.ones((1, 1))).value)


def test_large_tables_are_sampled_and_say_so(monkeypatch):
    monkeypatch.setattr(propensity_forest, "FOREST_ROWS", 100)
    X, Y, flags = tables(n=300)
    found = pmse_forest(X, Y, categorical=flags)
    assert "a random sample of 100 original and 100 released rows" in found.note
    assert "by refits on 8 disjoint pieces" in found.note
    assert found == pmse_forest(X, Y, categorical=flags)


def test_the_number_of_threads_changes_nothing(monkeypatch):
    X, Y, flags = tables(n=200)
    found = pmse_forest(X, Y, categorical=flags)
    monkeypatch.setenv("GPUANON_THREADS", "1")
    assert pmse_forest(X, Y, categorical=flags) == found


def test_labels_are_exchanged_within_pairs_of_a_sample_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(propensity_forest, "FOREST_ROWS", 100)
    X = np.random.default_rng(8).normal(size=(300, 3))
    found = pmse_forest(X, X + 0.01, permutations=2, link=np.arange(300))
    assert found.details["exchanged_within_pairs"]
    assert 0 < found.details["permuted_share"] <= 1
