"""Which measures of utility take the sample weights, which only estimate with them, and why the others do not.

A measure that takes them gives the figure of the table in which each record is repeated as often as its weight says;
weights that add up to fewer people than there are records are shares, and scaled to a mean of 1 (`as_people`).
Measures of encoded rows see a missing number as the mean of the known ones, all records alike, weights or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.assessing.source import Source
from gpuanon.errors import InputError
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats

Floats = np.ndarray[Any, Any]

WEIGHTED = frozenset(
    (
        *("means", "variances", "correlations", "covariances", "rank_correlations", "correlation_bias"),
        *("ks", "cdf_points", "histogram_intersection", "workload"),
        *("kl", "jsd", "cell_ks", "mutual_information", "grouping_sensitivity"),
    )
)
"""Measures of what a population looks like: records count by their weights."""

ESTIMATES: dict[str, str] = {
    "mean_bias": "means are those of the population; without named columns they are in standard deviations of the"
    " original's records",
    "analysis": "weights have their mean scaled to 1: coefficients are those of the population, intervals those of as"
    " many people as there are records",
}
"""Measures whose estimates take the weights, and whose units or intervals are those of the records."""

_RECORDS = "it says how far the values of single records were moved, whomever they stand for"
_TEST = "it compares with what chance does to this number of records, which weights do not change"
_COUNTS = "a statistic of counts: what chance does to it is known for numbers of records; kl and jsd take weights"
_SCORES = "a model tells the records of both tables apart"

IGNORED: dict[str, str] = {
    **dict.fromkeys(("records_changed", "mse", "r2", "il1s", "information_loss"), _RECORDS),
    **dict.fromkeys(("confidence_overlap", "estimator_mse", "paired_means"), _TEST),
    **dict.fromkeys(("vw", "ft", "g"), _COUNTS),
    **dict.fromkeys(
        ("pmse_logit", "pmse_cart", "pmse_forest", "propensity_ks", "propensity_wilcoxon", "model_efficacy"), _SCORES
    ),
    "regression_drift": "shifts are measured in standard errors of this number of records; `analysis` takes weights",
    "mmd": "it is a distance of all columns of two sets of records, held against exchanges of records",
    "distribution_fit": "it is the distance of the records' values from a named distribution",
    "kernel_pca": "components are those of the records",
    "cluster_balance": "it counts records of both tables in clusters",
    "interval_statistics": "its ranges hold for the statistics of the records in the boxes",
}
"""Measure: why it counts records alike."""


def unweighted_note(measure: str, source: Source) -> str | None:
    """What is said beside a figure of a table with weights that were not used; None for a measure of risk."""
    if measure in IGNORED:
        return f"sample weights are not used: {IGNORED[measure]}"
    if (measure in WEIGHTED or measure in ESTIMATES) and source.weight_pieces("original") is None:
        return "sample weights are not used: only one of the tables has them"
    return None


def declared_weighting(measure: str) -> str | None:
    """What `explain` says of a measure and sample weights; None for a measure of risk."""
    if measure in WEIGHTED:
        return "each record counts by its sample weight, where both tables have a column of them"
    return f"not used: {IGNORED[measure]}" if measure in IGNORED else ESTIMATES.get(measure)


def weights_of(table: Table, name: str) -> Floats:
    """(n,) the weights in a column, which are finite, not negative and not all 0."""
    found = floats(table.arrow(name))
    if not (np.isfinite(found) & (found >= 0)).all() or (len(found) and not found.sum() > 0):
        raise InputError("weights: every weight must be a number of 0 or more, and one of them above 0")
    return found


def as_people(weights: Floats) -> Floats:
    """The weights, with a mean of 1 over the records that count where theirs is lower.

    Bins of equal weight and cells of half a record want numbers of people: of shares all records would be one person.
    """
    count, total = int((weights > 0).sum()), float(weights.sum())
    return weights if total >= count else np.round(weights * (count / total), 12)  # equal shares are 1, to the bit


def effective_size(weights: Any) -> float:
    """Kish's effective number of records, (Σ w)² / Σ w²: so many records of equal weight say as much."""
    return float(weights.sum()) ** 2 / float((weights * weights).sum())
