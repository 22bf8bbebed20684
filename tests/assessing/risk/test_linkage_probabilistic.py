"""Probabilistic linkage: EM against known probabilities, the attack against a naive one, extremes."""

from __future__ import annotations

import numpy as np
import pytest

from gpuanon.assessing.risk.linkage import linkage_probabilistic
from gpuanon.assessing.risk.linkage.candidate_pairs import BlockedRecords, Pairs, Side, blocking_weights
from gpuanon.assessing.risk.linkage.level_models import estimate, falling
from gpuanon.assessing.risk.linkage.normal_models import NormalPairs, by_moments
from gpuanon.assessing.risk.prediction import standardised
from gpuanon.errors import ParameterError


def beside(measured, name):
    return next(one.value for one in measured.beside if one.name == name)


def attack(X, Y, link, **options):
    before, after = standardised(X, Y)
    options = {"categorical": [False] * X.shape[1]} | options
    return linkage_probabilistic(Side(before, X), Side(after, Y), link, **options)


def test_em_recovers_known_probabilities_of_independent_pairs():
    """400 000 pairs, a tenth of which belong together: the error of a probability is about 0.0025."""
    rng = np.random.default_rng(1)
    m = [np.array([0.95, 0.05]), np.array([0.9, 0.1]), np.array([0.7, 0.2, 0.1]), np.array([0.85, 0.15])]
    u = [np.array([0.1, 0.9]), np.array([0.3, 0.7]), np.array([0.1, 0.2, 0.7]), np.array([0.05, 0.95])]
    together = rng.uniform(size=400_000) < 0.1
    draws = [np.where(together, rng.choice(len(a), 400_000, p=a), rng.choice(len(a), 400_000, p=b))
             for a, b in zip(m, u, strict=True)]  # fmt: skip
    found = estimate(np.stack(draws, axis=1)[:, None], [2, 2, 3, 2])
    assert found.share == pytest.approx(0.1, abs=0.01)
    for expected, got in ((m, found.m), (u, found.u)):
        np.testing.assert_allclose(np.concatenate(got), np.concatenate(expected), atol=0.01)


def test_em_recovers_known_probabilities_when_one_of_ten_candidates_belongs_to_a_record():
    rng = np.random.default_rng(2)
    m, u = np.array([0.9, 0.8, 0.7, 0.9]), np.array([0.2, 0.3, 0.1, 0.4])
    own = np.arange(10) == 0
    agree = rng.uniform(size=(20_000, 10, 4)) < np.where(own[:, None], m, u)
    found = estimate((~agree).astype(np.int64), [2] * 4)
    np.testing.assert_allclose([side[0] for side in found.m], m, atol=0.01)
    np.testing.assert_allclose([side[0] for side in found.u], u, atol=0.01)
    assert found.share == pytest.approx(1, abs=0.02)


def test_levels_link_with_the_largest_likelihood_of_all_pairs():
    """Naive: every pair's weight from the probabilities that the figure reports, ties shared."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.normal(size=40), rng.integers(0, 3, 40)]).astype(float)
    Y = X + np.column_stack([rng.normal(size=40) * 0.3, np.zeros(40)])
    order = rng.permutation(40)
    found = attack(X, Y[order], order, categorical=[False, True], tolerances=[0.1, 0.5, 1.0], names=["a", "b"])
    m, u = found.details["m_by_column"], found.details["u_by_column"]
    floor, scale = 0.5 / 1200, X[:, 0].std()  # levels were fitted to three of four records

    def weight(x, y):
        def level(name, at):
            return np.log(max(m[name][at], floor) / max(u[name][at], floor))

        apart = abs(x[0] - y[0]) / scale
        steps = [level("a", f"within {t:g} sd") for t in (0.1, 0.5, 1.0)]
        beyond = level("a", "beyond")
        first = beyond if apart > 1 else np.interp(apart, [0.05, 0.3, 0.75, 1.0], [*steps, beyond])
        return first + level("b", "equal" if x[1] == y[1] else "different")

    hits = []
    for i, x in enumerate(X):
        weights = np.array([weight(x, y) for y in Y[order]])
        best = np.flatnonzero(weights >= weights.max() - 1e-4)  # the figure's probabilities are rounded
        hits.append((order[best] == i).sum() / len(best))
    assert found.details["linked_by_model"]["levels"] == pytest.approx(np.mean(hits), abs=1e-6)


def test_a_copy_is_linked_always_and_a_fresh_sample_by_accident():
    rng = np.random.default_rng(4)
    X, Y = rng.normal(size=(2, 400, 4))
    order = rng.permutation(400)
    copy = attack(X, X[order], order)
    assert copy.value == beside(copy, "nearest") == beside(copy, "informed") == 1
    fresh = attack(X, Y, order)
    assert fresh.interval.low <= beside(fresh, "guess") <= fresh.interval.high


def test_equal_records_share_the_link():
    X = np.repeat(np.random.default_rng(5).normal(size=(60, 3)), 2, axis=0)
    assert attack(X, X, np.arange(120)).value == pytest.approx(0.5)


def test_knowing_the_noise_of_each_column_links_what_distance_does_not():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(500, 6))
    Y = X + rng.normal(size=X.shape) * [0.02, 0.02, 3, 3, 3, 3]
    found = attack(X, Y, np.arange(500))
    assert beside(found, "informed") > 0.3 > 5 * beside(found, "nearest")
    assert found.value > 0.9 * beside(found, "informed"), "EM learns it without the link"


def test_under_little_equal_noise_the_likelihood_links_as_well_as_the_distance():
    rng = np.random.default_rng(21)
    X = rng.normal(size=(1000, 5))
    found = attack(X, X + rng.normal(size=X.shape) * 0.3, np.arange(1000))
    assert found.interval.high >= beside(found, "nearest")


@pytest.mark.parametrize("noise", [0.3, 0.6, 1.0])
@pytest.mark.parametrize("dependence", [0.0, 0.7])
def test_under_equal_noise_the_attack_is_not_below_the_distance_attack(noise, dependence):
    rng = np.random.default_rng([22, int(10 * noise), int(10 * dependence)])
    X = rng.normal(size=(600, 6)) @ np.linalg.cholesky((1 - dependence) * np.eye(6) + dependence).T
    found = attack(X, X + rng.normal(size=X.shape) * noise, np.arange(600))
    nearest = beside(found, "nearest")
    assert found.value >= nearest
    error = np.sqrt(nearest * (1 - nearest) / 600)
    assert found.details["linked_by_model"]["normal"] >= nearest - error, "EM by itself"
    assert beside(found, "likely") >= beside(found, "nearest") - 0.05, "also without knowing anybody"


def test_values_that_were_swapped_in_half_of_the_cells_are_found_by_levels():
    """Half of each column is as it was: equality of some numbers tells the pair, the distance does not."""
    rng = np.random.default_rng(24)
    X = rng.normal(size=(600, 6))
    Y = X.copy()
    for column in Y.T:
        moved = rng.uniform(size=600) < 0.5
        column[moved] = rng.permutation(column[moved])
    found = attack(X, Y, np.arange(600))
    assert found.details["model"] == "levels"
    assert found.value > 0.85 > 0.4 > beside(found, "nearest")


def test_the_normal_model_finds_the_noise_of_each_column_and_its_weights_are_those_of_scipy():
    """x given y = x + e is normal with mean y / (1 + σ²) and variance σ² / (1 + σ²)."""
    from scipy.stats import multivariate_normal as normal

    rng = np.random.default_rng(25)
    X = rng.normal(size=(1000, 8))
    sigma = np.linspace(0.15, 0.4, 8)
    Y = X + rng.normal(size=X.shape) * sigma
    pairs = BlockedRecords(Side(X, X), Side(Y, Y), None, None).nearest(np.arange(600), 100)
    known = NormalPairs(X, Y, pairs, 0.1)
    found = known.fit(known.first()).found
    np.testing.assert_allclose(found.slope[:-1], np.diag(1 / (1 + sigma**2)), atol=0.1)
    left = np.linalg.inv(found.metric @ found.metric.T)
    # 400 records: a standard error of 0.07 of each variance
    np.testing.assert_allclose(np.diag(left), sigma**2 / (1 + sigma**2), rtol=0.3)

    some = Pairs(np.arange(5), np.tile(np.arange(7), (5, 1)), np.zeros((5, 7)), np.ones((5, 7), bool), np.full(5, 7))
    alone = normal(X.mean(axis=0), np.cov(X.T, bias=True) + 1e-6 * np.eye(8)).logpdf(X[:5])
    mean = Y[:7] @ found.slope[:-1] + found.slope[-1]
    naive = [[normal(mean[j], left).logpdf(X[i]) - alone[i] for j in range(7)] for i in range(5)]
    np.testing.assert_allclose(known.model(found).scores(some), naive, atol=1e-5)
    np.testing.assert_allclose(known._weights(found)[:5, 0], known.model(found).scores(pairs)[:5, 0], atol=1e-5)


def test_moments_of_both_tables_suggest_noise_that_was_added_and_groups_that_were_averaged():
    rng = np.random.default_rng(26)
    X = rng.normal(size=(20_000, 3)) @ np.linalg.cholesky(0.5 * np.eye(3) + 0.5).T
    D = np.diag([0.25, 1.0, 4.0])
    S = np.cov(X.T)
    slope, left = by_moments(X, X + rng.normal(size=X.shape) @ np.sqrt(D), 1e-6)
    expected = S @ np.linalg.inv(S + D)
    np.testing.assert_allclose(slope[:-1].T, expected, atol=0.03)
    np.testing.assert_allclose(left, S - expected @ S, atol=0.03)
    order = np.argsort(X[:, 0] + X[:, 1])
    means = X[order].reshape(-1, 4, 3).mean(axis=1)
    Y = np.empty_like(X)
    Y[order] = np.repeat(means, 4, axis=0)
    slope, left = by_moments(X, Y, 1e-6)
    np.testing.assert_allclose(slope[:-1], np.eye(3), atol=1e-6)
    np.testing.assert_allclose(left, np.cov((X - Y).T, bias=True), atol=1e-4)


def test_a_falling_ratio_is_the_isotonic_regression():
    from sklearn.isotonic import IsotonicRegression

    rng = np.random.default_rng(23)
    m, u = rng.dirichlet(np.ones(8), size=2), rng.dirichlet(np.ones(8), size=2)
    found = falling(m.reshape(-1), u.reshape(-1), np.array([0, 8, 16])).reshape(2, 8)
    for own, other, got in zip(m, u, found, strict=True):
        fitted = IsotonicRegression(increasing=False).fit_transform(np.arange(8), own / other, sample_weight=other)
        np.testing.assert_allclose(got, fitted * other, rtol=1e-9)
        assert got.sum() == pytest.approx(1)


def test_nulls_agree_with_nulls_only():
    rng = np.random.default_rng(7)
    X = rng.normal(size=(80, 3))
    X[:20, 0] = np.nan
    points = np.nan_to_num(X)
    found = linkage_probabilistic(Side(points, X), Side(points, X), np.arange(80), categorical=[False] * 3)
    assert found.value == 1
    other = X.copy()
    other[:, 0] = np.nan
    lost = linkage_probabilistic(Side(points, X), Side(points, other), np.arange(80), categorical=[False] * 3)
    assert lost.details["m_by_column"]["column 1"]["beyond"] == pytest.approx(0.75, abs=0.02)


def test_blocking_looks_inside_blocks_and_few_candidates_are_enough_for_little_noise():
    rng = np.random.default_rng(8)
    X = np.column_stack([rng.normal(size=(300, 3)), rng.integers(0, 5, 300)])
    Y = X + np.column_stack([rng.normal(size=(300, 3)) * 0.1, np.zeros(300)])
    flags = {"categorical": [False] * 3 + [True], "block": [False] * 3 + [True]}
    weights = blocking_weights(["a", "b", "c", "g"], ["g"])
    inside = attack(X, Y, np.arange(300), candidates=20, metric_weights=weights, **flags)
    assert inside.value > 0.8
    assert inside.details["candidates"] == 20
    moved = Y.copy()
    moved[:, 3] += 1  # everybody is in another block now, one value has left the table
    assert attack(X, moved, np.arange(300), metric_weights=weights, **flags).value == 0
    with pytest.raises(ParameterError, match="no original has"):
        attack(X, Y + np.array([0, 0, 0, 50]), np.arange(300), **flags)


def test_a_new_table_has_no_right_link_and_bad_settings_are_refused():
    X = np.random.default_rng(9).normal(size=(60, 2))
    assert attack(X, X, np.full(60, -1)).value == 0
    with pytest.raises(ParameterError, match="tolerances"):
        attack(X, X, np.arange(60), tolerances=[0.5, 0.1])
    with pytest.raises(ParameterError, match="link"):
        attack(X, X, np.arange(59))


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_few_rows_and_a_constant_column_are_linked(rows):
    X = np.random.default_rng(rows).normal(size=(rows, 3))
    X[:, 2] = 1
    assert attack(X, X, np.arange(rows)).value == 1
