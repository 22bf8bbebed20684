"""Mean bias, correlation bias and drift of a regression: what masking does to an analysis of named columns.

References
----------
.. [1] S. Fried, A. Vamvourellis, synthetic rows for k-anonymity: mean bias and correlation bias (section 2.4); the
   change of a regression's coefficients, p-values and confidence intervals is what the authors wanted next.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.columns import (
    Names,
    column_names,
    constant_note,
    fold,
    largest_absolute,
    places,
    require_comparable,
)
from gpuanon.assessing.comparison import numbers_of, only
from gpuanon.assessing.evidence import EvidenceSource, TableMoments, moment_evidence
from gpuanon.assessing.figures import By, Figure, Measured
from gpuanon.assessing.measure import FROM_0, NAMES, NULL_IS_MARKED, USED, Measure, Weights
from gpuanon.assessing.utility.differences import both_moments, by_pair, varying
from gpuanon.errors import InputError, ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def mean_bias(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Change of the column means, in the columns' own units; the value is the mean absolute change.

    By column, with its sign: the feature that changed most.
    """
    return mean_bias_of(*both_moments(original, release), column_names(names, original.shape[1]))


def correlation_bias(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Change of the correlations of all pairs of features; the value is the mean absolute change.

    By pair of columns, and constant features: as in `gpuanon.assessing.utility.differences.correlations`.
    """
    return correlation_bias_of(*both_moments(original, release), column_names(names, original.shape[1]))


def mean_bias_of(before: TableMoments, after: TableMoments, names: Sequence[str]) -> Measured:
    """`mean_bias` from moments."""
    bias = after.mean - before.mean
    signed = fold(bias, names, largest_absolute)
    details: dict[str, Figure] = {"change_by_column": dict(signed)}
    sizes = {name: None if value is None else abs(value) for name, value in signed.items()}
    note = constant_note(names, np.ones(len(bias), dtype=bool), after.varies | ~before.varies)
    return Measured(float(np.abs(bias).mean()), details, note, parts=(By("column", sizes),))


def correlation_bias_of(before: TableMoments, after: TableMoments, names: Sequence[str]) -> Measured:
    """`correlation_bias` from moments."""
    return by_pair(before, after, names, "correlation_bias", np.mean)


def regression_drift(original: Array, release: Array, *, response: int | None = None, names: Names = None) -> Measured:
    """Shift of the coefficients of a linear regression of one feature on the others, in their standard errors.

    The value is the mean absolute shift.  By column: the coefficient that shifted most, with its standard error and
    p-value in each table taken by itself; whether the intervals of 95 % overlap, and how many coefficients change sign
    or significance, are counted over all.

    response : number of the feature that is explained; None: the first feature of the last column.  The other features
        of its column, which would explain it by themselves, are left out
    """
    require_comparable(original, release)
    d = original.shape[1]
    labels = column_names(names, d)
    response = labels.index(labels[-1]) if response is None else response
    if d < 2 or not -d <= response < d:
        raise ParameterError(f"response: a column of at least two is needed, got {response} of {d}")
    before, after = (to_host(table).astype(float, copy=False) for table in (original, release))
    response %= d
    varies = varying(before), varying(after)
    own = labels[response]
    others = [j for j in range(d) if labels[j] != own and varies[0][j] and varies[1][j]]
    if not others or not varies[0][response]:
        raise InputError("regression_drift: not defined, the response or all other columns are constant")
    fits = [_fit(table, others, response) for table in (before, after)]
    (beta, error, p), (beta_after, error_after, p_after) = fits
    shift = np.abs(beta_after - beta) / np.where(error > 0, error, np.nan)
    if np.isnan(shift).all():
        raise InputError("regression_drift: not defined, the regression of the original leaves no error")
    overlap = np.abs(beta_after - beta) <= 1.96 * (error + error_after)
    used = [labels[j] for j in others]
    worst = {name: rows[int(np.argmax(np.nan_to_num(shift[rows])))] for name, rows in places(used).items()}
    details: dict[str, Figure] = {
        "response": labels[response],
        "max": float(np.nanmax(shift)),
        "original": _coefficients(fits[0], worst),
        "release": _coefficients(fits[1], worst),
        "intervals_overlap": float(overlap.mean()),
        "sign_changes": int((np.sign(beta) != np.sign(beta_after)).sum()),
        "significance_changes": int(((p < 0.05) != (p_after < 0.05)).sum()),
    }
    note = constant_note(labels, *varies)
    if note is not None:
        note += " (left out of the regressions)"
    return Measured(float(np.nanmean(shift)), details, note, parts=(By("column", fold(shift, used)),))


def _coefficients(fit: tuple[Host, Host, Host], chosen: dict[str, int]) -> dict[str, Figure]:
    """Coefficient, standard error and p-value by column."""
    return {
        name: {"coefficient": float(fit[0][at]), "standard_error": float(fit[1][at]), "p": float(fit[2][at])}
        for name, at in chosen.items()
    }


def _fit(X: Host, others: Sequence[int], response: int) -> tuple[Host, Host, Host]:
    """Least squares with an intercept: coefficients, standard errors, two-sided p-values, without the intercept."""
    from scipy.stats import t

    n, y = len(X), X[:, response]
    design = np.ones((n, 1 + len(others)))
    for at, j in enumerate(others, 1):  # no second copy of the table
        design[:, at] = X[:, j]
    beta, _, rank, _ = np.linalg.lstsq(design, y, rcond=None)
    freedom = n - int(rank)
    if freedom < 1:
        raise InputError("regression_drift: not defined, there are fewer records than columns")
    residual = y - design @ beta
    covariance = np.linalg.pinv(design.T @ design) * float(residual @ residual) / freedom
    error = np.sqrt(np.clip(np.diag(covariance), 0, None))
    score = np.abs(beta) / np.where(error > 0, error, np.nan)
    return beta[1:], error[1:], np.nan_to_num(2 * t.sf(score, freedom), nan=0.0)[1:]


def _mean_bias(source: EvidenceSource, columns: list[str] | None = None) -> Measured:
    """Mean absolute change of the means of the named columns, in their own units; of all columns without names."""
    if columns is None:
        return mean_bias_of(*source.collect(moment_evidence))
    before, after = numbers_of(source, columns)
    own = _weights(source)
    change = _known_means(after, own[1]) - _known_means(before, own[0])
    signed = {name: float(value) for name, value in zip(columns, change, strict=True)}
    sizes = {name: abs(value) for name, value in signed.items()}
    return Measured(float(np.abs(change).mean()), {"change_by_column": dict(signed)}, parts=(By("column", sizes),))


def _correlation_bias(source: EvidenceSource, pair: list[str] | None = None) -> Measured:
    """Absolute change of the correlation of a named pair of columns; of all pairs without a name."""
    if pair is None:
        return correlation_bias_of(*source.collect(moment_evidence))
    if len(pair) != 2:
        raise ParameterError(f"pair: two columns are needed, got {len(pair)}")
    found = []
    for values, own in zip(numbers_of(source, pair), _weights(source), strict=True):
        known = ~np.isnan(values).any(axis=1)
        complete = values[known]
        if len(complete) < 2 or not (complete.std(axis=0) > 0).all():
            raise InputError("correlation_bias: not defined, a column of the pair is constant")
        found.append(float(TableMoments.of(complete, None if own is None else own[known]).correlation[0, 1]))
    details = {"original": found[0], "release": found[1], "change": found[1] - found[0]}
    return Measured(abs(found[1] - found[0]), {**details, "pair": list(pair)})


def _regression_drift(
    c: Comparison,
    response: str | None = None,
    predictors: list[str] | None = None,
) -> Measured:
    """Of a named response on named predictors; without names, of the last column on all."""
    if response is None and predictors is None:
        return regression_drift(*c.encoded, names=c.features)
    if response is None or not predictors:
        raise ParameterError("response, predictors: both are needed")
    chosen = only(c, [*(name for name in predictors if name != response), response])
    at = chosen.features.index(response)
    return regression_drift(*chosen.encoded, response=at, names=chosen.features)


def _weights(source: Any) -> tuple[Host | None, Host | None]:
    """Sample weights of both tables, where both have them; named columns are of tables in memory."""
    return source.weights_or_none or (None, None)


def _known_means(values: Host, weights: Host | None) -> Host:
    """(d,) mean of the known values of each column, with the weights of their rows."""
    if weights is None:
        return np.asarray(np.nanmean(values, axis=0))
    known = ~np.isnan(values)
    return np.asarray((weights @ np.where(known, values, 0.0)) / (weights @ known))


MEAN_BIAS = Measure(
    name="mean_bias", label="average shift of the averages",
    sentence="The averages of the columns moved by this much, in standard deviations, or in their own units for"
    " columns that the recipe names.",
    summary="mean absolute shift of a mean, standardised columns",
    family="utility", range=FROM_0,
    usual="0 for a copy; below 0.1 is called balanced",
    unit="column", function=mean_bias, compute=_mean_bias,
    options={"columns": NAMES}, arrays="encoded",
    weights=Weights(
        "estimates",
        "means are those of the population; without named columns they are in standard deviations of the original's"
        " records",
    ),
    nulls=NULL_IS_MARKED, scaling="merged", source="Fried and Vamvourellis", sees="columns",
)  # fmt: skip
CORRELATION_BIAS = Measure(
    name="correlation_bias", label="average change of the correlations",
    sentence="How columns go together in pairs, from −1 to 1, changed by this much on average, or for the pair"
    " that the recipe names.",
    summary="mean absolute change of a correlation",
    family="utility", range=(0.0, 2.0),
    usual="0 for a copy; a correlation of 0.1 is called weak",
    unit="pair of columns", function=correlation_bias,
    compute=_correlation_bias, options={"pair": NAMES}, arrays="encoded", weights=USED, nulls=NULL_IS_MARKED,
    scaling="merged", source="Fried and Vamvourellis", sees="together",
)  # fmt: skip
REGRESSION_DRIFT = Measure(
    name="regression_drift", label="shift of a regression",
    sentence="The coefficients that explain one column by the others moved by this many of their standard errors"
    " on average.",
    summary="mean shift of the coefficients that explain the last column by the others",
    family="utility", range=FROM_0,
    usual="below 2: within the usual margin of error",
    unit="table", function=regression_drift, compute=_regression_drift,
    options={"response": str, "predictors": NAMES}, arrays="encoded",
    weights=Weights(
        "ignored", "shifts are measured in standard errors of this number of records; `analysis` takes weights"
    ),
    nulls=NULL_IS_MARKED, scaling="whole",
    host="one least-squares fit of each table, by LAPACK, and SciPy's p-values",
    source="Fried and Vamvourellis", sees="together",
)  # fmt: skip
