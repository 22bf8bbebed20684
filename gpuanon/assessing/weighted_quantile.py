"""Quantiles of records that stand for several people each."""

from __future__ import annotations

from gpuanon.arrays.backend import Array, namespace


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
