"""Strata of the response: rows of like response, inside which groups are formed and values are drawn."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.rng import Draws
from gpuanon.masking.constraints import Sensitive


def strata_of(sensitive: Sensitive, count: int, least: int, draws: Draws) -> Partition:
    """Quantile strata of the first sensitive column whose values have an order.

    `count` strata whose sizes differ by one row at most, or as many as leave `least` rows in each.  Rows of equal
    response that do not fit one stratum are divided among neighbours at random.

    Cost : two sorts of n numbers.
    """
    xp = namespace(sensitive.codes)
    values = sensitive.codes[:, sensitive.ordered.index(True)]
    n = len(values)
    strata = max(1, min(count, n // least))
    at_random = xp.argsort(draws.keys(), kind="stable")
    order = at_random[xp.argsort(values[at_random], kind="stable")]
    return Partition(order, xp.arange(strata + 1, dtype=np.int64) * n // strata)


def form_inside(strata: Partition, form: Callable[[Array], Partition]) -> Partition:
    """The groups that `form` makes of the rows of each stratum, ascending; there are few strata."""
    xp = namespace(strata.order)
    labels = xp.empty(strata.n, dtype=np.int64)
    starts, groups = to_host(strata.starts), 0
    for low, high in pairwise(starts):
        rows = xp.sort(strata.order[int(low) : int(high)])
        formed = form(rows)
        labels[rows] = formed.labels() + groups
        groups += formed.parts
    return Partition.from_labels(labels)
