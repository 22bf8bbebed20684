"""Interval statistics hold for every completion of the boxes, against exact arithmetic."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from gpuanon.assessing.intervals.box_quadratic import Pair, slope_form
from gpuanon.assessing.intervals.interval_statistics import IntervalBoxes, regression
from gpuanon.errors import InputError

Host = np.ndarray[Any, Any]


def exact(values: Host) -> dict[str, Fraction]:
    """Statistics of two columns without rounding."""
    columns = [[Fraction(float(v)) for v in column] for column in values.T]
    n = len(values)
    means = [sum(column) / n for column in columns]
    centred = [[v - m for v in column] for column, m in zip(columns, means, strict=True)]
    products = [[sum(a * b for a, b in zip(one, two, strict=True)) / n for two in centred] for one in centred]
    return {"mean": means[0], "variance": products[0][0], "other": products[1][1], "covariance": products[0][1]}


def ranges(low: Host, high: Host) -> dict[str, tuple[float, float]]:
    """All ranges of the boxes."""
    boxes = IntervalBoxes.of(low, high)
    return {
        "mean": boxes.mean(0),
        "variance": boxes.variance(0),
        "sd": boxes.deviation(0),
        "covariance": boxes.covariance(0, 1),
        "correlation": boxes.correlation(0, 1),
        "slope": boxes.slope(0, 1),
    }


def missed(found: dict[str, tuple[float, float]], values: Host) -> list[str]:
    """The statistics of one completion that lie outside of their range, compared without rounding."""
    truth = exact(values)
    held = {name: _within(truth[name], found[name]) for name in ("mean", "variance", "covariance")}
    low, high = found["sd"]
    held["sd"] = Fraction(low) ** 2 <= truth["variance"] <= Fraction(high) ** 2
    if truth["variance"] > 0:
        held["slope"] = _within(truth["covariance"] / truth["variance"], found["slope"])
    if truth["variance"] > 0 and truth["other"] > 0:
        low, high = found["correlation"]
        square = truth["covariance"] * abs(truth["covariance"]) / (truth["variance"] * truth["other"])
        held["correlation"] = _signed_square(low) <= square <= _signed_square(high)
    return [name for name, inside in held.items() if not inside]


def _within(value: Fraction, ends: tuple[float, float]) -> bool:
    low, high = ends
    return (low == -math.inf or Fraction(low) <= value) and (high == math.inf or value <= Fraction(high))


def _signed_square(r: float) -> Fraction:
    return Fraction(r) * abs(Fraction(r))


def completions(low: Host, high: Host, rng: np.random.Generator, some: int = 8) -> list[Host]:
    """All corners of up to four boxes in two columns, and points inside."""
    corners = [np.where(np.reshape(bits, low.shape), high, low) for bits in itertools.product((0, 1), repeat=low.size)]
    return corners + [np.clip(low + (high - low) * rng.random(low.shape), low, high) for _ in range(some)]


numbers = st.one_of(
    st.integers(-3, 3).map(float), st.floats(-1e6, 1e6, allow_nan=False), st.floats(1e9, 1e9 + 1, allow_nan=False)
)


tables = st.lists(st.tuples(numbers, numbers, numbers, numbers), min_size=1, max_size=3)


@settings(max_examples=25, deadline=None)
@given(tables)
@example([(0.0, 1.0, 0.0, 1.0)] * 3)
@example([(-1.0, 1.0, -1.0, 1.0), (2.0, 2.0, 2.0, 2.0)])
@example([(1e9, 1e9 + 1, 0.0, 1e-9), (1e9 + 0.5, 1e9 + 0.5, 1.0, 1.0), (1e9, 1e9, 0.0, 1.0)])
@example([(0.1, 0.1, 0.3, 0.3), (0.1, 0.1, 0.3, 0.3), (0.7, 0.7, 0.2, 0.2)])
def test_every_corner_of_the_boxes_lies_in_the_ranges(ends: list[tuple[float, ...]]) -> None:
    check_corners(ends)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None)
@given(tables)
def test_every_corner_of_a_thousand_tables_lies_in_the_ranges(ends: list[tuple[float, ...]]) -> None:
    check_corners(ends)


def check_corners(ends: list[tuple[float, ...]]) -> None:
    """Every corner of the boxes, and some points inside, lies in all ranges."""
    table = np.array(ends)
    low, high = np.minimum(table[:, :2], table[:, 2:]), np.maximum(table[:, :2], table[:, 2:])
    found = ranges(low, high)
    for values in completions(low, high, np.random.default_rng(0)):
        assert missed(found, values) == []


def ascended(low: Host, high: Host, weight: Any, sign: float, rng: np.random.Generator) -> Host:
    """A corner of the boxes that ascent from a random one ends in; `weight` gives the gradient."""
    values = np.where(rng.random(low.shape) < 0.5, low, high)
    for _ in range(40):
        ahead = np.where(sign * weight(values) > 0, high, low)
        if (ahead == values).all():
            break
        values = ahead
    return values


def _gradient(name: str) -> Any:
    def covariance(v: Host) -> Host:
        return np.asarray((v - v.mean(axis=0))[:, ::-1])

    def correlation(v: Host) -> Host:
        z = (v - v.mean(axis=0)) / v.std(axis=0)
        return np.asarray(z[:, ::-1] - (z[:, 0] @ z[:, 1] / len(z)) * z)

    def slope(v: Host) -> Host:
        z = v - v.mean(axis=0)
        b = z[:, 0] @ z[:, 1] / (z[:, 0] @ z[:, 0])
        return np.stack([z[:, 1] - 2 * b * z[:, 0], z[:, 0]], axis=1)

    return {"covariance": covariance, "correlation": correlation, "slope": slope}[name]


@pytest.mark.parametrize("seed", range(4))
def test_ascent_over_corners_stays_inside_and_comes_near(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(60, 2)) @ np.array([[1.0, rng.uniform(-1, 1)], [0.0, 1.0]])
    half = np.abs(rng.normal(size=x.shape)) * 0.2
    low, high = x - half, x + half
    found = ranges(low, high)
    reached = {}
    for name in ("covariance", "correlation", "slope"):
        for sign in (-1.0, 1.0):
            corners = [ascended(low, high, _gradient(name), sign, rng) for _ in range(3)]
            assert all(missed(found, corner) == [] for corner in corners)
            reached[name, sign] = max(sign * _statistic(name, corner) for corner in corners)
        width = found[name][1] - found[name][0]
        # The ranges are nearly attained: of a correlation or slope, the corners are not the extremes themselves.
        assert reached[name, 1.0] + reached[name, -1.0] > (0.98 if name == "covariance" else 0.88) * width


def _statistic(name: str, v: Host) -> float:
    c = np.cov(v.T, bias=True)
    return float(
        {"covariance": c[0, 1], "correlation": c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]), "slope": c[0, 1] / c[0, 0]}[name]
    )


def test_the_variance_is_that_of_a_solver() -> None:
    rng = np.random.default_rng(5)
    low = rng.normal(size=(40, 1))
    high = low + rng.exponential(0.5, size=low.shape)
    found = IntervalBoxes.of(low, high).variance(0)
    solved = minimize(np.var, (low + high)[:, 0] / 2, bounds=list(zip(low[:, 0], high[:, 0], strict=True)))
    assert found[0] == pytest.approx(solved.fun, rel=1e-5)
    assert found[0] <= solved.fun
    corners = [np.where(rng.random(low.shape) < 0.5, low, high) for _ in range(10)]
    climbed = max(float(np.var(_climb(corner, low, high))) for corner in corners)
    assert climbed <= found[1] <= climbed + float((high - low).max() / 2 / len(low)) ** 2 + 1e-6


def _climb(values: Host, low: Host, high: Host) -> Host:
    for _ in range(100):
        ahead = np.where(values.mean() < (low + high) / 2, high, low)
        if (ahead == values).all():
            break
        values = ahead
    return values


def test_a_linearised_range_without_its_remainder_misses_a_completion() -> None:
    """Why the remainder is there: the range of the source's formula is too narrow."""
    low, high = np.full((4, 2), -1.0), np.full((4, 2), 1.0)
    middle, half = (low + high) / 2, (high - low) / 2
    centred = middle - middle.mean(axis=0)
    reach = float((np.abs(centred[:, ::-1]) * half).sum() / len(low))
    at = float((centred[:, 0] * centred[:, 1]).mean())
    found = ranges(low, high) | {"covariance": (at - reach, at + reach)}
    corners = completions(low, high, np.random.default_rng(0))
    assert any("covariance" in missed(found, corner) for corner in corners)
    assert not any(missed(ranges(low, high), corner) for corner in corners[:40])


def test_points_give_the_statistics_themselves() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(500, 2)) * [1e-3, 1e6] + [5.0, -1e9]
    found, c = ranges(x, x), np.cov(x.T, bias=True)
    expected = {
        "mean": x[:, 0].mean(),
        "variance": c[0, 0],
        "sd": np.sqrt(c[0, 0]),
        "covariance": c[0, 1],
        "correlation": c[0, 1] / np.sqrt(c[0, 0] * c[1, 1]),
        "slope": c[0, 1] / c[0, 0],
    }
    for name, (low, high) in found.items():
        assert low <= high
        assert (low, high) == pytest.approx(
            (expected[name], expected[name]),
            rel=1e-3 if name in ("correlation", "slope") else 1e-6,
            abs=1e-4 if name == "correlation" else 0,
        )


def test_boxes_merge_to_the_same_ranges() -> None:
    rng = np.random.default_rng(3)
    low = np.round(rng.normal(size=(300, 2)), 1)
    high = low + np.round(rng.random(size=low.shape), 1)
    whole = IntervalBoxes.of(low, high)
    merged = IntervalBoxes.of(low[:100], high[:100]).merge(IntervalBoxes.of(low[100:], high[100:]))
    assert merged.rows == 300
    for name in ("mean", "variance", "deviation"):
        assert getattr(whole, name)(0) == pytest.approx(getattr(merged, name)(0), rel=1e-12)
    assert whole.covariance(0, 1) == pytest.approx(merged.covariance(0, 1), rel=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_coefficients_of_several_regressors_lie_in_their_ranges(seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(200, 3)) @ np.array([[1.0, 0.3, 0.5], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]]) + [3.0, 0.0, -7.0]
    half = np.abs(rng.normal(size=x.shape)) * 0.03
    low, high = x - half, x + half
    found, how = regression(IntervalBoxes.of(low, high), 2, [0, 1])
    assert "Krawczyk" in how
    for _ in range(200):
        v = np.where(rng.random(x.shape) < rng.random(), low, high)
        design = np.column_stack([np.ones(len(v)), v[:, :2]])
        fitted = np.linalg.lstsq(design, v[:, 2], rcond=None)[0]
        assert all(a <= c <= b for (a, b), c in zip(found, fitted, strict=True))
    assert max(b - a for a, b in found[1:]) < 1.5


def test_what_the_boxes_do_not_determine_is_infinite() -> None:
    low, high = np.zeros((5, 3)), np.ones((5, 3))
    boxes = IntervalBoxes.of(low, high)
    assert boxes.correlation(0, 1) == (-1.0, 1.0)
    assert boxes.slope(0, 1) == (-math.inf, math.inf)
    assert regression(boxes, 2, [0, 1])[0][1] == (-math.inf, math.inf)


@pytest.mark.parametrize(
    ("low", "high"), [([[1.0]], [[0.0]]), ([[np.nan]], [[1.0]]), (np.empty((0, 1)), np.empty((0, 1)))]
)
def test_what_are_no_boxes_is_refused(low: Any, high: Any) -> None:
    with pytest.raises(InputError):
        IntervalBoxes.of(np.asarray(low), np.asarray(high))


def test_rounding_never_lowers_a_bound():
    rng = np.random.default_rng(5)
    form = slope_form(0.3)
    for _ in range(200):
        points = rng.normal(rng.choice([0.0, 1e3, 1e6], size=(2, 1)), 1.0, size=(2, 7))
        c, e = (
            float(rng.normal(sum(f * p.mean() for f, p in zip(fs, points, strict=True)))) for fs in (form.s, form.t)
        )
        share = rng.dirichlet(np.ones(7))
        # Boxes without width: the bound is one number, here in exact fractions.
        truth = Fraction(0)
        for x, y, weight in zip(*points, share, strict=True):
            s, t = (sum(Fraction(f) * Fraction(v) for f, v in zip(fs, (x, y), strict=True)) for fs in (form.s, form.t))
            a, b = Fraction(form.above), Fraction(form.below)
            truth += Fraction(weight) * (a * (s - Fraction(c)) ** 2 - b * (t - Fraction(e)) ** 2)
        pair = Pair(*(np.stack([column, column]) for column in points), share)
        found = pair.bound(form, c, e)[0]
        assert found >= truth
        assert found - float(truth) <= 1e-9 * (1 + np.square(points).max())
