"""Weighted regression on discrete predictors, dummy-coded or numeric, and how far its predictions are off.

The two models of section 4.4 of [1]: a sum of univariate functions of each predictor that may take any shape
(dummy-coded), or that are linear (numeric).

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from gpuanon.arrays.backend import Host
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
