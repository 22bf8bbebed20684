"""Confidence intervals and estimator errors against SciPy and known ratios."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from gpuanon.assessing.utility import confidence_overlap as confidence
from gpuanon.assessing.utility.confidence_overlap import confidence_overlap, estimator_mse
from gpuanon.errors import InputError, ParameterError


def test_overlap_from_scipys_intervals() -> None:
    rng = np.random.default_rng(1)
    X, Y = rng.normal(size=(100, 3)), rng.normal(size=(80, 3)) + 0.1
    overlaps = []
    for j in range(3):
        (a, b), (c, d) = (stats.norm.interval(0.9, loc=t[:, j].mean(), scale=stats.sem(t[:, j])) for t in (X, Y))
        common = min(b, d) - max(a, c)
        overlaps.append((common / (b - a) + common / (d - c)) / 2)
    measured = confidence_overlap(X, Y, level=0.9)
    assert measured.value == pytest.approx(np.mean(overlaps))
    np.testing.assert_allclose(list(measured.to_json()["by_column"].values()), overlaps)


def test_overlap_extremes() -> None:
    X = np.random.default_rng(2).normal(size=(200, 2))
    copy = confidence_overlap(X, X.copy())
    assert copy.value == pytest.approx(1)
    assert copy.details["mean_inside"] == copy.details["median_share_inside"] == 1
    apart = confidence_overlap(X, X + 10)
    assert apart.value < 0
    assert apart.details["mean_inside"] == apart.details["median_share_inside"] == 0
    centre = confidence_overlap(X, np.repeat(X.mean(axis=0, keepdims=True), 200, axis=0))
    assert centre.value == pytest.approx(0.5)


def test_constant_columns_and_bad_levels() -> None:
    X = np.column_stack([np.ones(20), np.arange(20.0)])
    found = confidence_overlap(X, X, names=["region", "age"])
    assert found.to_json()["by_column"]["region"] is None
    assert found.note == "constant in the original and left out: region"
    for measure in (confidence_overlap, estimator_mse):
        with pytest.raises(InputError, match="constant"):
            measure(X[:, :1], X[:, :1])
    with pytest.raises(ParameterError, match="level"):
        confidence_overlap(X, X, level=1)
    with pytest.raises(ParameterError, match="rounds"):
        estimator_mse(X, X, rounds=1)


def test_added_variance_and_bias_raise_the_error_as_they_should() -> None:
    rng = np.random.default_rng(3)
    X = rng.normal(size=(4000, 3))
    # Noise of the same variance doubles the variance of the mean; a copy leaves every estimator as it is.
    Z = rng.normal(size=X.shape)
    Z -= Z.mean(axis=0)
    assert estimator_mse(X, X.copy()).value == pytest.approx(1)
    assert estimator_mse(X, X + Z).to_json()["by_estimator"]["mean"] == pytest.approx(2, rel=0.25)
    # A shift of 5 standard errors is a bias² of 25 variances.
    assert estimator_mse(X, X + 5 / np.sqrt(4000)).to_json()["by_estimator"]["mean"] == pytest.approx(26, rel=0.25)


def test_bootstrap_variance_of_the_mean_is_the_textbook_one() -> None:
    from gpuanon.assessing.utility.confidence_overlap import _sampled, _variances

    X = np.random.default_rng(4).normal(size=(25_000, 1))
    assert len(_sampled(X)) == 20_000
    assert _variances(_sampled(X), 400, len(X))[0, 0] == pytest.approx(X.var() / 25_000, rel=0.25)


@pytest.mark.parametrize("size", [2, 3, 50, 501])
@pytest.mark.parametrize("deviations", [8, 0])
def test_medians_of_resamples_are_those_of_the_drawn_rows(
    size: int, deviations: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of continuous, tied and two-valued columns, near the middle of the rows and far from it."""
    monkeypatch.setattr(confidence, "_DEVIATIONS", deviations)
    rng = np.random.default_rng(size)
    X = np.column_stack([rng.standard_normal(size), rng.integers(0, 4, size), rng.integers(0, 2, size)]).astype(float)
    medians = confidence._Medians(X)
    drawn = [*rng.integers(0, size, (20, size)), np.zeros(size, dtype=int), np.full(size, size - 1)]
    found = medians.of(np.stack([np.bincount(rows, minlength=size) for rows in drawn]))
    np.testing.assert_array_equal(found, [np.median(X[rows], axis=0) for rows in drawn])


@pytest.mark.parametrize(("value", "own"), [(0.1, 1.0), (3.1, 0.0)])
def test_a_released_column_of_one_value_is_a_point(value: float, own: float) -> None:
    """Whatever rounding leaves of its deviation: half of the overlap is the point's own, the rest the interval's."""
    original = np.random.default_rng(1).normal(size=(100, 1))
    original += 0.15 - original.mean()
    low, high = stats.norm.interval(0.95, original.mean(), stats.sem(original[:, 0]))
    common = min(high, value) - max(low, value)
    expected = (common / (high - low) + own) / 2
    assert confidence_overlap(original, np.full((100, 1), value)).value == pytest.approx(expected)
