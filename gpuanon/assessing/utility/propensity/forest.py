"""Propensity scores by a random forest, each record scored by trees that have not seen it.

References
----------
.. [1] J. Snoke, G. Raab, B. Nowok, C. Dibben, A. Slavkovic (2018), General and specific utility measures for synthetic
   data, J. R. Stat. Soc. A 181(3): pMSE and its ratio to that of permuted labels.
.. [2] L. Breiman (2001), Random forests, Mach. Learn. 45(1), 5–32.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays import rapids
from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.figures import Figure, Measured, join
from gpuanon.assessing.measure import PERMUTATIONS, Measure
from gpuanon.assessing.sampling_errors import with_error
from gpuanon.assessing.utility.propensity.pmse import DEPENDENT, SCORES, against_permuted, null_sample, separable
from gpuanon.assessing.utility.propensity.scores import Stacked, stacked
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


FOREST_ROWS = 10_000
"""Rows of each table that the forest is fitted to at most; beyond, a repeatable random sample."""

TREES, REFIT_TREES = 50, 12
"""Trees of each half's forest, and of those of a piece of the sample: their number hardly matters for the spread."""

BINS = 128
"""Bins of equal numbers of records in which a column of more different values is split, as cuML has it."""

_PUBLIC = Key(b"the halves of a measure are no secret")


def pmse_forest(
    original: Array,
    release: Array,
    *,
    categorical: Sequence[bool] | None = None,
    permutations: int = 0,
    link: Array | None = None,
    sampled: bool = False,
) -> Measured:
    """Propensity mean squared error by a random forest [1, 2]: 0 indistinguishable, c(1 − c) perfectly separable.

    The records are cut in two halves at random, equal ones staying together, and each half is scored by the forest of
    the other: a forest overfits what it was grown on.  Every split looks at √d of the d columns, so where one
    column alone tells the tables apart the value stays somewhat below c(1 − c).  Codes of categories are split as
    numbers, and a column of more than `BINS` different values at quantiles of both tables together.  Where the arrays
    are on a device, cuML grows the trees.

    Parameters
    ----------
    permutations : how often to grow the forests with labels permuted, to compare with: the ratio to their mean, and
        the share that reach the value
    link : (m,) original row of each released row, −1 for added rows: labels are then permuted within pairs of a
        record and its release, which is valid for dependent samples
    sampled : the tables are samples of larger ones: the error of the value is stated, as it is where a sample is taken
        here
    """
    both = stacked(original, release, categorical, FOREST_ROWS, sampled=sampled)
    X, released = _binned(both.X), both.released
    halves = _halves(both.X)
    value = _pmse(X, halves, released)
    details: dict[str, Figure] = {"share_released": float(released.mean())}
    if permutations:
        pairs, within = null_sample(original, release, categorical, link, FOREST_ROWS)
        rows = like(pairs.X, original)
        null, sides = _binned(rows), _halves(rows)
        details |= against_permuted(lambda y: _scores(null, sides, y), pairs.released, within, permutations)
    measured = Measured(value, details, join(DEPENDENT, both.note), beside=(separable(float(released.mean())),))
    return with_error(measured, [[_refit(piece) for piece in cut] for cut in both.cuts()], squares=True)


def _refit(piece: Stacked) -> float:
    """The pMSE of a piece of the sample."""
    return _pmse(_binned(piece.X), _halves(piece.X), piece.released, REFIT_TREES)


def _pmse(X: Array, halves: Host, released: Host, trees: int = TREES) -> float:
    """Mean squared difference of the scores from the share of released records."""
    return float(((_scores(X, halves, released, trees) - released.mean()) ** 2).mean())


def _scores(X: Array, halves: Host, released: Host, trees: int = TREES) -> Host:
    """(N,) probability that a record is a released one, by the forest of the half that it is not in.

    Where that half has nothing to learn from (no records, or none of one kind) the share of released records.
    """
    scores = np.full(len(released), released.mean())
    for half in (False, True):
        known, asked = np.flatnonzero(halves != half), np.flatnonzero(halves == half)
        if len(asked) and 0 < released[known].sum() < len(known):
            known_rows, asked_rows = like(known, X), like(asked, X)
            found = rapids.forest(X[known_rows], like(released[known], X), X[asked_rows], trees)
            scores[asked] = to_host(found)
    return scores


def _halves(X: Array) -> Host:
    """(N,) False or True at random, the same for equal records."""
    classes: Host = to_host(equal_rows(X))
    lots: Host = _PUBLIC.draws(np.arange(classes.max() + 1)).uniform()[:, 0]
    halves: Host = lots[classes] < 0.5
    return halves


def _binned(X: Array) -> Array:
    """Columns as numbers of bins of the same number of records, or of their values where there are no more.

    In the float32 that forests are grown in.  Columns of few different values are sorted twice as fast.
    """
    xp = namespace(X)
    out = xp.empty(X.shape, dtype=np.float32)
    for j in range(X.shape[1]):
        values, codes = xp.unique(X[:, j], return_inverse=True)
        if len(values) > BINS:
            ordered = xp.sort(X[:, j])
            lowest = ordered[(xp.arange(1, BINS) * len(ordered)) // BINS]
            codes = xp.searchsorted(lowest, X[:, j], side="right")
        out[:, j] = codes.reshape(-1)
    return out


def _pmse_forest(c: Comparison, permutations: int = 0) -> Measured:
    link = c.link_of_pairs if permutations else None
    before, after = c.values
    return pmse_forest(
        before, after, categorical=c.categorical, permutations=permutations, link=link, sampled=c.sampled
    )


PMSE_FOREST = Measure(
    name="pmse_forest", label="can a random forest tell the tables apart?",
    sentence="Many decision trees together guess which table a record comes from, and their certainty exceeds"
    " guessing by this much, squared: 0 not at all, 0.25 always.",
    summary="mean squared propensity score error, random forest, on held-out records",
    usual="0: they cannot be told apart; 0.25: always; standardised, below 1: less varied than a sample",
    range=(0.0, 0.25), function=pmse_forest, compute=_pmse_forest, options=PERMUTATIONS,
    source="Snoke et al. 2018; synthpop", sees="together", long=5, **SCORES,
)  # fmt: skip
