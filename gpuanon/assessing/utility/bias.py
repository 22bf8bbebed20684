"""Mean bias, correlation bias and drift of a regression: what masking does to an analysis of named columns.

References
----------
.. [1] S. Fried, A. Vamvourellis, synthetic rows for k-anonymity: mean bias and correlation bias (section 2.4); the
   change of a regression's coefficients, p-values and confidence intervals is what the authors wanted next.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, to_host
from gpuanon.assessing.figures import Figure, Measured
from gpuanon.assessing.utility.differences import correlation_matrix, varying
from gpuanon.assessing.utility.pairs import require_comparable
from gpuanon.errors import InputError, ParameterError

Floats = np.ndarray[Any, Any]


def mean_bias(original: Array, release: Array) -> Measured:
    """Change of the column means, in the columns' own units; the value is the mean absolute change."""
    require_comparable(original, release)
    bias = to_host(release.mean(axis=0)) - to_host(original.mean(axis=0))
    return Measured(float(np.abs(bias).mean()), {"columns": [float(value) for value in bias]})


def correlation_bias(original: Array, release: Array) -> Measured:
    """Change of the correlations of all pairs of columns; the value is the mean absolute change."""
    require_comparable(original, release)
    first, second = np.triu_indices(original.shape[1], 1)
    bias = (correlation_matrix(release) - correlation_matrix(original))[first, second]
    known = ~np.isnan(bias)
    if not known.any():
        raise InputError("correlation_bias: not defined, no pair of columns varies in both original and release")
    worst = int(np.nanargmax(np.abs(bias)))
    details: dict[str, Figure] = {
        "max": float(np.abs(bias[worst])),
        "worst_pair": [int(first[worst]), int(second[worst])],
        "pairs": int(known.sum()),
    }
    left_out = int((~known).sum())
    note = f"{left_out} pairs with a constant column are left out" if left_out else None
    return Measured(float(np.abs(bias[known]).mean()), details, note)


def regression_drift(original: Array, release: Array, *, response: int = -1) -> Measured:
    """Shift of the coefficients of a linear regression of one column on the others, in their standard errors.

    The value is the mean absolute shift; beside it coefficients, standard errors, p-values (of each table taken by
    itself), whether the intervals of 95 % overlap, and how many coefficients change sign or significance.

    response : number of the column that is explained
    """
    require_comparable(original, release)
    d = original.shape[1]
    if d < 2 or not -d <= response < d:
        raise ParameterError(f"response: a column of at least two is needed, got {response} of {d}")
    before, after = to_host(original).astype(float), to_host(release).astype(float)
    response %= d
    others = [j for j in range(d) if j != response and varying(before)[j] and varying(after)[j]]
    if not others or not varying(before)[response]:
        raise InputError("regression_drift: not defined, the response or all other columns are constant")
    fits = [_fit(table[:, others], table[:, response]) for table in (before, after)]
    (beta, error, p), (beta_after, error_after, p_after) = fits
    shift = np.abs(beta_after - beta) / np.where(error > 0, error, np.nan)
    if np.isnan(shift).all():
        raise InputError("regression_drift: not defined, the regression of the original leaves no error")
    overlap = np.abs(beta_after - beta) <= 1.96 * (error + error_after)
    details: dict[str, Figure] = {
        "columns": list(others),
        "coefficients": [_list(beta), _list(beta_after)],
        "standard_errors": [_list(error), _list(error_after)],
        "p_values": [_list(p), _list(p_after)],
        "max": float(np.nanmax(shift)),
        "intervals_overlap": float(overlap.mean()),
        "sign_changes": int((np.sign(beta) != np.sign(beta_after)).sum()),
        "significance_changes": int(((p < 0.05) != (p_after < 0.05)).sum()),
    }
    left_out = d - 1 - len(others)
    note = f"{left_out} constant columns are left out" if left_out else None
    return Measured(float(np.nanmean(shift)), details, note)


def _fit(X: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Least squares with an intercept: coefficients, standard errors, two-sided p-values, without the intercept."""
    from scipy.stats import t

    n = len(X)
    design = np.column_stack([np.ones(n), X])
    beta, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    freedom = n - int(rank)
    if freedom < 1:
        raise InputError("regression_drift: not defined, there are fewer records than columns")
    residual = y - design @ beta
    covariance = np.linalg.pinv(design.T @ design) * float(residual @ residual) / freedom
    error = np.sqrt(np.clip(np.diag(covariance), 0, None))
    score = np.abs(beta) / np.where(error > 0, error, np.nan)
    return beta[1:], error[1:], np.nan_to_num(2 * t.sf(score, freedom), nan=0.0)[1:]


def _list(values: Floats) -> list[Figure]:
    """Plain numbers."""
    return [float(value) for value in values]
