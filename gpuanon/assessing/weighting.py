"""Sample weights of a table: read, checked, as numbers of people; and quantiles of records with weights.

A measure that takes them gives the figure of the table in which each record is repeated as often as its weight says;
weights that add up to fewer people than there are records are shares, and scaled to a mean of 1 (`as_people`).
Measures of encoded rows see a missing number as the mean of the known ones, all records alike, weights or not.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace
from gpuanon.errors import InputError
from gpuanon.tables.table import Table
from gpuanon.tables.values import floats


def weights_of(table: Table, name: str) -> Host:
    """(n,) the weights in a column, which are finite, not negative and not all 0."""
    found = floats(table.arrow(name))
    if not (np.isfinite(found) & (found >= 0)).all() or (len(found) and not found.sum() > 0):
        raise InputError("weights: every weight must be a number of 0 or more, and one of them above 0")
    return found


def as_people(weights: Host) -> Host:
    """The weights, with a mean of 1 over the records that count where theirs is lower.

    Bins of equal weight and cells of half a record want numbers of people: of shares all records would be one person.
    """
    count, total = int((weights > 0).sum()), float(weights.sum())
    return weights if total >= count else np.round(weights * (count / total), 12)  # equal shares are 1, to the bit


def effective_size(weights: Any) -> float:
    """Kish's effective number of records, (Σ w)² / Σ w²: so many records of equal weight say as much."""
    return float(weights.sum()) ** 2 / float((weights * weights).sum())


def quantiles(values: Array, levels: Array, weights: Array | None = None) -> Array:
    """Quantiles of `values` (n,) at `levels`, interpolated as NumPy does.

    weights : (n,) 0 or more; for whole numbers the result is that of each value repeated so often
    """
    xp = namespace(values)
    if weights is None:
        return xp.quantile(values, levels)
    order = xp.argsort(values, kind="stable")
    ordered, reached = values[order], xp.cumsum(weights[order])
    place = xp.maximum((reached[-1] - 1) * levels, 0.0)  # places among the repeated values, from 0
    below = xp.floor(place)
    low, high = (
        ordered[xp.minimum(xp.searchsorted(reached, at, side="right"), len(ordered) - 1)] for at in (below, below + 1)
    )
    part = place - below
    return xp.where(part < 0.5, low + (high - low) * part, high - (high - low) * (1 - part))  # rounded as NumPy does


def inverse_shares(values: Array, levels: Array, weights: Array) -> Array:
    """Smallest of `values` (n,) whose share of the weights, with all smaller values, reaches each level."""
    xp = namespace(values)
    order = xp.argsort(values, kind="stable")
    reached = xp.cumsum(weights[order])
    return values[order][xp.minimum(xp.searchsorted(reached, levels * reached[-1], side="left"), len(values) - 1)]
