"""Sensitivities against finite differences; optimal multipliers and dismissal against solvers and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gpuanon.masking.groups.boxes.sensitivities import (
    FLOOR,
    Term,
    dismissal_threshold,
    local_density,
    optimal_multiplier,
    sensitivities,
    standard_error,
)

Host = np.ndarray[Any, Any]


def statistic(X: Host, term: Term) -> Host:
    """The statistic in its own units: means and deviations of the whole table are put in by the test."""
    c = np.cov(X.T, bias=True)
    i, j = term.columns[0], term.columns[-1]
    if term.kind == "regression":
        on = list(term.columns[1:])
        return np.linalg.solve(c[np.ix_(on, on)], c[on, i])
    return np.atleast_1d(
        {
            "mean": X[:, i].mean(),
            "variance": c[i, i],
            "sd": np.sqrt(c[i, i]),
            "covariance": c[i, j],
            "correlation": c[i, j] / np.sqrt(c[i, i] * c[j, j]),
        }[term.kind]
    )


@pytest.mark.parametrize(
    "term",
    [
        Term("mean", (1,)),
        Term("variance", (0,)),
        Term("sd", (2,)),
        Term("covariance", (0, 2)),
        Term("correlation", (1, 2)),
        Term("regression", (0, 1)),
        Term("regression", (2, 0, 1), 3.0),
    ],
    ids=lambda term: f"{term.kind} of {len(term.columns)}",
)
def test_a_sensitivity_is_the_derivative(term: Term) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3)) @ np.array([[1.0, 0.5, 0.2], [0.0, 1.0, -0.4], [0.0, 0.0, 1.0]])
    X = (X - X.mean(axis=0)) / X.std(axis=0)  # then the units of deviations are the columns' own
    found = sensitivities(X, (term,), X.mean(axis=0), np.cov(X.T, bias=True))
    expected = np.zeros_like(X)
    for p in range(20):
        for j in range(3):
            step = np.zeros_like(X)
            step[p, j] = 1e-5
            change = (statistic(X + step, term) - statistic(X - step, term)) / 2e-5
            expected[p, j] = term.weight * len(X) * np.abs(change).sum()
    floor = FLOOR * found.mean()
    assert found[:20] == pytest.approx(np.maximum(expected[:20], floor), rel=1e-4, abs=2 * floor)


def test_a_set_of_statistics_adds_up_with_its_weights() -> None:
    rng = np.random.default_rng(1)
    X, mean, covariance = rng.normal(size=(30, 2)), np.zeros(2), np.eye(2)
    one = sensitivities(X, (Term("mean", (0,)), Term("mean", (1,))), mean, covariance)
    two = sensitivities(X, (Term("variance", (0,), 2.0), Term("variance", (1,), 2.0)), mean, covariance)
    both = sensitivities(
        X, (*(Term("mean", (j,)) for j in (0, 1)), *(Term("variance", (j,), 2.0) for j in (0, 1))), mean, covariance
    )
    assert both == pytest.approx(one + two, rel=1e-2, abs=1e-2)


def test_a_standard_error_is_that_of_many_samples() -> None:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(100_000, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    for term in (Term("mean", (0,)), Term("variance", (0,)), Term("covariance", (0, 1)), Term("correlation", (0, 1))):
        drawn = [statistic(sample, term)[0] for sample in X.reshape(500, 200, 2)]
        error = standard_error(X, (term,), X.mean(axis=0), np.cov(X.T, bias=True))
        assert np.std(drawn) * np.sqrt(200) == pytest.approx(error, rel=0.1)


positive = st.floats(0.05, 20)


@settings(max_examples=60, deadline=None)
@given(st.lists(positive, min_size=1, max_size=5), positive)
@example([1.0, 1.0], 1.0)
@example([1.0, 2.0], 20.0)
def test_optimal_multipliers_are_those_of_a_bisection(sensitivity: list[float], density: float) -> None:
    a, k = np.array(sensitivity), 7
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if density * np.prod(2 * middle / a) >= k else (middle, high)
    assert optimal_multiplier(a[None], np.array([density]), k)[0] == pytest.approx(high, rel=1e-9)


def test_optimal_half_widths_are_those_of_a_solver() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        d = int(rng.integers(2, 5))
        a, density, k = rng.uniform(0.3, 3, d), rng.uniform(0.5, 5), 10
        found = optimal_multiplier(a[None], np.array([density]), k)[0] / a
        solved = minimize(
            lambda log, a=a: float(a @ np.exp(log)),
            np.zeros(d),
            bounds=[(-5.0, 5.0)] * d,
            constraints={
                "type": "ineq",
                "fun": lambda log, d=d, density=density, k=k: float(d * np.log(2) + log.sum() + np.log(density / k)),
            },
        )
        assert a @ found == pytest.approx(solved.fun, rel=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_the_threshold_of_dismissal_is_the_best_of_all(seed: int) -> None:
    rng = np.random.default_rng(seed)
    c = rng.lognormal(size=50) * 0.1
    objective = [3 * c[c <= at].sum() / 50 + 0.7 / np.sqrt((c <= at).sum()) for at in c]
    assert dismissal_threshold(c, 3, 0.7, 50) == c[np.argmin(objective)]
    kept = (c <= dismissal_threshold(c, 3, 0.7, 50, most=0.1)).mean()
    assert kept >= 0.9


@pytest.mark.parametrize("d", [1, 2, 4])
def test_the_density_of_uniform_records_is_their_number_over_the_volume(d: int) -> None:
    X = np.random.default_rng(4).random((8000, d)) * 2
    assert np.median(local_density(X, 10)) == pytest.approx(8000 / 2**d, rel=0.35)
