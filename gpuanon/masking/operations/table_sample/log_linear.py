"""Contingency tables from their margins: iterative proportional fitting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Array, namespace

_ROUNDS = 200


def fit_margins(
    shape: Sequence[int], margins: Sequence[tuple[tuple[int, ...], Array]], tolerance: float = 1e-6
) -> Array:
    """The table of the given shape with these margins and the largest entropy (Deming and Stephan 1940).

    A table of ones is scaled to one margin after another until none changes by more than `tolerance` of the total: the
    log-linear model whose interactions are those of the margins.

    margins : axes, ascending, and the counts over them

    Cost : rounds × margins × cells of the table.
    """
    xp = namespace(margins[0][1])
    table = xp.ones(tuple(shape), dtype=np.float64)
    total = float(margins[0][1].sum())
    for _ in range(_ROUNDS):
        worst = 0.0
        for axes, counts in margins:
            others = tuple(axis for axis in range(len(shape)) if axis not in axes)
            found = table.sum(axis=others, keepdims=True)
            wanted = counts.reshape(found.shape)
            worst = max(worst, float(xp.abs(found - wanted).sum()))
            table *= xp.where(found > 0, wanted / xp.where(found > 0, found, 1.0), 0.0)
        if worst <= tolerance * total:
            break
    return table


def margin_counts(codes: Array, axes: tuple[int, ...], shape: Sequence[int]) -> Array:
    """Counts of the rows of `codes` (n, c) over these columns, of values from 0 to below `shape`."""
    xp = namespace(codes)
    place = xp.zeros(len(codes), dtype=np.int64)
    cells = 1
    for axis in axes:
        place = place * int(shape[axis]) + codes[:, axis]
        cells *= int(shape[axis])
    return xp.bincount(place, minlength=cells).astype(np.float64).reshape([int(shape[axis]) for axis in axes])
