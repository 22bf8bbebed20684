"""Predictions of the mean of many people: the variance of their errors falls with their number, the bias does not.

Section 4.1 of [1].  The mean over m independent people of a segment is predicted by the mean of their predictions; the
expected square of its error is ``bias² + variance / m``, with the bias and the variance of the error of one person.
Beyond ``m = variance / bias²`` people the bias is the larger part, and R², which is about single people, says little.

A mask that keeps the mean of all can still move costs from one subgroup to another: people who are few in their groups
receive the values of others.  The bias of each subgroup, from the original and from the release, shows it.

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.workloads.regression import relative_bias
from gpuanon.errors import ParameterError


@dataclass(frozen=True)
class AggregateError:
    """Error of the predicted mean of a segment, in per cent of its mean response.

    bias      : mean prediction less mean response
    deviation : standard deviation √(variance / people) of the error of the mean
    people    : m, the people of the aggregate
    bias_rules_from : people from which on the bias is the larger part of the error; None where there is no bias
    """

    bias: float
    deviation: float
    people: float
    bias_rules_from: float | None


def aggregate_error(
    predicted: Host, actual: Host, weights: Host | None = None, people: float | None = None
) -> AggregateError:
    """Bias, and variance divided by the number of people, of a predicted mean.

    Parameters
    ----------
    predicted, actual : (n,) predictions and responses
    weights : (n,) at least 0, or None for all 1
    people : size of the aggregate; None: as many as the records are worth, (Σ w)² / Σ w²
    """
    predicted, actual = np.asarray(predicted, dtype=np.float64), np.asarray(actual, dtype=np.float64)
    weights = np.ones(len(actual)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(predicted) == len(actual) == len(weights):
        raise ParameterError("predicted: one prediction, response and weight for each record is needed")
    if people is not None and not people > 0:
        raise ParameterError(f"people: a number above 0 is allowed, got {people}")
    if not weights @ actual > 0:
        raise ParameterError("actual: a relative error needs a mean of the response above 0")
    mean = np.average(actual, weights=weights)
    error = predicted - actual
    bias = float(np.average(error, weights=weights))
    variance = float(np.average((error - bias) ** 2, weights=weights))
    many = float(weights.sum() ** 2 / (weights @ weights)) if people is None else float(people)
    return AggregateError(
        bias=100 * bias / mean,
        deviation=float(100 * np.sqrt(variance / many) / mean),
        people=many,
        bias_rules_from=variance / bias**2 if bias else None,
    )


@dataclass(frozen=True)
class CostFactor:
    """Factor between the cost of two markets at equal x, and its standard error."""

    value: float
    error: float


def cost_factor(predicted: Host, actual: Host, weights: Host | None = None) -> CostFactor:
    """The cost-of-living factor a(M) of a market, E[Y | X, M] = a(M) E[Y | X] (section 5 of [1]), from a sample there.

    The ratio of the sample's responses to what another market's model predicts for the same people, ``Σ w y / Σ w ŷ``;
    its standard error by linearisation, for independent records and a model taken as known.  A factor corrects the
    mean.  It corrects the mean of each segment only where costs differ by one factor: see `aggregate_error` by segment.
    """
    predicted, actual = np.asarray(predicted, dtype=np.float64), np.asarray(actual, dtype=np.float64)
    weights = np.ones(len(actual)) if weights is None else np.asarray(weights, dtype=np.float64)
    if not len(predicted) == len(actual) == len(weights):
        raise ParameterError("predicted: one prediction, response and weight for each record is needed")
    if not weights @ predicted > 0:
        raise ParameterError("predicted: a factor needs a mean of the predictions above 0")
    total = float(weights @ predicted)
    value = float(weights @ actual) / total
    return CostFactor(value, float(np.sqrt(((weights * (actual - value * predicted)) ** 2).sum())) / total)


@dataclass(frozen=True)
class SubgroupBias:
    """Relative bias of the predicted mean in each subgroup, per cent.

    bias  : by level of the column; None where the mean response is 0, or the subgroup has no weight
    worst : the level whose bias is largest in size; None if none is known
    gap   : largest less smallest bias, in points
    """

    bias: dict[int, float | None]
    worst: int | None
    gap: float

    def beyond(self, other: SubgroupBias) -> dict[int, float | None]:
        """What is added to the bias of each subgroup: these figures less those of `other` (the unmasked data)."""
        pairs = {level: (value, other.bias.get(level)) for level, value in self.bias.items()}
        return {level: None if a is None or b is None else a - b for level, (a, b) in pairs.items()}


def subgroup_bias(predicted: Host, actual: Host, subgroup: Host, weights: Host | None = None) -> SubgroupBias:
    """`relative_bias` inside each level of `subgroup`.

    Parameters
    ----------
    predicted, actual : (n,) predictions and responses
    subgroup : (n,) whole numbers
    weights : (n,) at least 0, or None for all 1
    """
    predicted, actual, subgroup = np.asarray(predicted), np.asarray(actual), np.asarray(subgroup)
    if not len(predicted) == len(actual) == len(subgroup):
        raise ParameterError("subgroup: one level for each prediction and each response is needed")
    weights = np.ones(len(actual)) if weights is None else np.asarray(weights, dtype=np.float64)
    bias: dict[int, float | None] = {}
    for level in np.unique(subgroup):
        rows = subgroup == level
        known = float(weights[rows] @ actual[rows]) > 0
        bias[int(level)] = relative_bias(predicted[rows], actual[rows], weights[rows]) if known else None
    sizes = {level: value for level, value in bias.items() if value is not None}
    worst = max(sizes, key=lambda level: abs(sizes[level]), default=None)
    return SubgroupBias(bias, worst, max(sizes.values()) - min(sizes.values()) if sizes else 0.0)
