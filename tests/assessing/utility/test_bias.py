"""Mean bias, correlation bias and regression drift against NumPy and statsmodels."""

from __future__ import annotations

import numpy as np
import pytest
from statsmodels.api import OLS, add_constant

from gpuanon.assessing.utility.bias import correlation_bias, mean_bias, regression_drift
from gpuanon.errors import InputError, ParameterError


@pytest.fixture
def tables() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(1)
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4)) + 3
    return X, X[:150] + rng.normal(size=(150, 4))


def test_biases_equal_numpy(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    assert mean_bias(X, Y).value == pytest.approx(np.abs(Y.mean(axis=0) - X.mean(axis=0)).mean())
    change = mean_bias(X, Y).details["change_by_column"]
    np.testing.assert_allclose(list(change.values()), Y.mean(axis=0) - X.mean(axis=0))
    upper = np.triu_indices(4, 1)
    expected = np.abs(np.corrcoef(Y.T) - np.corrcoef(X.T))[upper]
    assert correlation_bias(X, Y).value == pytest.approx(expected.mean())
    assert correlation_bias(X, Y).details["max"] == pytest.approx(expected.max())


def test_regressions_equal_statsmodels(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    measured = regression_drift(X, Y, response=1, names=["age", "income", "height", "weight"])
    fits = [OLS(table[:, 1], add_constant(table[:, [0, 2, 3]])).fit() for table in (X, Y)]
    for side, fit in zip(("original", "release"), fits, strict=True):
        found = measured.details[side]
        assert list(found) == ["age", "height", "weight"]
        for key, expected in (("coefficient", fit.params), ("standard_error", fit.bse), ("p", fit.pvalues)):
            np.testing.assert_allclose([column[key] for column in found.values()], expected[1:], atol=1e-12)
    shift = np.abs(fits[1].params - fits[0].params)[1:] / fits[0].bse[1:]
    assert measured.value == pytest.approx(shift.mean())
    assert measured.details["response"] == "income"
    np.testing.assert_allclose(list(measured.to_json()["by_column"].values()), shift)


def test_a_copy_does_not_drift(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, _ = tables
    for measure in (mean_bias, correlation_bias, regression_drift):
        assert measure(X, X.copy()).value == 0
    drift = regression_drift(X, X.copy())
    assert drift.details["intervals_overlap"] == 1
    assert drift.details["sign_changes"] == drift.details["significance_changes"] == 0
    turned = regression_drift(X, X * [1, 1, 1, -1])
    assert turned.details["sign_changes"] == 3


def test_constant_columns_and_bad_columns(tables: tuple[np.ndarray, np.ndarray]) -> None:
    X, Y = tables
    X = np.column_stack([np.full(200, 0.1), X])
    Y = np.column_stack([np.full(150, 0.1), Y])
    assert "constant" in str(correlation_bias(X, Y).note)
    assert "constant" in str(regression_drift(X, Y).note)
    with pytest.raises(InputError, match="constant"):
        regression_drift(X, Y, response=0)
    with pytest.raises(ParameterError, match="response"):
        regression_drift(X, Y, response=7)
    with pytest.raises(InputError, match="fewer records"):
        regression_drift(X[:3], Y[:3])


@pytest.mark.parametrize("last", ["category", "nulls"])
def test_the_response_is_not_explained_by_its_own_features(last: str) -> None:
    """Levels of a category add up to a constant, and so would explain each other without error."""
    rng = np.random.default_rng(3)
    tables = []
    for _ in range(2):
        others, code = rng.normal(size=(300, 2)), rng.integers(0, 3, 300)
        own = 2.0 * (code[:, None] == np.arange(3)) - 1 if last == "category" else rng.normal(size=(300, 2))
        tables.append(np.hstack([others, own]))
    names = ["a", "b", *["c"] * (tables[0].shape[1] - 2)]
    fits = [OLS(table[:, 2], add_constant(table[:, :2])).fit() for table in tables]
    found = regression_drift(*tables, names=names)
    shifts = np.abs(fits[1].params - fits[0].params)[1:] / fits[0].bse[1:]
    assert found.value == pytest.approx(shifts.mean())
    assert found.parts[0].values.keys() == {"a", "b"}
