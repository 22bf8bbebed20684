"""Sensitivities against finite differences; half-widths and dismissal against solvers and brute force."""

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
    half_widths,
    local_density,
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
@given(st.lists(st.tuples(positive, positive), min_size=1, max_size=5), positive, st.integers(0, 6))
@example([(1.0, 1.0), (1.0, 1.0)], 1.0, 0)
@example([(1.0, 20.0), (2.0, 20.0)], 20.0, 6)
def test_half_widths_are_those_of_a_bisection(pairs: list[tuple[float, float]], density: float, ell: int) -> None:
    a, epsilon = np.array(pairs).T
    k = 7
    found, c = half_widths(a[None], np.array([density]), k, ell, epsilon)
    floor = ell * epsilon / 2
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (low, middle) if density * np.prod(2 * np.maximum(floor, middle / a)) >= k else (middle, high)
    expected = np.maximum(floor, high / a)
    assert found[0] == pytest.approx(expected, rel=1e-9)
    free = found[0] > floor * (1 + 1e-9)
    assert (a * found[0])[free] == pytest.approx(c[0], rel=1e-9)
    if free.any():  # then the volume constraint holds with equality
        assert density * np.prod(2 * found[0]) == pytest.approx(k, rel=1e-9)


def test_half_widths_with_some_floors_bound_are_those_of_a_bisection() -> None:
    """Floors about the free solution, so that in most instances some columns are bound and others are not."""
    rng = np.random.default_rng(8)
    k, ell, d = 7, 3, 4
    a, density = rng.uniform(0.1, 10, size=(3000, d)), rng.uniform(0.05, 20, size=3000)
    free = 0.5 * (k / density * a.prod(axis=1))[:, None] ** (1 / d) / a
    epsilon = np.median(free, axis=0) * rng.uniform(0.1, 0.8, size=d)
    floor = np.broadcast_to(ell * epsilon / 2, a.shape)
    found, c = half_widths(a, density, k, ell, epsilon)
    low, high = np.zeros(3000), np.full(3000, 1e6)
    for _ in range(200):
        middle = (low + high) / 2
        large = density * np.prod(2 * np.maximum(floor, middle[:, None] / a), axis=1) >= k
        low, high = np.where(large, low, middle), np.where(large, middle, high)
    np.testing.assert_allclose(found, np.maximum(floor, high[:, None] / a), rtol=1e-9)
    bound = found <= floor * (1 + 1e-9)
    assert (bound.any(axis=1) & ~bound.all(axis=1)).mean() > 0.3
    assert bound.all(axis=1).any()
    volume = density * np.prod(2 * found, axis=1)
    np.testing.assert_allclose(volume[~bound.all(axis=1)], k, rtol=1e-9)
    np.testing.assert_allclose((a * found)[~bound], np.broadcast_to(c[:, None], a.shape)[~bound], rtol=1e-9)
    whole = bound.all(axis=1)
    np.testing.assert_allclose(c[whole], (a * floor)[whole].max(axis=1), rtol=1e-9)


def test_half_widths_are_those_of_a_solver() -> None:
    rng = np.random.default_rng(3)
    for _ in range(10):
        d = int(rng.integers(2, 5))
        a, epsilon, density, ell, k = rng.uniform(0.3, 3, d), rng.uniform(0.01, 0.5, d), rng.uniform(0.5, 5), 3, 10
        found = half_widths(a[None], np.array([density]), k, ell, epsilon)[0][0]
        solved = minimize(
            lambda log, a=a: float(a @ np.exp(log)),
            np.log(np.maximum(1.0, ell * epsilon)),
            bounds=[(np.log(ell * e / 2), 5.0) for e in epsilon],
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
