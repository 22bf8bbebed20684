"""Ranks of codes inside groups, ties broken at random."""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, on_device
from gpuanon.arrays.partition import Partition, sort_within
from gpuanon.arrays.rng import Draws


def random_tie_order(codes: Array, groups: Partition, draws: Draws) -> Array:
    """(n,) rows, group after group, ascending by code inside each; equal codes are in random order.

    codes : (n,) int64 from −1 to below 2³¹
    draws : of the rows; one word each is used

    Cost : one sort of n numbers, and one by group where there are several.
    """
    words = draws.words(1)[:, 0].astype(np.uint64)
    keys = ((codes + 1).astype(np.uint64) << np.uint64(32)) | words
    return sort_within(keys, groups)


def uniform_scores(codes: Array, groups: Partition, draws: Draws) -> Array:
    """(n, c) in (0, 1): ``(r + ½) / m``, r the rank of a code among the m of its group, ties at random.

    Categories become pseudo-uniform this way: a level with the share p fills an interval of the length p evenly
    (Lasko 2007, before eq. 2.6).
    """
    xp = namespace(codes)
    out = xp.empty(codes.shape, dtype=np.float64)
    part = groups.part_of_sorted()
    places = (xp.arange(groups.n) - groups.starts[part] + 0.5) / groups.sizes[part]
    for j in range(codes.shape[1]):
        out[random_tie_order(codes[:, j], groups, draws.child(f"ties.{j}")), j] = places
    return out


def in_rank_order(codes: Array, guide: Array, groups: Partition) -> Array:
    """(n, c) the codes of each column and group, rearranged so that they ascend with the `guide` (n, c).

    The smallest code goes to the row with the smallest guide, and so on; of equal guides the lower row comes first.
    Each column of each group keeps exactly the codes that it had.

    Cost : two sorts of n numbers for each column.
    """
    out = namespace(codes).empty_like(codes)
    for j in range(codes.shape[1]):
        out[sort_within(guide[:, j], groups), j] = codes[sort_within(codes[:, j], groups), j]
    return out


def mid_scores(codes: Array) -> Array:
    """(n, c) normal scores ``Φ⁻¹((r + ½) / n)``, r the mean rank (from 0) of equal codes in their column.

    Cost : one sort of n numbers for each column.
    """
    xp = namespace(codes)
    out = xp.empty(codes.shape, dtype=np.float64)
    for j in range(codes.shape[1]):
        order = xp.argsort(codes[:, j], kind="stable")
        ordered = codes[order, j]
        first = xp.searchsorted(ordered, ordered, side="left")
        last = xp.searchsorted(ordered, ordered, side="right") - 1
        out[order, j] = normal_quantiles((0.5 * (first + last) + 0.5) / len(codes))
    return out


def normal_quantiles(u: Array) -> Array:
    """Φ⁻¹ of numbers in (0, 1)."""
    return special_functions(u).ndtri(u)


def special_functions(array: Array) -> Any:
    """The module with ndtr and ndtri for the device of `array`."""
    if on_device(array):
        import cupyx.scipy.special as special
    else:
        import scipy.special as special
    return special
