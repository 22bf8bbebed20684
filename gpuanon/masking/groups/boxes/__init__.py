"""Boxes that give the most accurate statistics [1].

A statistic that is computed from boxes has a range of possible values, whose width is ``2 Σ a_i Δ_i`` over all records
to first order: sensitivities times half-widths.  Boxes of k records are chosen to make it small.

References
----------
.. [1] G. Xiang, V. Kreinovich (2013), Data anonymization that leads to the most accurate estimates of statistical
   characteristics, IEEE SSCI.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, PrivateAttr, field_validator, model_validator

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.arrays.partition import Partition
from gpuanon.arrays.progress import stage
from gpuanon.arrays.rng import Draws
from gpuanon.errors import ParameterError
from gpuanon.masking.constraints import Constraint, Spread, separated_values, unite_while
from gpuanon.masking.groups.batched import require_k_rows
from gpuanon.masking.groups.boxes.box_cuts import BoxCost, box_cuts, whole_coordinates
from gpuanon.masking.groups.boxes.box_improvement import improve
from gpuanon.masking.groups.boxes.sensitivities import (
    Gradient,
    Term,
    dismissal_threshold,
    local_density,
    optimal_multiplier,
    sensitivities,
    standard_error,
)
from gpuanon.masking.groups.in_blocks import Constrained
from gpuanon.numerics.metric import EUCLIDEAN, Metric
from gpuanon.tables.statistics import Statistic

Features = tuple[tuple[str, bool], ...]

DISMISS_MOST = 0.05
"""Share of the records that may be dismissed, unless a recipe says otherwise."""

_SAMPLE = 1 << 16
"""Records whose contributions to the uncertainty decide which are dismissed."""


WantedStatistics: TypeAlias = Annotated[
    str | tuple[str, ...] | dict[str, float],
    Field(
        description="mean, variance, sd, covariance, correlation of all columns or of named ones: covariance(age,"
        " income); regression(cost ~ age + income); a list, or a table with weights"
    ),
]
Epsilon: TypeAlias = Annotated[
    float | dict[str, float] | None,
    Field(
        description="with diversity: a box holds so many values of each column that differ by this number of its"
        " standard deviations; one number for all numeric columns, or one by column"
    ),
]


@dataclass(frozen=True, repr=False)
class BoxSummary:
    """What the boxes of a cell have to know of all cells.

    rows     : number of records
    sums     : (d,) of the numeric columns
    products : (d, d) sums of their products
    keys     : (m,) random numbers of a sample of the records: those with the smallest
    sample   : (m, d) their numeric columns
    density  : (m,) records per unit volume near them
    """

    rows: int
    sums: Host
    products: Host
    keys: Host
    sample: Host
    density: Host

    def merge(self, other: BoxSummary) -> BoxSummary:
        """Of the records of both."""
        keys, sample, density = (
            np.concatenate([getattr(self, name), getattr(other, name)]) for name in ("keys", "sample", "density")
        )
        chosen = np.sort(np.argsort(keys, kind="stable")[:_SAMPLE])
        return BoxSummary(
            self.rows + other.rows,
            self.sums + other.sums,
            self.products + other.products,
            keys[chosen],
            sample[chosen],
            density[chosen],
        )

    @property
    def mean(self) -> Host:
        """(d,)"""
        return np.asarray(self.sums / self.rows)

    @property
    def covariance(self) -> Host:
        """(d, d) divisor n."""
        return np.asarray(self.products / self.rows - np.outer(self.mean, self.mean))


class BoxGroups(Constrained):
    """Boxes of k records for which the ranges of the wanted statistics are narrow.

    Numeric columns have the sensitivities of the statistics, in units of standard deviations of the encoded columns;
    features of categories and of missing values that of a typical numeric column.  A sensitivity below a thousandth of
    the mean is raised to it.
    """

    metrics = ("euclidean",)

    use: Literal["boxes"] = "boxes"
    k: int = Field(ge=2)
    statistic: WantedStatistics = "covariance"
    epsilon: Epsilon = None
    dismiss: bool = Field(default=False, description="leave out records that would need a box too large")
    dismiss_most: float = Field(
        default=DISMISS_MOST, ge=0, le=1, description="share of the records that is left out at most"
    )
    improve: bool = Field(default=True, description="search for better boxes from those that the cuts give")
    sweeps: int | None = Field(
        default=None,
        ge=1,
        description="improve: sweeps of the search over all boxes; none: 8 for large tables, up to 40 for small ones",
    )

    _features: Features | None = PrivateAttr(default=None)
    _learned: BoxSummary | None = PrivateAttr(default=None)

    @field_validator("statistic")
    @classmethod
    def _named(cls, value: Any) -> Any:
        for text in _texts(value):
            Statistic.parse(text)
        if isinstance(value, dict) and not all(weight > 0 for weight in value.values()):
            raise ValueError("weights above 0 are allowed")
        return value

    @model_validator(mode="after")
    def _spread_is_whole(self) -> Self:
        given = [self.epsilon] if isinstance(self.epsilon, float) else list((self.epsilon or {}).values())
        if given and self.diversity is None:
            raise ValueError("epsilon: needs diversity, the number of values that differ by it")
        if not all(epsilon > 0 for epsilon in given):
            raise ValueError("epsilon: numbers above 0 are allowed")
        return self

    @property
    def constraint(self) -> Constraint | None:
        """On sensitive columns; with `epsilon`, diversity is one of the boxes' own columns."""
        return Constraint.given(None if self.epsilon is not None else self.diversity, self.closeness)

    @property
    def spread(self) -> Spread | None:
        if self.epsilon is None or self.diversity is None:
            return None
        if isinstance(self.epsilon, dict):
            return Spread(self.diversity, tuple(self.epsilon.items()))
        names = [name for name, categorical in self._features or () if not categorical]
        return Spread(self.diversity, tuple((name, self.epsilon) for name in names))

    @property
    def learns(self) -> bool:
        kinds = {Statistic.parse(text).kind for text in _texts(self.statistic)}
        return self.dismiss or bool(kinds & {"correlation", "regression"})

    @property
    def drops(self) -> bool:
        return self.dismiss

    def informed(self, features: Features, learned: Any = None) -> Self:
        known = self.model_copy()
        known._features, known._learned = features, learned
        if features and not known._places(len(features)):
            raise ParameterError(
                "boxes: the statistics are those of numeric columns, and the mask has none",
                hint="mask a numeric column, or use a method on classes",
            )
        known._terms(len(features))  # refuses columns that are not there
        return known

    def learn(self, X: Array, draws: Draws) -> BoxSummary:
        xp = namespace(X)
        points = self._numeric(X).astype(np.float64)
        keys = draws.uniform()[:, 0]
        chosen = xp.sort(xp.argsort(keys, kind="stable")[:_SAMPLE]) if self.dismiss else xp.arange(0)
        density = local_density(points, self.k)[chosen] if self.dismiss else xp.zeros(0)
        found = (points.sum(axis=0), points.T @ points, keys[chosen], points[chosen], density)
        return BoxSummary(len(X), *(to_host(part) for part in found))

    def kept(self, X: Array) -> Array:
        """Records whose contribution c(x) is no larger than the optimal threshold; k of a cell at least."""
        xp = namespace(X)
        points = self._numeric(X).astype(np.float64)
        known, terms = self._summary(points), self._terms(X.shape[1])[0]
        own = self._contributions(known, terms, points, local_density(points, self.k))
        kept = own <= self._threshold(known, terms, self.dismiss_most)[0]
        kept[xp.argsort(own, kind="stable")[: self.k]] = True
        return kept

    def findings(self) -> Mapping[str, Any]:
        """The share of the records that may be dismissed, and the share that the source's threshold would dismiss."""
        if not self.dismiss or self._learned is None:
            return {}
        terms = self._terms(len(self._features or ()))[0]
        threshold, sampled = self._threshold(self._learned, terms, 1.0)
        return {"dismissal": {"share_at_most": self.dismiss_most, "share_by_rule": float((sampled > threshold).mean())}}

    def _contributions(self, known: BoxSummary, terms: tuple[Term, ...], rows: Array, density: Array) -> Array:
        """(n,) c(x) of some rows."""
        a = sensitivities(rows, terms, known.mean, known.covariance)
        return optimal_multiplier(a[:, _columns(terms)], density, self.k)

    def _threshold(self, known: BoxSummary, terms: tuple[Term, ...], most: float) -> tuple[float, Host]:
        """The largest contribution that is kept where a share `most` may be dismissed, and those of the sample."""
        error = standard_error(known.sample, terms, known.mean, known.covariance)
        sampled = self._contributions(known, terms, known.sample, known.density)
        return dismissal_threshold(sampled, len(_columns(terms)), error, known.rows, most), sampled

    def form(self, X: Array, draws: Draws, metric: Metric = EUCLIDEAN) -> Partition:
        whole = Partition.whole(len(X), X)
        require_k_rows(whole, self.k)
        if not len(X):
            return whole
        with stage("boxes"):
            x, cost = whole_coordinates(X), self._cost(X)
            floors = self._floors(X, x)
            groups = box_cuts(x, cost, whole, self.k, floors)
        if self.improve:
            with stage("improvement"):
                groups = improve(x, cost, groups, self.k, self.sweeps, floors)
        return self._united(X, groups)

    def _cost(self, X: Array) -> BoxCost:
        """Of boxes on the grid of `X`."""
        d = X.shape[1]
        terms, places = self._terms(d)
        if not places:
            return BoxCost.of(X, Gradient(np.zeros(d), np.ones(d), ()), self.k)
        points = self._numeric(X)
        known = self._summary(points)
        mean, covariance = np.zeros(d), np.eye(d)
        mean[places], covariance[np.ix_(places, places)] = known.mean, known.covariance
        placed = tuple(replace(term, columns=tuple(places[j] for j in term.columns)) for term in terms)
        gradient = Gradient.of(placed, mean, covariance)
        others = np.setdiff1d(np.arange(d), places)
        if len(others):
            gradient.constant[others] = float(gradient.sensitivities(X)[:, places].mean())
        return BoxCost.of(X, gradient, self.k)

    def _summary(self, points: Array) -> BoxSummary:
        """What was learned; without it, of standardised columns that know nothing else, or of these rows."""
        if self._learned is not None:
            return self._learned
        d = points.shape[1]
        none = np.zeros(0)
        if self._features is not None:
            return BoxSummary(1, np.zeros(d), np.eye(d), none, np.zeros((0, d)), none)
        rows = points.astype(np.float64)
        found = [to_host(part) for part in (rows.sum(axis=0), rows.T @ rows, rows)]
        density = to_host(local_density(rows, self.k)) if self.dismiss else none
        return BoxSummary(len(rows), found[0], found[1], none, found[2], density)

    def _numeric(self, X: Array) -> Array:
        """The numeric columns of `X`."""
        return namespace(X).ascontiguousarray(X[:, self._places(X.shape[1])])

    def _places(self, width: int) -> list[int]:
        """The numeric columns, by number; columns that nothing is known of are numeric."""
        flags = [categorical for _, categorical in self._features or ()]
        return [j for j in range(width) if j >= len(flags) or not flags[j]]

    def _terms(self, width: int) -> tuple[tuple[Term, ...], list[int]]:
        """The statistics, over the numeric columns by number among them, and where these are in the matrix."""
        places = self._places(width)
        names = [self._features[j][0] if self._features and j < len(self._features) else str(j) for j in places]
        weights = self.statistic if isinstance(self.statistic, dict) else dict.fromkeys(_texts(self.statistic), 1.0)
        terms = [
            Term(one.kind, tuple(names.index(name) for name in one.columns), weight)
            for text, weight in weights.items()
            for one in Statistic.parse(text).over(names)
        ]
        if not terms:  # a covariance of one column is its variance
            terms = [Term("variance", (at,)) for at in range(len(places))]
        return tuple(terms), places

    def _separations(self, width: int) -> list[tuple[int, float]]:
        """The columns that the spread is asked of, by number, and ε of each."""
        if self.epsilon is None:
            return []
        places = self._places(width)
        if not isinstance(self.epsilon, dict):
            return [(j, self.epsilon) for j in places]
        names = {self._features[j][0] if self._features else str(j): j for j in places}
        missing = [name for name in self.epsilon if name not in names]
        if missing:
            raise ParameterError(
                f"epsilon: there is no numeric column {', '.join(map(repr, missing))} among the boxes'"
            )
        return [(names[name], epsilon) for name, epsilon in self.epsilon.items()]

    def _floors(self, X: Array, x: Array) -> Array | None:
        """(d,) least widths of boxes on the grid of `x`: ℓ values ε apart span (ℓ − 1) ε."""
        separations = self._separations(X.shape[1])
        if not separations or self.diversity is None:
            return None
        xp = namespace(X)
        reach, steps = (X.max(axis=0) - X.min(axis=0)).max(), (x.max(axis=0) - x.min(axis=0)).max()
        floors = xp.zeros(X.shape[1])
        for j, epsilon in separations:
            floors[j] = (self.diversity - 1) * epsilon * steps / reach
        return floors

    def _united(self, X: Array, groups: Partition) -> Partition:
        """Boxes united until each holds values that are far enough apart."""
        separations, least = self._separations(X.shape[1]), self.diversity
        if not separations or least is None:
            return groups

        def fails(now: Partition) -> Array:
            missing = namespace(X).zeros(now.parts, dtype=bool)
            for j, epsilon in separations:
                missing |= separated_values(X[:, j].astype(np.float64), now, epsilon * (1 + 1e-6), least) < least
            return missing

        with stage("constraint"):
            return unite_while(groups, X, fails, f"{least} values that differ by epsilon in each column")


def _columns(terms: tuple[Term, ...]) -> list[int]:
    """The columns that statistics depend on, by number."""
    return sorted({column for term in terms for column in term.columns})


def _texts(statistic: str | tuple[str, ...] | dict[str, float]) -> tuple[str, ...]:
    """The statistics that were named."""
    return (statistic,) if isinstance(statistic, str) else tuple(statistic)
