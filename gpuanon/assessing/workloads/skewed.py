"""Regressions of costs, which are 0 for many people and have a long right tail.

====================  ==================================================================================================
linear                 least squares on the cost itself (`gpuanon.assessing.workloads.regression`)
log                    least squares on log(1 + y); back by the smearing factor, the mean of exp(residual) [1]_
two-part               probability of any cost (logistic), times the smeared log regression of the costs above 0
gamma                  probability of any cost, times a gamma GLM with log link of the costs above 0
multiplicative         E[y] = exp(x β) by the Poisson score equations, which need no more than this mean; zeros included
====================  ==================================================================================================

References
----------
.. [1] N. Duan (1983), Smearing estimate: a nonparametric retransformation method, J. Am. Stat. Assoc. 78.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.declared_workloads import CostModel as Model
from gpuanon.assessing.workloads.regression import Coding, design, fit_weighted
from gpuanon.errors import ParameterError

_PENALTY = 1e-10  # of squared coefficients: a level without records gets 0, the others do not feel it


@dataclass(frozen=True, eq=False)
class CostFit:
    """A fitted model of the mean cost."""

    model: Model
    predict: Callable[[Host], Host]


def fit_cost(
    x: Host,
    y: Host,
    weights: Host | None = None,
    *,
    model: Model = "linear",
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
