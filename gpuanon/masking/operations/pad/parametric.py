"""Parametric draws: which part a value belongs to, by logistic regression, then the value, by gamma or beta regression.

References
----------
.. [1] W. Fried, D. Vamvourellis, Towards minimizing statistical distortion introduced by de-identification methods,
   section 4.1: a logistic model of zero, then a gamma regression with log link of the shifted probit of the grade; beta
   regression, with parts for zero and one, is what the authors wanted.
.. [2] S. Ferrari, F. Cribari-Neto (2004), Beta regression for modelling rates and proportions, J. Appl. Stat. 31(7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.masking.operations.pad.fill_columns import Predictors, Response

_LEVELS = 30  # most frequent levels that have a probability of their own; the others share one
_ROWS = 200_000  # rows that a likelihood is maximised on, at most
_PENALTY = 1e-4  # ridge on standardised coefficients, for separable parts


@dataclass(frozen=True, eq=False, repr=False)
class Logit:
    """Multinomial logistic regression: probabilities of the parts of a response."""

    parts: Host
    weights: Host
    bias: Host

    @classmethod
    def fit(cls, M: Host, labels: Host) -> Logit:
        """M : (n, p) predictors; labels : (n,) part of each row."""
        from sklearn.linear_model import LogisticRegression

        parts = np.unique(labels)
        if len(parts) == 1:
            return cls(parts, np.zeros((M.shape[1], 1)), np.zeros(1))
        with one_blas_thread():
            model = LogisticRegression(C=1 / (_PENALTY * len(M)), max_iter=200, tol=1e-5).fit(M, labels)
        weights, bias = model.coef_.T, model.intercept_
        if len(parts) == 2:  # scikit-learn keeps one column for two parts
            weights, bias = np.hstack([np.zeros_like(weights), weights]), np.array([0.0, bias[0]])
        return cls(parts, weights, bias)

    def probabilities(self, M: Host) -> Host:
        """(m, parts)."""
        with one_blas_thread():
            scores = M.astype(np.float64) @ self.weights + self.bias
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return np.asarray(scores / scores.sum(axis=1, keepdims=True))


class Shape(Protocol):
    """A distribution on (0, 1) whose parameters depend on predictors."""

    def draw(self, M: Host, u: Host) -> Host:
        """(m,) numbers in (0, 1) for the predictors `M` (m, p), by `u` (m,)."""


@dataclass(frozen=True, eq=False, repr=False)
class ProbitGamma:
    """Gamma regression, log link, of probit(y) + shift [1]: mean μ = exp(Mβ), variance φ μ²."""

    weights: Host
    bias: float
    dispersion: float
    shift: float

    @classmethod
    def fit(cls, M: Host, y: Host) -> ProbitGamma:
        """M : (n, p) predictors; y : (n,) in (0, 1).  φ by Pearson's statistic."""
        from scipy.special import ndtri
        from sklearn.linear_model import GammaRegressor

        z = ndtri(y)
        shift = float(0.1 - z.min())
        z = z + shift
        with one_blas_thread():
            model = GammaRegressor(alpha=_PENALTY, max_iter=500, tol=1e-6).fit(M, z)
            mean = model.predict(M)
        freedom = max(len(z) - M.shape[1] - 1, 1)
        dispersion = float((((z - mean) / mean) ** 2).sum() / freedom)
        return cls(model.coef_, float(model.intercept_), max(dispersion, 1e-9), shift)

    def draw(self, M: Host, u: Host) -> Host:
        from scipy.special import gammaincinv, ndtr

        with one_blas_thread():
            mean = np.exp(M.astype(np.float64) @ self.weights + self.bias)
        drawn = gammaincinv(1 / self.dispersion, u) * mean * self.dispersion
        return np.asarray(ndtr(drawn - self.shift))


@dataclass(frozen=True, eq=False, repr=False)
class Beta:
    """Beta regression [2]: mean by logit, precision by log, both linear in the predictors."""

    mean: Host
    precision: Host

    @classmethod
    def fit(cls, M: Host, y: Host, penalty: float = _PENALTY) -> Beta:
        """Maximum likelihood (L-BFGS), with a small ridge.  M : (n, p) predictors; y : (n,) in (0, 1)."""
        from scipy.optimize import minimize
        from scipy.special import digamma, expit, gammaln

        D = np.column_stack([np.ones(len(M)), M.astype(np.float64)])
        p, n = D.shape[1], len(D)
        a, b = np.log(y), np.log1p(-y)

        def loss(theta: Host) -> tuple[float, Host]:
            mu = np.clip(expit(D @ theta[:p]), 1e-8, 1 - 1e-8)
            phi = np.exp(np.clip(D @ theta[p:], -6, 12))
            one, two = mu * phi, (1 - mu) * phi
            value = gammaln(phi) - gammaln(one) - gammaln(two) + (one - 1) * a + (two - 1) * b
            d_mu = phi * (a - digamma(one) - b + digamma(two))
            d_phi = digamma(phi) + mu * (a - digamma(one)) + (1 - mu) * (b - digamma(two))
            slope = np.concatenate([D.T @ (d_mu * mu * (1 - mu)), D.T @ (d_phi * phi)])
            ridge = theta.copy()
            ridge[[0, p]] = 0
            return -float(value.mean()) + penalty * float(ridge @ ridge) / 2, -slope / n + penalty * ridge

        with one_blas_thread():
            found = minimize(loss, _start(y, p), jac=True, method="L-BFGS-B", options={"maxiter": 300}).x
        return cls(found[:p], found[p:])

    def draw(self, M: Host, u: Host) -> Host:
        from scipy.special import betaincinv, expit

        D = np.column_stack([np.ones(len(M)), M.astype(np.float64)])
        with one_blas_thread():
            mu = np.clip(expit(D @ self.mean), 1e-6, 1 - 1e-6)
            phi = np.exp(np.clip(D @ self.precision, -6, 12))
        return np.asarray(betaincinv(mu * phi, (1 - mu) * phi, u))


def _start(y: Host, p: int) -> Host:
    """Coefficients to start from: the moments of all values, no effect of a predictor."""
    mean, variance = float(np.clip(y.mean(), 1e-3, 1 - 1e-3)), max(float(y.var()), 1e-6)
    start = np.zeros(2 * p)
    start[0], start[p] = np.log(mean / (1 - mean)), np.log(max(mean * (1 - mean) / variance - 1, 0.05))
    return start


@dataclass(frozen=True, eq=False, repr=False)
class PartsModel:
    """A part for each row by logistic regression; then the part's one value, or a draw from its distribution.

    single  : value of each part; NaN for nulls
    rest    : number of the part that has a distribution; −1 for none
    scale   : lowest value of the rest, and width of its range, which the distribution covers
    lattice : values of the rest that occur, ascending; of levels each as often as it occurs
    """

    predictors: Predictors
    logit: Logit
    single: Host
    rest: int
    shape: Shape | None
    scale: tuple[float, float]
    lattice: Host
    response: Response

    def given(self, X: Host) -> Callable[[Host], Host]:
        """Draws for the rows of the known columns `X` (m, c): from uniform numbers (m, 2) to values (m,)."""
        M = self.predictors.matrix(X)
        running = np.cumsum(self.logit.probabilities(M), axis=1)[:, :-1]

        def draw(u: Host) -> Host:
            part = self.logit.parts[(u[:, 1, None] > running).sum(axis=1)]
            values = self.single[part]
            rows = np.flatnonzero(part == self.rest)
            if len(rows) and self.shape is not None:
                drawn = self.shape.draw(M[rows], u[rows, 0]) * self.scale[1] + self.scale[0]
                values[rows] = self.response.nearest(drawn, self.lattice)
            elif len(rows):
                values[rows] = self.lattice[(u[rows, 0] * len(self.lattice)).astype(np.int64)]
            return np.asarray(values)

        return draw


def parts_model(
    X: Host, levels: Sequence[int], response: Response, kind: Literal["probit-gamma", "beta"], seed: int
) -> PartsModel:
    """Fit to known columns `X` (n, c) and the response.

    Parts of numbers: nulls, the most frequent value (for beta: the lowest and the highest) where it is a point mass,
    and the rest, which has the distribution `kind` on its range.  Parts of levels: each of the most frequent, and the
    others together, one of which is drawn as often as it occurs.
    """
    predictors = Predictors.fit(X, levels, response.outputs(), linear=True)
    some = np.sort(np.random.default_rng(seed).permutation(len(X))[:_ROWS])
    values = response.values[some]
    single = _single(response, kind)
    part = np.full(len(values), len(single))
    for number, value in enumerate(single):
        part[np.isnan(values) if np.isnan(value) else values == value] = number
    M = predictors.matrix(X[some])
    logit = Logit.fit(M, part)
    inner = np.flatnonzero(part == len(single))
    lattice = np.sort(values[inner]) if response.levels else np.unique(values[inner])
    shape, scale = None, (0.0, 1.0)
    if len(lattice) > 1 and not response.levels:
        step = float(np.diff(lattice).min())
        scale = (lattice[0] - step / 2, lattice[-1] - lattice[0] + step)
        y = np.clip((values[inner] - scale[0]) / scale[1], 1e-6, 1 - 1e-6)
        shape = ProbitGamma.fit(M[inner], y) if kind == "probit-gamma" else Beta.fit(M[inner], y)
    every = np.append(single, np.nan)
    return PartsModel(predictors, logit, every, len(single), shape, scale, lattice, response)


def _single(response: Response, kind: str) -> Host:
    """The values that are a part of their own; NaN for nulls."""
    values, counts = response.distinct
    if response.levels:
        chosen = values[np.argsort(-counts, kind="stable")[:_LEVELS]]
    elif kind == "beta" and len(values) > 2:
        chosen = np.intersect1d(response.atoms, values[[0, -1]])
    else:
        chosen = response.atoms[:1]
    nulls = [np.nan] if response.null.any() else []
    return np.concatenate([chosen, nulls])
