"""Did a mean move more than chance moves it?  A test for dependent samples, by flipping the signs of differences.

References
----------
.. [1] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9: a paired test of means.
.. [2] R. A. Fisher (1935), The Design of Experiments, § 21: the randomisation of signs.
.. [3] P. H. Westfall, S. S. Young (1993), Resampling-Based Multiple Testing: the largest of many statistics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.rng import Key
from gpuanon.assessing.columns import Names, column_names, fold
from gpuanon.assessing.figures import By, Figure, Measured, join
from gpuanon.assessing.measure import AGAINST_CHANCE, NULL_IS_MARKED, PAIRED, SHARE, WHOLE, Measure
from gpuanon.assessing.utility.information_loss import paired
from gpuanon.errors import ParameterError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


FLIPPED_ROWS = 2_000
"""Up to this many changed records signs are flipped one by one; beyond, sums of differences are drawn as normal."""

_PUBLIC = Key(b"the signs of a measure are no secret")
_ROUNDING = 1e-9


def paired_means(
    original: Array, release: Array, *, link: Array | None = None, permutations: int = 999, names: Names = None
) -> Measured:
    """The p-value of the largest change of a mean, over all columns, by sign flips: high is good.

    Under the hypothesis that the masking pushes nobody up rather than down, the difference of a released value from its
    original is as likely to have the other sign.  The statistic of a feature is ``|Σ d| / √Σ d²``; the p-value is the
    share of sign flips, the same for all features of a record, whose largest statistic reaches the largest observed
    one ([3]).  By column: the same for its own largest statistic, so that each is adjusted for the number of columns.

    For more than `FLIPPED_ROWS` changed records the sums of flipped differences are drawn from their normal limit,
    whose covariance is exactly ``Σ d dᵀ``: cost O(n d²), for any number of rows.

    Parameters
    ----------
    original, release : (n, d) and (m, d), encoded alike
    link : (m,) original row of each released row, −1 for added rows, which are left out
    permutations : flips
    """
    if permutations < 1:
        raise ParameterError(f"permutations: 1 or more are allowed, got {permutations}")
    before, after, note = paired(original, release, link)
    xp = namespace(before)
    d = (after - before).astype(np.float64, copy=False)
    del before, after  # as large as the table
    scale = to_host(xp.sqrt((d**2).sum(axis=0)))
    moved = scale > 0
    labels = column_names(names, len(scale))
    if not moved.any():
        return Measured(1.0, {"pairs": len(d), "permutations": 0}, join(note, "no value changed"),
                        parts=(By("column", dict.fromkeys(labels, 1.0), "smallest"),))  # fmt: skip
    d = d if moved.all() else d[:, xp.asarray(moved)]
    d /= xp.asarray(scale[moved])
    pairs, d = len(d), d[(d != 0).any(axis=1)]  # a record that was not changed has no sign to flip
    observed = np.abs(to_host(d.sum(axis=0)))
    null = _largest_flipped(d, permutations)
    reached = (null[:, None] >= observed[None, :] - _ROUNDING).sum(axis=0)
    p = np.ones(len(scale))
    p[moved] = (1 + reached) / (1 + permutations)
    shift = np.zeros(len(scale))
    shift[moved] = observed
    details: dict[str, Figure] = {
        "pairs": pairs,
        "permutations": permutations,
        "statistic_by_column": dict(fold(shift, labels)),
        "flips": "one by one" if len(d) <= FLIPPED_ROWS else "drawn from their normal limit",
    }
    return Measured(float(p.min()), details, note, parts=(By("column", fold(p, labels, np.min), "smallest"),))


def _largest_flipped(d: Array, rounds: int) -> Host:
    """(rounds,) largest |Σ ± d| over the features, the same signs for all features of a row."""
    if len(d) <= FLIPPED_ROWS:
        rows = to_host(d)
        draws = _PUBLIC.draws(np.arange(len(rows), dtype=np.int64), "signs")
        signs = np.where(np.asarray(draws.uniform(rounds)) < 0.5, -1.0, 1.0)
        return np.asarray(np.abs(signs.T @ rows).max(axis=1))
    values, vectors = np.linalg.eigh(to_host(d.T @ d))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    normal = np.asarray(_PUBLIC.draws(np.arange(rounds, dtype=np.int64), "limit").normal(len(values)))
    return np.asarray(np.abs(normal @ root.T).max(axis=1))


def _paired_means(c: Comparison, **options: Any) -> Measured:
    """Of every column of a released record and its original."""
    before, after = c.encoded
    return paired_means(before, after, link=c.link, names=c.features, **options)


PAIRED_MEANS = Measure(
    name="paired_means", label="could the shifts of averages be chance?",
    sentence="If masking moved values up and down at random, a shift of an average as large as this would come"
    " about with this probability.",
    summary="p of the largest change of a mean, by flipping the signs of differences",
    family="utility", better="higher", range=SHARE, usual="below 0.05: averages moved by more than chance",
    unit="column", applies=PAIRED, function=paired_means, compute=_paired_means,
    options={"permutations": WHOLE}, arrays="encoded", weights=AGAINST_CHANCE, nulls=NULL_IS_MARKED, scaling="pairs",
    source="Kulik, lecture on utility and information loss", settles="nothing",
)  # fmt: skip
