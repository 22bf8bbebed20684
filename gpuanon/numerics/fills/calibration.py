"""Which moments the draws of a column must have, so that named statistics of the whole table stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
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
    regressions  : a response and its predictors: the coefficients of the linear regression, with the intercept
    """

    means: tuple[int, ...] = ()
    correlations: tuple[tuple[int, int], ...] = ()
    regressions: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Refuse what contradicts itself: predictors have other means in the release, so a response has as well."""
        named = {*self.means, *(column for pair in self.correlations for column in pair)}
        responses = [response for response, _ in self.regressions]
        if named & set(responses) or len(set(responses)) < len(responses):
            raise ParameterError(
                "calibrate: a column is named twice; the coefficients of one regression of it can stay, or its mean and"
                " correlations"
            )

    def concerns(self, column: int) -> bool:
        """Whether the draws of a column matter to any of them."""
        pairs = [pair for pair in self.correlations if column in pair]
        return column in self.means or bool(pairs) or any(column == response for response, _ in self.regressions)


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
class Regression:
    """A linear regression of the records, whose coefficients are to stay.

    predictors : columns
    centers, scales : of the predictors, for moments of one size
    """

    predictors: tuple[int, ...]
    intercept: float
    slopes: Floats
    centers: Floats
    scales: Floats

    @classmethod
    def of(cls, records: Floats, response: int, predictors: Sequence[int]) -> Regression:
        """Least squares on the rows in which all columns are known."""
        X, y = records[:, list(predictors)], records[:, response]
        complete = ~np.isnan(X).any(axis=1) & ~np.isnan(y)
        X, y = X[complete], y[complete]
        centers, scales = X.mean(axis=0), X.std(axis=0)
        slopes = np.linalg.lstsq(X - centers, y - y.mean(), rcond=None)[0]
        return cls(
            tuple(predictors), float(y.mean() - centers @ slopes), slopes, centers, np.where(scales > 0, scales, 1.0)
        )

    def moments(self, candidates: Floats, known: Floats) -> list[Floats]:
        """(m, c) residuals, and their products with each predictor; 0 where a value is not known."""
        X = known[:, list(self.predictors)]
        residuals = candidates - (self.intercept + X @ self.slopes)[:, None]
        residuals = np.nan_to_num(residuals)
        return [residuals, *(residuals * z[:, None] for z in np.nan_to_num((X - self.centers) / self.scales).T)]


@dataclass(frozen=True, eq=False, repr=False)
class ColumnTilt:
    """How the draws of one column are tilted.

    center, scale : of the column in the records
    correlated    : whether its mean and variance have to stay, for its correlations
    crossed       : column, mean and deviation in the release, of each column that it has to covary with
    regression    : whose response it is, or None; then nothing else is named
    tilt          : the multipliers of its moments, and their price
    """

    center: float
    scale: float
    correlated: bool = False
    crossed: tuple[tuple[int, float, float], ...] = ()
    regression: Regression | None = None
    tilt: Tilt = field(default_factory=lambda: Tilt(np.zeros(0), 0.0, np.zeros(0)))

    def moments(self, candidates: Floats, known: Floats) -> Floats:
        """(m, c, p) moments of `candidates` (m, c) beside the columns that are `known` (m, columns); 0 for nulls."""
        if self.regression is not None:
            return np.stack(self.regression.moments(candidates, known), axis=2) / self.scale
        y = np.nan_to_num((candidates - self.center) / self.scale)
        found = [y]
        if self.correlated:
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
    also the variance stays and ``Σ x̃ ỹ`` over all rows is ρ times their number (x̃ standardised in the release); the
    coefficients of a regression, if the added rows meet its normal equations, as the records do: residuals that add up
    to 0, also times each predictor.

    candidates : (t, c) draws for the sampled added rows
    """
    y = whole.records[:, column]
    known = ~np.isnan(y)
    center, scale = (float(y[known].mean()), float(y[known].std())) if known.any() else (0.0, 0.0)
    if not scale > 0:
        return ColumnTilt(center, 1.0)
    predictors = next((names for response, names in named.regressions if response == column), None)
    if predictors is not None:
        found = ColumnTilt(center, scale, regression=Regression.of(whole.records, column, predictors))
        G = found.moments(candidates, whole.added)
        return replace(found, tilt=tilt(G, np.zeros(G.shape[2])))
    pairs = [pair for pair in named.correlations if column in pair]
    others = [pair[0] if pair[1] == column else pair[1] for pair in pairs]
    crossed = [(x, *whole.moments(x)) for x in others if x != column and _filled(x, whole.added)]
    found = ColumnTilt(
        center, scale, bool(pairs), tuple((x, mean, dev if dev > 0 else 1.0) for x, mean, dev in crossed)
    )
    G = found.moments(candidates, whole.added)
    return replace(found, tilt=tilt(G, _targets(found, column, whole, candidates)))


def _targets(found: ColumnTilt, column: int, whole: Whole, candidates: Floats) -> Floats:
    """What the mean of each moment must be over the added rows: 0, or what keeps a correlation."""
    records, added = whole.records, whole.added
    y = records[:, column]
    known = ~np.isnan(y)
    own = found.moments(y[:, None], records)[:, 0].mean(axis=0)
    targets, plain = np.zeros(len(own)), len(own) - len(found.crossed)
    for at, (x, _, _) in enumerate(found.crossed, plain):
        both = known & ~np.isnan(records[:, x])
        varies = both.sum() > 1 and records[both, x].std() > 0 and y[both].std() > 0
        rho = float(np.corrcoef(y[both], records[both, x])[0, 1]) if varies else 0.0
        rows = whole.rows * float(both.mean())
        rows += whole.rows_added * float((~np.isnan(candidates)).mean()) * float((~np.isnan(added[:, x])).mean())
        targets[at] = (rho * rows - own[at] * whole.rows) / max(whole.rows_added, 1)
    return targets


def _filled(column: int, added: Floats) -> bool:
    """Whether a column of the added rows is known by now."""
    return bool((~np.isnan(added[:, column])).any())
