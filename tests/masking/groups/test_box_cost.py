"""The cost of a box, against the range of a record's influence that a fine grid of its points gives."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from gpuanon.masking.groups.boxes.box_cuts import BITS, BoxCost, whole_coordinates
from gpuanon.masking.groups.boxes.sensitivities import Gradient, Term

Host = np.ndarray[Any, Any]
Influence = Callable[[Host, Host], Host]


def _both(kind: str) -> tuple[Term, ...]:
    return Term(kind, (0,)), Term(kind, (1,))


STATISTICS: dict[str, tuple[tuple[Term, ...], tuple[Influence, ...], float, float]] = {
    # the terms, what a record (x, y) adds to them, and the least and greatest ratio of the cost to its range
    "mean": (_both("mean"), (lambda x, y: x, lambda x, y: y), 1.0, 1.0),
    "variance": (_both("variance"), (lambda x, y: x * x, lambda x, y: y * y), 0.88, 1.0),  # tangents near zero
    "sd": (_both("sd"), (lambda x, y: x * x / 2, lambda x, y: y * y / 2), 0.88, 1.0),
    "covariance": ((Term("covariance", (0, 1)),), (lambda x, y: x * y,), 1.0, 2.0),  # 2 where both zeros are inside
    "correlation": (
        (Term("correlation", (0, 1)),),
        (lambda x, y: x * y - 0.3 * (x * x + y * y),),
        0.8,
        2.0,
    ),  # mixed forms
}


def costs(terms: tuple[Term, ...], low: Host, high: Host) -> Host:
    """Of boxes with the ends low, high (2, g), in the units of the columns."""
    X = np.array([[-4.0, -4.0], [4.0, 4.0], [1.0, 0.5]])
    covariance = np.array([[1.0, 0.6], [0.6, 1.0]])
    gradient = Gradient.of(terms, np.zeros(2), covariance)
    model = BoxCost.of(X, gradient, 5)
    steps = ((1 << BITS) - 1) / 8
    found = model.per_record(*(np.rint((end + 4) * steps) for end in (low, high)))
    unit = model.per_record(*(np.rint((np.array([[2.0], [2.0]]) + end + 4) * steps) for end in (0.0, 1e-3)))
    truth = 1e-3 * gradient.sensitivities(np.array([[2.0005, 2.0005]])).sum()
    return np.asarray(found * (truth / unit))


@pytest.mark.parametrize("name", STATISTICS)
def test_a_cost_is_the_width_of_the_range_of_a_records_influence(name: str) -> None:
    terms, influences, least, most = STATISTICS[name]
    rng = np.random.default_rng(4)
    middle, half = rng.uniform(-3, 3, size=(2, 4000)), rng.uniform(0.01, 0.9, size=(2, 4000))
    low, high = middle - half, middle + half
    truth = np.zeros(4000)
    for influence in influences:
        values = [influence(low[0] + s * 2 * half[0], low[1] + t * 2 * half[1]) for s, t in _grid()]
        truth += np.max(values, axis=0) - np.min(values, axis=0)
    ratio = costs(terms, low, high) / truth
    assert ratio.min() > least - 0.01
    assert ratio.max() < most + 0.01
    if name == "covariance":
        inside = (np.abs(middle) < half).all(axis=0)
        assert np.abs(ratio[~inside] - 1).max() < 0.01
        assert inside.any()
    assert np.median(np.abs(ratio - 1)) < 0.005 if name != "correlation" else np.median(np.abs(ratio - 1)) < 0.15


def _grid() -> list[tuple[float, float]]:
    return list(itertools.product(np.linspace(0, 1, 21).tolist(), repeat=2))


def test_a_record_far_from_the_others_makes_its_box_expensive_although_their_sensitivities_are_small() -> None:
    low, high = np.array([[0.1], [0.1]]), np.array([[3.0], [3.0]])
    of_records = 2 * (4 * 0.1 + 3.0) / 5 * 2.9  # four records at 0.1 and one at 3
    assert costs((Term("covariance", (0, 1)),), low, high)[0] == pytest.approx(3.0**2 - 0.1**2, rel=1e-3)
    assert of_records < 0.5 * (3.0**2 - 0.1**2)


@pytest.mark.parametrize("k", [2, 5, 100, 5000])
@pytest.mark.parametrize("d", [1, 3, 12])
def test_costs_of_many_rows_are_exact_whole_numbers(k: int, d: int) -> None:
    X = np.random.default_rng(0).standard_t(2, size=(500, d))
    terms = tuple(Term("covariance", pair) for pair in itertools.combinations(range(d), 2)) or (Term("variance", (0,)),)
    model = BoxCost.of(X, Gradient.of(terms, X.mean(axis=0), np.cov(X.T, bias=True).reshape(d, d)), k)
    x = whole_coordinates(X).T.astype(np.float64)
    whole = model.per_record(x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True))
    assert float(whole[0]) * 2 * 64 * k < 2.0**53
    one = model.sensitivities(x, x)
    assert all((a == np.rint(a)).all() and (a >= model.least).all() for a in one)
