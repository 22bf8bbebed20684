"""New rows from the distribution of largest entropy that has the moments of the table.

Among all densities on a box with these moments, the one of largest entropy is ``exp(λ · f(x))``, f the functions whose
means are given [1].  The dual is convex; it is solved by Newton's method on a sample from a proposal q, weighted by
1 / q.  q is normal, with the means, variances and given covariances, and uniform along columns whose squares are not
given.  New rows are drawn by a Metropolis–Hastings chain that proposes from q: how fast it converges depends on q, what
it converges to does not.

References
----------
.. [1] E. T. Jaynes (1957), Information theory and statistical mechanics, Phys. Rev. 106(4).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import ceil
from operator import mul
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import numpy as np
from pydantic import Field, model_validator

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.partition import Partition, segment_maxima, segment_means, segment_minima
from gpuanon.arrays.rng import Draws, Key
from gpuanon.errors import ParameterError
from gpuanon.masking.contract import Operation, RowEffect
from gpuanon.masking.given import Records
from gpuanon.masking.outcomes import Changed

_PUBLIC = Key(b"candidates of a maximum-entropy fit")
"""No secret: what is drawn with it is fitted to the moments, and not released."""

_CANDIDATES = 1 << 14
_NEWTON = 60
_STEPS = 24
_SHARE = 0.02
"""Effective share of the proposals, at least; so few of them are accepted, about."""


@dataclass(frozen=True)
class GivenMoments:
    """Products of columns whose means are given.

    d     : number of columns
    terms : each the columns of a product, one as often as its power
    """

    d: int
    terms: tuple[tuple[int, ...], ...]

    @classmethod
    def up_to(cls, d: int, degree: int) -> GivenMoments:
        """The columns, their products in pairs, and from the third to the `degree`-th power of each."""
        pairs = [(i, j) for i in range(d) for j in range(i, d)]
        powers = [(i,) * power for power in range(3, degree + 1) for i in range(d)]
        return cls(d, (*((i,) for i in range(d)), *pairs, *powers))

    @property
    def apart(self) -> Host:
        """(d,) whether the square of each column is not given."""
        return np.array([(i, i) not in self.terms for i in range(self.d)])

    def functions(self, X: Array) -> Array:
        """(n, p) the products."""
        xp = namespace(X)
        if not self.terms:
            return xp.zeros((len(X), 0))
        single = [term[0] for term in self.terms if len(term) == 1]
        first, second = ([term[at] for term in self.terms if len(term) == 2] for at in (0, 1))
        found = [X[:, single], X[:, first] * X[:, second]]
        for term in (term for term in self.terms if len(term) > 2):
            counts = Counter(term)
            found.append(reduce(mul, [X[:, i] ** power for i, power in counts.items()])[:, None])
        order = sorted(range(len(self.terms)), key=lambda at: (min(len(self.terms[at]), 3), at))
        values = xp.concatenate(found, axis=1)
        return values if order == list(range(len(order))) else values[:, np.argsort(order).tolist()]


@dataclass(frozen=True, eq=False, repr=False)
class MomentSums:
    """Sums over rows, which can be merged: their number, Σ f(x), Σ x, Σ x², and the extremes of each column."""

    rows: int
    sums: Host
    first: Host
    second: Host
    low: Host
    high: Host

    @classmethod
    def of(cls, X: Array, moments: GivenMoments) -> MomentSums:
        """Of the rows of `X` (n, d)."""
        whole, d = Partition.whole(len(X), like=X), moments.d
        if not len(X):
            none = np.zeros(d)
            return cls(0, np.zeros(len(moments.terms)), none, none, np.full(d, np.inf), np.full(d, -np.inf))
        xp = namespace(X)
        means = segment_means(xp.concatenate([moments.functions(X), X, X * X], axis=1), whole)[0]
        extremes = xp.concatenate([means, segment_minima(X, whole)[0], segment_maxima(X, whole)[0]])
        found = to_host(extremes)
        f, first, second, low, high = np.split(found, np.cumsum([len(moments.terms), d, d, d]))
        return cls(len(X), len(X) * f, len(X) * first, len(X) * second, low, high)

    def merge(self, other: MomentSums) -> MomentSums:
        """The sums over the rows of both."""
        low, high = np.minimum(self.low, other.low), np.maximum(self.high, other.high)
        first, second = self.first + other.first, self.second + other.second
        return MomentSums(self.rows + other.rows, self.sums + other.sums, first, second, low, high)

    def __repr__(self) -> str:
        return f"MomentSums({self.rows} rows, {len(self.low)} columns)"


@dataclass(frozen=True, eq=False, repr=False)
class SamplingDensity:
    """A normal distribution along some columns, uniform along the others.

    mean, factor : N(m, F Fᵀ) along the columns that are not apart
    precision    : pseudo-inverse of F Fᵀ
    start, width : of the range of columns that are apart; width 0 for the others
    """

    mean: Host
    factor: Host
    precision: Host
    start: Host
    width: Host

    @classmethod
    def of(cls, sums: MomentSums, moments: GivenMoments) -> SamplingDensity:
        """With the means and variances of the table, and the covariances that are given."""
        d, apart = moments.d, moments.apart
        mean, target = sums.first / sums.rows, dict(zip(moments.terms, sums.sums / sums.rows, strict=True))
        second = np.outer(mean, mean)
        second[np.diag_indices(d)] = sums.second / sums.rows
        for (i, j), value in ((term, value) for term, value in target.items() if len(term) == 2):
            second[i, j] = second[j, i] = value
        covariance = second - np.outer(mean, mean)
        covariance[apart, :] = covariance[:, apart] = 0.0
        values, vectors = np.linalg.eigh(covariance)
        kept = values > 1e-12 * max(values.max(), 1e-300)
        factor = (vectors * np.sqrt(np.where(kept, values, 0.0))) @ vectors.T  # does not turn with the last bits
        inverse = (vectors[:, kept] / values[kept]) @ vectors[:, kept].T
        start = np.where(apart, sums.low, mean)
        return cls(np.where(apart, 0.0, mean), factor, inverse, start, np.where(apart, sums.high - sums.low, 0.0))

    def draw(self, draws: Draws, like_: Array) -> tuple[Array, Array]:
        """(n, d) rows, and (n,) −log q of each, up to a constant."""
        xp = namespace(like_)
        d = len(self.mean)
        noise = draws.normal(d) @ like(self.factor.T, like_)
        rows = like(self.mean, like_) + noise
        if self.width.any():
            level = draws.child("range").uniform(d) * like(self.width, like_)
            rows = xp.where(like(self.width, like_) > 0, like(self.start, like_) + level, rows)
        return rows, 0.5 * ((noise @ like(self.precision, like_)) * noise).sum(axis=1)


@dataclass(frozen=True, eq=False, repr=False)
class MaximumEntropy:
    """The density ``exp(λ · f(x))`` on a box.

    weights   : (p,) λ
    low, high : the box; infinite for columns of about two values
    steps     : of a chain, the more the fewer proposals are accepted
    """

    proposal: SamplingDensity
    moments: GivenMoments
    weights: Host
    low: Host
    high: Host
    steps: int = _STEPS

    @classmethod
    def fit(cls, sums: MomentSums, moments: GivenMoments) -> MaximumEntropy:
        """Fit to the moments; refused where a sample of proposals cannot meet them.

        The proposals are the same whatever the key of a run: which tables are refused depends on their moments only.
        """
        mean, square = sums.first / sums.rows, sums.second / sums.rows
        proposal = SamplingDensity.of(sums, moments)
        candidates = _PUBLIC.draws(np.arange(_CANDIDATES, dtype=np.int64), "candidates")
        X, base = proposal.draw(candidates, mean)
        # A column of two values has the largest variance of all on its range: there is no density.  It is let free.
        free = (square - mean**2 > _SPREAD * (mean - sums.low) * (sums.high - mean)) & ~moments.apart
        low, high = np.where(free, -np.inf, sums.low), np.where(free, np.inf, sums.high)
        inside = ((low - _SLACK <= X) & (high + _SLACK >= X)).all(axis=1)
        target = sums.sums / sums.rows
        found = _dual(moments.functions(X[inside]), base[inside], target) if inside.sum() > 1 else None
        if found is not None:
            weights, share = found
            model = cls(proposal, moments, weights, low, high, max(_STEPS, ceil(_STEPS / 4 / share)))
            if model._meets(target, candidates.child("trial")):
                return model
        raise ParameterError(
            "degree, moments: a density inside the columns' ranges that is near enough to be drawn does not meet these"
            " moments",
            hint="a lower degree, fewer moments, a transform for skewed columns, or sequential-synthesis",
        )

    def _meets(self, target: Host, draws: Draws) -> bool:
        """Whether drawn rows have these means, to a twentieth of a deviation and four standard errors.

        They do not where a few proposals at the border carry what the moments ask for.
        """
        F = self.moments.functions(self.sample(draws, self.low))
        limit = (_CLOSE + 4 / np.sqrt(len(F))) * F.std(axis=0) + 1e-9
        return bool((np.abs(F.mean(axis=0) - target) <= limit).all())

    def sample(self, draws: Draws, like_: Array) -> Array:
        """(n, d) rows, one for each record of `draws`, each after `steps` steps of a chain."""
        xp = namespace(like_)
        weights, low, high = (like(part, like_) for part in (self.weights, self.low, self.high))
        mean = np.where(self.proposal.width > 0, self.proposal.start + self.proposal.width / 2, self.proposal.mean)
        rows = like(mean, like_) + xp.zeros((len(draws.records), self.moments.d))
        height = xp.full(len(rows), -np.inf)
        for step in range(self.steps):
            own = draws.child(str(step))
            new, base = self.proposal.draw(own, like_)
            outside = ((new < low - _SLACK) | (new > high + _SLACK)).any(axis=1)
            reached = xp.where(outside, -np.inf, self._exponents(new, weights) + base)
            with np.errstate(invalid="ignore"):
                better = xp.log(own.child("accept").uniform(1)[:, 0]) < reached - height
            moves = ~outside & (better | xp.isneginf(height))
            rows = xp.where(moves[:, None], new, rows)
            height = xp.where(moves, reached, height)
        return xp.clip(rows, low, high)

    def _exponents(self, rows: Array, weights: Array) -> Array:
        """(n,) λ · f(x) of each row; the functions of all rows at once would be most of the memory."""
        stretches = range(0, len(rows), _STRETCH)
        found = [self.moments.functions(rows[at : at + _STRETCH]) @ weights for at in stretches]
        return namespace(rows).concatenate(found) if found else rows[:, 0]


_STRETCH = 1 << 16  # rows
_SLACK = 1e-9
_CLOSE = 0.05
_SPREAD = 0.5  # of the largest variance; a uniform column has a third of it


def _dual(F: Host, base: Host, target: Host) -> tuple[Host, float] | None:
    """(p,) λ at which the mean of `F` (m, p) under exp(F λ + base) is `target`, and the effective share of the sample.

    None where no weights reach it.
    """
    scale = np.maximum(F.std(axis=0), 1e-12)
    G = (F - target) / scale
    # Begin where the density is the proposal, as nearly as the functions allow: 1 / q is then cancelled.
    intercept = np.ones((len(F), 1))
    weights = np.linalg.lstsq(np.hstack([G, intercept]), -base, rcond=None)[0][:-1]

    def value(at: Host) -> tuple[float, Host]:
        heights = G @ at + base
        top = heights.max()
        p = np.exp(heights - top)
        return float(top + np.log(p.sum())), p / p.sum()

    current, p = value(weights)
    for _ in range(_NEWTON):
        gradient = p @ G
        if np.abs(gradient).max() < 1e-3:
            share = float(1.0 / (p @ p)) / len(p)
            return (np.asarray(weights / scale), share) if share > _SHARE else None
        hessian = (G * p[:, None]).T @ G - np.outer(gradient, gradient)
        step = np.linalg.solve(hessian + 1e-9 * np.eye(len(hessian)) * max(1.0, np.trace(hessian)), gradient)
        size = 1.0
        while size > 1e-6:
            reached, there = value(weights - size * step)
            if reached < current - 1e-4 * size * float(gradient @ step):
                break
            size /= 2
        else:
            return None
        weights, current, p = weights - size * step, reached, there
    return None


MomentNames: TypeAlias = Annotated[
    tuple[tuple[str, ...], ...],
    Field(
        description='products of columns whose means are kept, instead of all up to a degree: [["age"],'
        ' ["age", "age"], ["age", "income"]]'
    ),
]
MOMENTS: tuple[tuple[str, ...], ...] = ()


class LargestEntropy(Operation):
    """New rows; means, products of pairs and powers of columns have the means that they have in the table.

    With `moments`, only the means of these products and the shares of the categories that they name are kept.  All
    else has the largest entropy: two columns without a product are independent.

    Values lie inside the range of their column, unless it has about two values; those are decoded to the nearer one.
    Categories are decoded by the largest indicator.  So the moments hold for numbers of many values.
    """

    rows: ClassVar[RowEffect] = "new"
    learns: ClassVar[bool] = True

    use: Literal["maximum-entropy"] = "maximum-entropy"
    degree: int = Field(default=2, ge=2, le=4, description="highest power of a column whose mean is kept")
    moments: MomentNames = MOMENTS

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        """Refuse a degree that would do nothing."""
        check_moments(self.moments, self.degree)
        return self

    def learn(self, T: Array, groups: Partition, records: Records) -> MomentSums:
        _require_one_group(groups)
        return MomentSums.of(T, self._moments(T, records))

    def apply(self, T: Array, groups: Partition, records: Records) -> Changed:
        _require_one_group(groups)
        sums = records.learned
        assert isinstance(sums, MomentSums)
        draws = records.draws.child("maximum-entropy")
        moments = self._moments(T, records)
        values = MaximumEntropy.fit(sums, moments).sample(draws, T) if len(T) else T
        return Changed(values, rows=namespace(T).arange(len(T), dtype=np.int64), added=len(T))

    def _moments(self, T: Array, records: Records) -> GivenMoments:
        """Of the coordinates: all up to a degree, or those that are named."""
        d = T.shape[1]
        if not self.moments:
            return GivenMoments.up_to(d, self.degree)
        if records.columns is None:
            raise ParameterError("moments: are those of columns as they are", hint='basis = { use = "identity" }')
        places = {
            name: [at for at in range(d) if records.columns[at] == name] for name in dict.fromkeys(records.columns)
        }
        named = {name for moment in self.moments for name in moment}
        unknown, left = sorted(named - places.keys()), [name for name in places if name not in named]
        if unknown or left:
            what = [f"{name!r} is not masked" for name in unknown] + [f"{name!r} has no moment" for name in left]
            raise ParameterError(f"moments: {', '.join(what)}", hint="each masked column needs one, its mean at least")
        terms = [term for name, own in places.items() for term in _own(own, records)]
        terms += [term for moment in self.moments for term in product(*(places[name] for name in moment))]
        return GivenMoments(d, tuple(dict.fromkeys(tuple(sorted(term)) for term in terms)))


def check_moments(moments: tuple[tuple[str, ...], ...], degree: int) -> None:
    """Refuse a degree beside moments, and products of nothing or of too much."""
    if moments and degree != 2:
        raise ValueError("degree: does not apply where moments are named")
    if any(not 1 <= len(moment) <= 4 for moment in moments):
        raise ValueError("moments: a product has one to four factors")


def _own(places: list[int], records: Records) -> list[tuple[int, ...]]:
    """What is always given of a column of several coordinates, for categories or nulls: their first two moments."""
    flags = records.categorical
    if len(places) == 1 and not (flags is not None and flags[places[0]]):
        return []
    return [*((i,) for i in places), *((i, j) for i in places for j in places if i <= j)]


def _require_one_group(groups: Partition) -> None:
    """Refuse several groups: summaries of cells are merged, and groups of different cells do not correspond."""
    if groups.parts > 1:
        raise ParameterError(
            f"maximum-entropy: one group of all rows is allowed, got {groups.parts}", hint='groups = { use = "whole" }'
        )
