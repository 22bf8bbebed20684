"""Means, variances, correlations and cell-by-cell loss against SciPy, scikit-learn and published values."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import mean_squared_error, r2_score

from gpuanon.assessing.figures import Measured
from gpuanon.assessing.utility.differences import (
    both_moments,
    correlations,
    correlations_of,
    covariances_of,
    means,
    rank_correlations,
    ranks,
    variances,
)
from gpuanon.assessing.utility.information_loss import il1s, information_loss, mse, r2, records_changed
from gpuanon.assessing.utility.ks import exchanged_shares, ks
from gpuanon.errors import InputError, ParameterError

ALL = (means, variances, correlations, rank_correlations, records_changed, mse, il1s, information_loss, ks)


@pytest.fixture
def tables() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 6)) @ rng.normal(size=(6, 6)) + 5
    return X, X + rng.normal(size=X.shape)


def test_differences_equal_numpy_and_scipy(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    upper = np.triu_indices(6, 1)
    pearson = np.abs(np.corrcoef(X.T) - np.corrcoef(Y.T))[upper]
    spearman = np.abs(stats.spearmanr(X).statistic - stats.spearmanr(Y).statistic)[upper]
    mean = np.abs(X.mean(axis=0) - Y.mean(axis=0)) / X.std(axis=0)
    variance = np.abs(X.var(axis=0) / Y.var(axis=0) - 1) * Y.var(axis=0) / X.var(axis=0)
    for measure, expected in (
        (means, mean),
        (variances, variance),
        (correlations, pearson),
        (rank_correlations, spearman),
    ):
        measured = measure(X, Y)
        assert measured.value == pytest.approx(np.median(expected))
        assert measured.details["max"] == pytest.approx(expected.max())


def test_ranks_equal_scipy_with_ties() -> None:
    X = np.random.default_rng(2).integers(0, 5, size=(50, 3)).astype(float)
    np.testing.assert_array_equal(ranks(X), stats.rankdata(X, axis=0))


def by_column(measured: Measured) -> list[float]:
    return list(measured.to_json()["by_column"].values())


def test_cell_measures_equal_scikit_learn(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    np.testing.assert_allclose(by_column(mse(X, Y)), mean_squared_error(X, Y, multioutput="raw_values"))
    np.testing.assert_allclose(by_column(r2(X, Y)), r2_score(X, Y, multioutput="raw_values"))
    z = (X - X.mean(axis=0)) / X.std(axis=0), (Y - X.mean(axis=0)) / X.std(axis=0)
    assert information_loss(X, Y).value == pytest.approx(100 * ((z[0] - z[1]) ** 2).sum() / (z[0] ** 2).sum())


def test_extremes(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = tables
    for measure in ALL:
        assert measure(X, X.copy()).value == 0
    assert r2(X, X.copy()).value == 1
    centre = np.repeat(X.mean(axis=0, keepdims=True), len(X), axis=0)
    assert information_loss(X, centre).value == pytest.approx(100)
    assert r2(X, centre).value == pytest.approx(0)
    assert records_changed(X, X + 1).value == 1
    assert ks(X, X + 1000).value == 1
    independent = np.random.default_rng(3).permuted(X, axis=0)
    assert means(X, independent).value < 1e-12
    assert information_loss(X, independent).value == pytest.approx(200, rel=0.2)


def test_figures_are_ready_for_json(tables: tuple[np.ndarray, np.ndarray]) -> None:
    for measure in (*ALL, r2):
        assert json.loads(json.dumps(measure(*tables).to_json(), allow_nan=False))["value"] >= 0


def test_a_link_finds_the_originals(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    order = np.random.default_rng(4).permutation(300)[:200]
    release, link = np.concatenate([Y[order], Y[:5]]), np.concatenate([order, np.full(5, -1)])
    for measure in (records_changed, mse, r2, il1s, information_loss):
        linked = measure(X, release, link=link)
        assert linked.value == pytest.approx(measure(X[order], Y[order]).value)
        assert "5 added rows" in str(linked.note)
        with pytest.raises(InputError, match="link"):
            measure(X, release)
        with pytest.raises(ParameterError, match="link: one entry"):
            measure(X, release, link=link[:-1])
        with pytest.raises(InputError, match="no released row"):
            measure(X, release, link=np.full(205, -1))


def test_constant_columns_are_left_out_and_counted() -> None:
    rng = np.random.default_rng(5)
    X = np.column_stack([rng.normal(size=50), np.full(50, 0.1), rng.normal(size=50)])
    Y = X + rng.normal(size=X.shape)
    for measure in (means, variances, correlations, rank_correlations, r2, il1s, information_loss):
        measured = measure(X, Y)
        assert "constant" in str(measured.note)
        assert np.isfinite(measured.value)
        with pytest.raises(InputError, match="not defined"):
            measure(X[:, [1, 1]], Y[:, [1, 1]])


def test_records_changed_counts_by_column_and_missing_values() -> None:
    X = np.array([[1.0, np.nan], [2.0, np.nan], [3.0, 4.0]])
    Y = np.array([[1.0, np.nan], [5.0, 0.0], [3.0, 5.0]])
    measured = records_changed(X, Y)
    assert measured.details["changed_by_column"] == {"column 1": 1, "column 2": 2}
    assert measured.details["any_column"] == 2


def test_ks_gives_the_reference_as_a_yardstick(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    measured = ks(X, Y, reference=X[::2])
    assert measured.to_json()["reference"] == ks(X, X[::2]).value
    assert "dependent" in str(measured.note)


def test_exchanges_within_pairs_are_valid_for_dependent_samples() -> None:
    rng = np.random.default_rng(6)
    shares = []
    for _ in range(60):
        X = rng.normal(size=(80, 2))  # two noisy readings of one record: dependent, and interchangeable
        pair = [X + 0.3 * rng.normal(size=X.shape) for _ in range(2)]
        shares.append(exchanged_shares(*pair, rounds=39)[0])
    assert stats.kstest(shares, "uniform").pvalue > 0.01
    X = rng.normal(size=(200, 2))
    shifted = X + 0.15 + 0.01 * rng.normal(size=X.shape)
    # The test for independent samples does not see a shift of 0.15; the exchanges do.
    assert stats.ks_2samp(X[:, 0], shifted[:, 0]).pvalue > 0.05
    order = rng.permutation(200)
    measured = ks(X, shifted[order], link=order, permutations=99)
    assert measured.details["exchanged_share"] == 0.01
    assert "200 pairs" in str(measured.note)
    with pytest.raises(ParameterError, match="permutations"):
        exchanged_shares(X, X, rounds=0)


def test_the_observed_distance_of_an_exchange_is_the_ks_distance() -> None:
    X, Y = np.array([[1.0], [2.0], [2.0]]), np.array([[2.0], [3.0], [1.0]])
    assert exchanged_shares(X, X, rounds=9) == (1.0, 1.0)
    assert ks(X, Y).value == pytest.approx(stats.ks_2samp(X[:, 0], Y[:, 0], method="exact").statistic)


def _mdav(X: np.ndarray, k: int) -> np.ndarray:
    """MDAV from its definition, one record at a time (the rule whose losses are published)."""
    left, out = np.arange(len(X)), np.empty_like(X)

    def near(point: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return rows[np.argsort(((X[rows] - point) ** 2).sum(axis=1), kind="stable")]

    def take(point: np.ndarray, size: int) -> None:
        nonlocal left
        group = near(point, left)[:size]
        out[group] = X[group].mean(axis=0)
        left = np.setdiff1d(left, group)

    while len(left) >= 3 * k:
        r = near(X[left].mean(axis=0), left)[-1]
        s = near(X[r], left)[-1]
        take(X[r], k)
        take(X[s], k)
    if len(left) >= 2 * k:
        take(X[near(X[left].mean(axis=0), left)[-1]], k)
    take(X[left].mean(axis=0), len(left))
    return out


@pytest.mark.data
def test_published_losses_of_mdav_on_census(data_folder: Path) -> None:
    with open(data_folder / "census" / "census.csv", newline="") as file:
        X = np.array(list(csv.reader(file))[1:], dtype=float)
    Z = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    release = _mdav(Z, 3) * X.std(axis=0, ddof=1) + X.mean(axis=0)
    assert information_loss(X, release).value == pytest.approx(5.692186, abs=1e-6)
    assert il1s(X, release).value == pytest.approx(1607.939909, abs=1e-5)


def test_covariances_are_those_of_numpy_in_units_of_the_original():
    rng = np.random.default_rng(0)
    before, after = rng.normal(size=(200, 3)) * [1, 5, 10], rng.normal(size=(150, 3)) * [2, 5, 1]
    found = covariances_of(*both_moments(before, after), ("a", "b", "c"))
    change = np.abs(np.cov(after.T, bias=True) - np.cov(before.T, bias=True))
    expected = change / np.outer(before.std(axis=0), before.std(axis=0))
    (part,) = found.parts
    assert part.values["a", "c"] == pytest.approx(expected[0, 2])
    assert found.value == pytest.approx(np.median(expected[np.triu_indices(3, 1)]))


def test_a_column_that_was_scaled_keeps_its_correlations_and_not_its_covariances():
    x = np.random.default_rng(1).normal(size=(300, 1)) + np.random.default_rng(2).normal(size=(300, 2))
    moments = both_moments(x, x * [1, 100])
    assert correlations_of(*moments, ("a", "b")).value == pytest.approx(0, abs=1e-12)
    assert covariances_of(*moments, ("a", "b")).value > 10


def test_a_category_counts_as_one_column_whatever_its_levels() -> None:
    """100 · SSE / SST over columns of variance 1: one of numbers, and one of ten levels, of ten features."""
    rng = np.random.default_rng(7)
    number, level = rng.normal(size=(500, 1)), rng.integers(0, 10, 500)
    levels = (level[:, None] == np.arange(10)).astype(float)
    number, levels = (part - part.mean(axis=0) for part in (number, levels))
    X = np.hstack([part / np.sqrt(part.var(axis=0).sum()) for part in (number, levels)])
    Y = X.copy()
    Y[:, 0] = rng.permutation(Y[:, 0])
    names = ["number", *["level"] * 10]
    lost = ((X - Y) ** 2).sum() / (X**2).sum()
    assert information_loss(X, Y, names=names).value == pytest.approx(100 * lost)
    assert mse(X, Y, names=names).value == pytest.approx(((X - Y) ** 2).sum() / (500 * 2))
    assert r2(X, Y, names=names).value == pytest.approx((r2_score(X[:, 0], Y[:, 0]) + 1) / 2)
