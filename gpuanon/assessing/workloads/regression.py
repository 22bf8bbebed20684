"""Weighted regression on discrete predictors, dummy-coded or numeric, and the error of its predictions.

The two models of section 4.4 of [1]: a sum of univariate functions of each predictor that may take any shape
(dummy-coded), or that are linear (numeric).  Costs are 0 for many people and have a long right tail; `fit_cost` has
models for them:

====================  ==================================================================================================
linear                 least squares on the cost itself
log                    least squares on log(1 + y); back by the smearing factor, the mean of exp(residual) [2]_
two-part               probability of any cost (logistic), times the smeared log regression of the costs above 0
gamma                  probability of any cost, times a gamma GLM with log link of the costs above 0
multiplicative         E[y] = exp(x β) by the Poisson score equations, which need no more than this mean; zeros included
====================  ==================================================================================================

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity.
.. [2] N. Duan (1983), Smearing estimate: a nonparametric retransformation method, J. Am. Stat. Assoc. 78.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.declared_models import CostModel
from gpuanon.errors import ParameterError

Coding = Literal["dummy", "numeric"]


def design(x: Host, coding: Coding, levels: tuple[int, ...] | None = None) -> Host:
    """(n, terms) design matrix with an intercept.

    Parameters
    ----------
    x : (n, d) predictors; for dummies whole numbers, the levels 0, 1, … of each column
    coding : ``"dummy"`` gives a column for each level but the first; ``"numeric"`` takes the levels as numbers
    levels : number of levels of each column (dummy); None: as many as occur
    """
    x = np.asarray(x)
    intercept = np.ones((len(x), 1))
    if coding == "numeric":
        return np.hstack([intercept, x.astype(np.float64)])
    if coding != "dummy":
        raise ParameterError(f"coding: dummy or numeric is allowed, got {coding!r}")
    whole = np.rint(x).astype(np.int64)
    counts = tuple(int(column.max()) + 1 for column in whole.T) if levels is None else levels
    if (whole < 0).any() or (whole >= np.asarray(counts)).any() or np.abs(whole - x).max(initial=0) > 1e-9:
        raise ParameterError("levels: dummy coding needs whole numbers from 0 to the number of levels of the column")
    dummies = [(whole[:, j, None] == np.arange(1, count)).astype(np.float64) for j, count in enumerate(counts)]
    return np.hstack([intercept, *dummies])


@dataclass(frozen=True, eq=False)
class Fit:
    """A fitted regression: ``predict(x) = design(x) @ coefficients``."""

    coefficients: Host
    coding: Coding
    levels: tuple[int, ...] | None

    def predict(self, x: Host) -> Host:
        """(n,) predictions."""
        return np.asarray(design(x, self.coding, self.levels) @ self.coefficients)


def fit_weighted(
    x: Host,
    y: Host,
    weights: Host | None = None,
    *,
    coding: Coding = "numeric",
    levels: tuple[int, ...] | None = None,
) -> Fit:
    """Least squares with weights: minimise ``Σ w_i (y_i − f(x_i))²``.

    Where the terms are not determined (a level without any weight), the solution of least norm is taken, which gives
    such a level the coefficient 0: it is predicted as the column's first level is.
    """
    x, y = np.asarray(x), np.asarray(y, dtype=np.float64)
    root = np.ones(len(y)) if weights is None else np.sqrt(np.asarray(weights, dtype=np.float64))
    if not root.sum() > 0:
        raise ParameterError("weights: at least one record needs a weight above 0")
    if coding == "dummy" and levels is None:
        levels = tuple(int(column.max()) + 1 for column in np.rint(x).astype(np.int64).T)
    terms = design(x, coding, levels)
    coefficients = np.linalg.lstsq(terms * root[:, None], y * root, rcond=1e-10)[0]
    return Fit(coefficients, coding, levels)


def relative_bias(predicted: Host, actual: Host, weights: Host | None = None) -> float:
    """``(mean prediction − mean response) / mean response``, weighted, in per cent."""
    mean = np.average(actual, weights=weights)
    return float(100 * (np.average(predicted, weights=weights) - mean) / mean)


def r_squared(predicted: Host, actual: Host, weights: Host | None = None) -> float:
    """``1 − Σ w (y − ŷ)² / Σ w (y − ȳ)²``: the share of variance that the predictions explain; may be negative."""
    mean = np.average(actual, weights=weights)
    residual = np.average((actual - predicted) ** 2, weights=weights)
    return float(1 - residual / np.average((actual - mean) ** 2, weights=weights))


_PENALTY = 1e-10  # of squared coefficients: a level without records gets 0, the others do not feel it


@dataclass(frozen=True, eq=False)
class CostFit:
    """A fitted model of the mean cost."""

    model: CostModel
    predict: Callable[[Host], Host]


def fit_cost(
    x: Host,
    y: Host,
    weights: Host | None = None,
    *,
    model: CostModel = "linear",
    coding: Coding = "numeric",
    levels: tuple[int, ...] | None = None,
) -> CostFit:
    """Fit the mean of `y`, at least 0, given `x`; parameters as in `fit_weighted`."""
    x, y = np.asarray(x), np.asarray(y, dtype=np.float64)
    weights = np.ones(len(y)) if weights is None else np.asarray(weights, dtype=np.float64)
    if model not in _POSITIVE and model not in ("linear", "log", "multiplicative"):
        raise ParameterError(f"model: linear, log, two-part, gamma or multiplicative is allowed, got {model!r}")
    if model != "linear" and y.min(initial=0) < 0:
        raise ParameterError(f"model: {model} needs responses of at least 0")
    if not weights.sum() > 0:
        raise ParameterError("weights: at least one record needs a weight above 0")
    if coding == "dummy" and levels is None:
        levels = tuple(int(column.max()) + 1 for column in np.rint(x).astype(np.int64).T)
    if model == "linear":
        return CostFit(model, fit_weighted(x, y, weights, coding=coding, levels=levels).predict)

    def terms(rows: Host) -> Host:
        return design(rows, coding, levels)

    known = terms(x)
    if model == "log":
        shifted = _smeared(known, y + 1, weights)
        return CostFit(model, lambda rows: shifted(terms(rows)) - 1)
    if model == "multiplicative":
        mean = _log_link(known, y, weights, "poisson")
        return CostFit(model, lambda rows: mean(terms(rows)))
    above = y > 0
    if not (above & (weights > 0)).any():
        return CostFit(model, lambda rows: np.zeros(len(rows)))
    chance = _chance(known, above, weights)
    size = _POSITIVE[model](known[above], y[above], weights[above])
    return CostFit(model, lambda rows: chance(terms(rows)) * size(terms(rows)))


def _smeared(terms: Host, y: Host, weights: Host) -> Callable[[Host], Host]:
    """exp of the regression of log y, times the weighted mean of exp(residual)."""
    root = np.sqrt(weights)
    coefficients = np.linalg.lstsq(terms * root[:, None], np.log(y) * root, rcond=1e-10)[0]
    smear = np.average(y / np.exp(terms @ coefficients), weights=weights)
    return lambda rows: np.asarray(smear * np.exp(rows @ coefficients))


def _log_link(terms: Host, y: Host, weights: Host, family: str) -> Callable[[Host], Host]:
    """A GLM with log link."""
    from sklearn.linear_model import GammaRegressor, PoissonRegressor

    known = weights > 0
    scale = np.average(y, weights=weights)
    if scale == 0:
        return lambda rows: np.zeros(len(rows))
    kind = {"gamma": GammaRegressor, "poisson": PoissonRegressor}[family]
    model = kind(alpha=_PENALTY, solver="newton-cholesky", max_iter=200, tol=1e-10)
    model.fit(terms[known, 1:], y[known] / scale, sample_weight=weights[known])
    return lambda rows: np.asarray(scale * model.predict(rows[:, 1:]))


def _chance(terms: Host, above: Host, weights: Host) -> Callable[[Host], Host]:
    """Probability of a cost above 0, by logistic regression."""
    from sklearn.linear_model import LogisticRegression

    known = weights > 0
    if above[known].all():
        return lambda rows: np.ones(len(rows))
    model = LogisticRegression(C=1 / (_PENALTY * weights.sum()), solver="newton-cholesky", max_iter=200, tol=1e-10)
    model.fit(terms[known, 1:], above[known], sample_weight=weights[known])
    return lambda rows: np.asarray(model.predict_proba(rows[:, 1:])[:, 1])


def _gamma(terms: Host, y: Host, weights: Host) -> Callable[[Host], Host]:
    return _log_link(terms, y, weights, "gamma")


_POSITIVE: dict[str, Callable[[Host, Host, Host], Callable[[Host], Host]]] = {
    "two-part": _smeared,
    "gamma": _gamma,
}
