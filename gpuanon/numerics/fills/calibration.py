"""Which moments the draws of a column must have, so that named statistics of the whole table stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuanon.errors import ParameterError
from gpuanon.numerics.fills.tilting import Tilt, choose, tilt

Floats = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Named:
    """Statistics that are to stay, of columns by their numbers.

    means        : columns
    correlations : pairs of columns
    slopes       : a response and its predictors: the coefficients of the linear regression, without the intercept
    """

    means: tuple[int, ...] = ()
    correlations: tuple[tuple[int, int], ...] = ()
    slopes: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself: a correlation and a slope of one pair ask for different covariances."""
        pairs = [frozenset(pair) for pair in self.correlations]
        pairs += [frozenset((response, x)) for response, predictors in self.slopes for x in predictors]
        if len(set(pairs)) < len(pairs):
            raise ParameterError(
                "calibrate: a pair of columns is named twice; its correlation and its slope cannot both stay"
            )

    def concerns(self, column: int) -> bool:
        """Whether the draws of a column matter to any of them."""
        pairs = [pair for pair in self.correlations if column in pair]
        return column in self.means or bool(pairs) or any(column == response for response, _ in self.slopes)


@dataclass(frozen=True, eq=False, repr=False)
class Whole:
    """The records and the rows that are to be added, each by a sample, and how many there are.

    records : (s, columns), added : (t, columns), those columns first that are filled first
    """

    records: Floats
    added: Floats
    rows: int
    rows_added: int

    def moments(self, column: int) -> tuple[float, float]:
        """Mean and deviation of a column that is known in all rows of the release."""
        parts = [(self.records[:, column], self.rows), (self.added[:, column], self.rows_added)]
        sums = np.zeros(3)
        for values, count in parts:
            known = values[~np.isnan(values)]
            if len(values):
                sums += np.array([len(known), known.sum(), (known**2).sum()]) * (count / len(values))
        mean = sums[1] / max(sums[0], 1)
        return float(mean), float(np.sqrt(max(sums[2] / max(sums[0], 1) - mean**2, 0.0)))


@dataclass(frozen=True, eq=False, repr=False)
class ColumnTilt:
    """How the draws of one column are tilted.

    center, scale : of the column in the records
    square        : whether its variance has to stay
    crossed       : column, mean and deviation in the release, of each column that it has to covary with
    tilt          : the multipliers of its moments, and their price
    """

    center: float
    scale: float
    square: bool
    crossed: tuple[tuple[int, float, float], ...]
    tilt: Tilt = field(default_factory=lambda: Tilt(np.zeros(0), 0.0, np.zeros(0)))

    def moments(self, candidates: Floats, known: Floats) -> Floats:
        """(m, c, p) moments of `candidates` (m, c) beside the columns that are `known` (m, columns); 0 for nulls."""
        y = np.nan_to_num((candidates - self.center) / self.scale)
        found = [y]
        if self.square:
            found.append(np.where(np.isnan(candidates), 0.0, y**2 - 1))
        for column, mean, deviation in self.crossed:
            found.append(y * np.nan_to_num((known[:, column] - mean) / deviation)[:, None])
        return np.stack(found, axis=2)

    def choose(self, candidates: Floats, known: Floats, u: Floats) -> Floats:
        """(m,) one of the candidates of each row, by tilted chances."""
        picked = choose(self.moments(candidates, known), self.tilt.multipliers, u)
        return np.asarray(candidates[np.arange(len(candidates)), picked])


def column_tilt(named: Named, column: int, whole: Whole, candidates: Floats) -> ColumnTilt:
    """The tilt of the draws of `column` that leaves the named statistics of the whole table where they are.

    A mean stays if the added rows have the records' mean; a correlation ρ with a column x that is known in all rows, if
    also the variance stays and ``Σ x̃ ỹ`` over all rows is ρ times their number (x̃ standardised in the release); slopes
    β, if the covariances with the predictors are those that β gives under the predictors' covariance in the release.

    candidates : (t, c) draws for the sampled added rows
    """
    records, added = whole.records, whole.added
    y = records[:, column]
    known = ~np.isnan(y)
    center, scale = float(y[known].mean()) if known.any() else 0.0, float(y[known].std()) if known.any() else 0.0
    if not scale > 0:
        return ColumnTilt(center, 1.0, False, ())
    correlated = [pair[0] if pair[1] == column else pair[1] for pair in named.correlations if column in pair]
    crossed, targets = [], []
    share = float((~np.isnan(candidates)).mean())
    for x in (x for x in correlated if x < added.shape[1] and x != column and _filled(x, added)):
        crossed.append((x, *whole.moments(x)))
        both = known & ~np.isnan(records[:, x])
        rho = np.corrcoef(y[both], records[both, x])[0, 1] if both.sum() > 1 and records[both, x].std() > 0 else 0.0
        targets.append(float(rho))
    for response, predictors in named.slopes:
        if response == column:
            crossed += [(x, *whole.moments(x)) for x in predictors]
            targets += list(_slope_targets(records, added, whole, column, predictors, scale))
    crossed_ = tuple((x, mean, deviation if deviation > 0 else 1.0) for x, mean, deviation in crossed)
    found = ColumnTilt(center, scale, bool(correlated), crossed_)
    G = found.moments(candidates, added)
    own = found.moments(y[:, None], records)[:, 0].mean(axis=0)
    wanted = np.zeros(G.shape[2])
    plain = 1 + found.square
    for at, (x, _, _) in enumerate(crossed_):
        there = whole.rows * float((known & ~np.isnan(records[:, x])).mean())
        there += whole.rows_added * share * float((~np.isnan(added[:, x])).mean())
        wanted[plain + at] = (targets[at] * there - own[plain + at] * whole.rows) / max(whole.rows_added, 1)
    return ColumnTilt(center, scale, found.square, crossed_, tilt(G, wanted))


def _filled(column: int, added: Floats) -> bool:
    """Whether a column of the added rows is known by now."""
    return bool((~np.isnan(added[:, column])).any())


def _slope_targets(
    records: Floats, added: Floats, whole: Whole, column: int, predictors: Sequence[int], scale: float
) -> Floats:
    """Mean of x̃ỹ over all rows for each predictor, which gives the records' slopes in the release."""
    X, y = records[:, list(predictors)], records[:, column]
    complete = ~np.isnan(X).any(axis=1) & ~np.isnan(y)
    centered = X[complete] - X[complete].mean(axis=0)
    slopes = np.linalg.lstsq(centered, y[complete] - y[complete].mean(), rcond=None)[0]
    parts = [(X, whole.rows), (added[:, list(predictors)], whole.rows_added)]
    weights, rows = [], []
    for values, count in parts:
        there = values[~np.isnan(values).any(axis=1)]
        rows.append(there)
        weights.append(np.full(len(there), count / max(len(values), 1)))
    covariance = np.atleast_2d(np.cov(np.vstack(rows), rowvar=False, aweights=np.concatenate(weights), ddof=0))
    deviations = np.array([whole.moments(x)[1] for x in predictors])
    deviations = np.where(deviations > 0, deviations, 1.0)
    return np.asarray(covariance @ slopes / (deviations * scale))
