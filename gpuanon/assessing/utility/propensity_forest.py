"""Propensity scores by a random forest, each record scored by trees that have not seen it.

References
----------
.. [1] J. Snoke, G. Raab, B. Nowok, C. Dibben, A. Slavkovic (2018), General and specific utility measures for synthetic
   data, J. R. Stat. Soc. A 181(3): pMSE and its ratio to that of permuted labels.
.. [2] L. Breiman (2001), Random forests, Mach. Learn. 45(1), 5–32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuanon.arrays import rapids
from gpuanon.arrays.backend import Array, like, namespace, to_host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.figures import Figure, Measured, join
from gpuanon.assessing.utility.propensity import DEPENDENT, against_chance, permuted, separable, stacked
from gpuanon.numerics.equal_rows import equal_rows

Floats = np.ndarray[Any, Any]

FOREST_ROWS = 10_000
"""Rows of each table that the forest is fitted to at most; beyond, a repeatable random sample."""

_PUBLIC = Key(b"the halves of a measure are no secret")


def pmse_forest(
    original: Array,
    release: Array,
    *,
    categorical: Sequence[bool] | None = None,
    permutations: int = 0,
    link: Array | None = None,
) -> Measured:
    """Propensity mean squared error by a random forest [1, 2]: 0 indistinguishable, c(1 − c) perfectly separable.

    The records are cut in two halves at random, equal ones staying together, and each half is scored by the forest of
    the other: a forest overfits what it was grown on.  Every split looks at √d of the d columns, so where one
    column alone tells the tables apart the value stays somewhat below c(1 − c).  Codes of categories are split as
    numbers.  Where the arrays are on a device, cuML grows the trees.

    Parameters
    ----------
    permutations : how often to grow the forests with labels permuted, to compare with: the ratio to their mean, and
        the share that reach the value
    link : (m,) original row of each released row, −1 for added rows: labels are then permuted within pairs of a
        record and its release, which is valid for dependent samples
    """
    X, _, released, note = stacked(original, release, categorical, FOREST_ROWS)
    X = _standardised(X)
    halves = _halves(X)
    value = _pmse(X, halves, released)
    details: dict[str, Figure] = {"share_released": float(released.mean())}
    if permutations:
        labels = permuted(released, len(original), link, permutations)
        details |= against_chance(value, [_pmse(X, halves, y) for y in labels])
    return Measured(value, details, join(DEPENDENT, note), beside=(separable(float(released.mean())),))


def _pmse(X: Array, halves: Floats, released: Floats) -> float:
    """Mean squared difference of the scores from the share of released records."""
    return float(((_scores(X, halves, released) - released.mean()) ** 2).mean())


def _scores(X: Array, halves: Floats, released: Floats) -> Floats:
    """(N,) probability that a record is a released one, by the forest of the half that it is not in.

    Where that half has nothing to learn from (no records, or none of one kind) the share of released records.
    """
    scores = np.full(len(released), released.mean())
    for half in (False, True):
        known, asked = np.flatnonzero(halves != half), np.flatnonzero(halves == half)
        if len(asked) and 0 < released[known].sum() < len(known):
            known_rows, asked_rows = like(known, X), like(asked, X)
            found = rapids.forest(X[known_rows], like(released[known], X), X[asked_rows])
            scores[asked] = to_host(found)
    return scores


def _halves(X: Array) -> Floats:
    """(N,) False or True at random, the same for equal records."""
    classes: Floats = to_host(equal_rows(X))
    lots: Floats = _PUBLIC.draws(np.arange(classes.max() + 1)).uniform()[:, 0]
    halves: Floats = lots[classes] < 0.5
    return halves


def _standardised(X: Array) -> Array:
    """Columns with mean 0 and deviation 1, in the float32 that forests are grown in."""
    xp = namespace(X)
    spread = X.std(axis=0)
    return ((X - X.mean(axis=0)) / xp.where(spread > 0, spread, 1.0)).astype(np.float32)
