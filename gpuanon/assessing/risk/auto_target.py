"""The automatic choice of a group size: the smallest that meets the reference standard.

Smaller groups keep more of the data and protect less (5.2.3 of [1]).  The choice is made against a reference sample,
whose own sampling error would otherwise be paid by whoever checks the release against another sample: a target that
only just passes against one reference may fail against the next.  So the standard is met only when the one-sided
distance *plus the reference's own sampling error* is within the limit.  That error is measured: halves of the
reference are compared with each other, and their distance is √2 times that of samples of the whole size.  Of few
records that is more than independent samples meet: then it is enough to pass as one (`reference_standard`).

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 5.2.3.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from gpuanon.arrays.backend import Array, like
from gpuanon.assessing.risk.prediction import EXACT_ROWS, predict, standardised
from gpuanon.assessing.risk.reference_standard import (
    COPIES,
    EFFECTIVE,
    LEVEL,
    StandardVerdict,
    distances_of_halves,
    limit_of,
    null_distances,
    verdict,
)
from gpuanon.errors import GuaranteeError, ParameterError
from gpuanon.numerics.sampling import sample_rows

_SPLITS = 5


@dataclass(frozen=True)
class TargetTrial:
    """One target that was tried: its verdict, and whether it leaves room for the reference's sampling error."""

    target: int
    verdict: StandardVerdict
    passes: bool


@dataclass(frozen=True, eq=False)
class TargetChoice:
    """The chosen target, its release, and everything that was tried, in that order."""

    target: int
    release: Array
    trials: tuple[TargetTrial, ...]
    margin: dict[str, float]


def auto_target(
    original: Array,
    reference: Array,
    mask: Callable[[int], Array],
    candidates: Sequence[int],
    *,
    k: int = 5,
    standardise: bool = True,
    limit: int = EXACT_ROWS,
) -> TargetChoice:
    """Choose the smallest of `candidates` whose release meets the reference standard.

    Parameters
    ----------
    original, reference : encoded matrices of non-overlapping samples, (n, d) and (r, d)
    mask        : from a target to the release (n, d), in the order of the original, encoded alike
    candidates  : targets, ascending.  The smallest that passes is sought by doubling steps, then by halving: risk falls
                  with the target, so not all of them have to be tried
    standardise : scale the columns by the original's mean and standard deviation first

    Raises
    ------
    GuaranteeError
        when even the largest candidate does not pass.
    """
    if len(candidates) == 0 or any(b <= a for a, b in pairwise(candidates)):
        raise ParameterError("candidates: at least one target, ascending, is needed")
    if len(reference) > len(original):
        reference = reference[like(sample_rows(len(reference), len(original), "reference"), reference)]
    # As many released records as the reference has (more would be nearer), and their own originals.
    rows = like(sample_rows(len(original), len(reference), "reference"), original)
    scale = standardised if standardise else lambda *tables: list(tables)
    known, standard = scale(original, reference)
    under_reference = predict(known, standard, k, rows=rows, limit=limit)
    if len(reference) < 2 * k:
        raise ParameterError(f"reference: at least 2 k = {2 * k} records are needed, got {len(reference)}")
    # Distances between halves are √2 times those between samples of the whole size.
    halves = distances_of_halves(known, standard, under_reference.rows, k, _SPLITS)
    margin = {name: float(own.mean()) / math.sqrt(2) for name, own in halves.items()}
    trials: dict[int, TargetTrial] = {}
    releases: dict[int, Array] = {}

    def passes(at: int) -> bool:
        if at not in trials:
            release = mask(candidates[at])
            shown = scale(original, release)[1][rows]
            null = null_distances(known, shown, standard, under_reference.rows, k)
            found = verdict(predict(known, shown, k, rows=under_reference.rows, limit=limit), under_reference, null)
            allowed = all(found.excess[name] + margin[name] <= limit_of(name) for name in EFFECTIVE)
            allowed = found.p[COPIES] > LEVEL if allowed else null is not None and found.passes
            trials[at] = TargetTrial(candidates[at], found, allowed)
            if trials[at].passes:
                releases.clear()  # only the smallest that passed so far is kept: releases are large
                releases[at] = release
        return trials[at].passes

    best = _smallest(passes, len(candidates))
    if best is None:
        worst = trials[len(candidates) - 1].verdict
        raise GuaranteeError(
            f"target: none of the {len(candidates)} candidates up to {candidates[-1]} meets the reference standard"
            f" with room for its sampling error; the largest {worst}",
            hint="offer larger targets, or another method (svd-swap protects most)",
        )
    release = releases[best]
    return TargetChoice(candidates[best], release, tuple(trials.values()), margin)


def _smallest(passes: Callable[[int], bool], count: int) -> int | None:
    """The smallest index that passes, if passing is monotone: steps of 1, 2, 4, … up, then halving."""
    low, high, step = -1, 0, 1
    while not passes(high):
        if high == count - 1:
            return None
        low, high = high, min(high + step, count - 1)
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high
