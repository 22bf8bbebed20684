"""Fairness of predictions: is the mean right in every subgroup, before and after a mask?

A mask that keeps the mean of all can still move costs from one subgroup to another: people who are few in their groups
receive the values of others.  The bias of each subgroup, from the original and from the release, shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.workloads.regression import relative_bias
from gpuanon.errors import ParameterError


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
