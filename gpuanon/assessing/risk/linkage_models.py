"""Three models of the pairs that belong together, fitted without knowing them; which of them is the likeliest.

Every model gives a pair the weight log m/u of Fellegi and Sunter, with u known from random pairs:

- distance : m / u = exp(−τ D²) / Z, D the distance of the points.  Its order of candidates is the distance attack's.
- scales   : m / u = Π_j exp(−τ_j φ_j) / Z_j, φ_j the squared difference of a number, 1 for different categories, 1 for
             a null against a value.  Noise of another size in each column; normal where the differences are.
- levels   : m / u = Π_j m_jl / u_jl, any falling function of the difference (`linkage_levels`); between the middles of
             levels the weight is interpolated, so that pairs of the same levels do not tie.

Columns are independent given the class in the last two.  τ is found by EM: the mean of φ among the pairs must be the
model's, which is its moment equation.

Which model: on records that were not used in the fit, by the mean of log((1 − s) + s/N Σ m/u) over records, with s the
share of records that have a pair and N the candidates of a record.  So that these compare although columns depend on
one another, every m/u is first divided by its mean over pairs that do not belong together where that is above 1 (it is
1 if u is right).  A model of
more parameters is taken only if it is better by twice the standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from gpuanon.assessing.risk.agreement import Agreement
from gpuanon.assessing.risk.linkage_levels import Probabilities, estimate, falling, maximise
from gpuanon.assessing.risk.linkage_pairs import Pairs

Floats = np.ndarray[Any, Any]
Ints = np.ndarray[Any, Any]

_ROUNDS = 60
_SETTLED = 1e-4  # relative change of the scales
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 97)])  # τ in units of the feature's mean among random pairs
_MOMENTS = 20_000  # random pairs of which the moments are taken


class Model(Protocol):
    """A model of pairs: its name, and the weight log m/u of pairs."""

    @property
    def name(self) -> str: ...

    def scores(self, pairs: Pairs) -> Floats:
        """(r, c) weight of each pair."""
        ...


@dataclass(frozen=True, eq=False)
class ByDistance:
    """The nearest candidate; τ only tells how likely it is."""

    scale: float
    constant: float
    name: str = "distance"

    def scores(self, pairs: Pairs) -> Floats:
        return np.asarray(-self.scale * pairs.distance - self.constant)


@dataclass(frozen=True, eq=False)
class ByScales:
    """One scale per feature of the columns."""

    agree: Agreement
    scale: Floats
    constant: float
    name: str = "scales"

    def scores(self, pairs: Pairs) -> Floats:
        found = self.agree.weighted(pairs.rows, pairs.index, -self.scale) - self.constant
        return np.round(found, 9)  # sums in another order tie


@dataclass(frozen=True, eq=False)
class ByLevels:
    """One weight per level of each column."""

    agree: Agreement
    found: Probabilities
    floor: float
    name: str = "levels"

    def scores(self, pairs: Pairs) -> Floats:
        return self.agree.scores(pairs.rows, pairs.index, self.found.weights(self.floor))


def posterior(weight: Floats, pairs: Pairs, share: float) -> tuple[Floats, Floats]:
    """(r, c) probability that a pair belongs together, and (r,) log((1 − s) + s/N Σ m/u)."""
    top = np.maximum(np.where(pairs.inside, weight, -np.inf).max(axis=1), 0.0)
    odds = np.where(pairs.inside, np.exp(weight - top[:, None]), 0.0) * (share / np.maximum(pairs.choices, 1))[:, None]
    mass = odds.sum(axis=1) + (1 - share) * np.exp(-top)
    return odds / mass[:, None], np.log(mass) + top


@dataclass(frozen=True, eq=False)
class Fit:
    """Scales τ, Σ log Z, the probability that each pair belongs together, and the mean likelihood."""

    scale: Floats
    constant: float
    own: Floats
    likelihood: float


def fitted(phi: Floats, pairs: Pairs, chance: Floats, first: Floats, share_of: Floats | None = None) -> Fit:
    """Scales by EM.

    Parameters
    ----------
    phi    : (r, c, p) features of the pairs
    chance : (R, p) features of pairs that do not belong together
    first  : (r, c) first guess of the probability
    share_of : (R,) the share of all such pairs that each stands for; None: random pairs

    Cost : O(r c p) per round, at most 60 rounds.
    """
    weight = np.full(len(chance), 1 / len(chance)) if share_of is None else share_of
    chance = np.concatenate([chance, np.zeros((1, chance.shape[1]))])  # a pair that agrees keeps Z above 0
    weight = np.append(weight, weight.min(initial=1.0))
    unit = weight @ chance
    unit = np.where(unit > 0, unit, 1.0)  # a column in which nobody differs
    chance, flat = chance / unit, phi.reshape(-1, phi.shape[2])
    moments = np.stack([_moments(column, weight) for column in chance.T])
    own, scale, level, constant = first, np.zeros(len(unit)), 0.0, 0.0
    for _ in range(_ROUNDS):
        size = max(float(own.sum()), 1e-9)
        share = min(max(size / len(own), 1e-9), 1 - 1e-9)
        mean = own.reshape(-1) @ flat / (size * unit)
        before = scale
        scale = np.array([_scale(value, one) for value, one in zip(mean, moments, strict=True)])
        constant = np.log(weight @ np.exp(-chance * scale)).sum()
        own, mass = posterior(-(flat @ (scale / unit)).reshape(own.shape) - constant, pairs, share)
        level = float(mass.mean())
        if np.abs(scale - before).max() <= _SETTLED * max(scale.max(), 1e-9):
            break
    return Fit(scale / unit, float(constant), own, level)


def _moments(phi: Floats, weight: Floats) -> Floats:
    """(grid,) mean of a feature among pairs under each τ: E_u[φ exp(−τφ)] / E_u[exp(−τφ)], falling."""
    order = np.argsort(phi, kind="stable")
    values, weight = phi[order], weight[order]
    if len(values) > 2000:  # the closest are kept one by one
        edges = np.unique(np.concatenate([np.arange(500), np.linspace(500, len(phi), 1500).astype(np.int64)]))[:-1]
        held = np.add.reduceat(weight, edges)
        values, weight = np.add.reduceat(values * weight, edges) / held, held
    tilt = np.exp(-_GRID[:, None] * values) * weight
    return np.asarray((tilt @ values) / np.maximum(tilt.sum(axis=1), 1e-300))


def _scale(mean: float, moments: Floats) -> float:
    """τ under which a feature has this mean; moments that are equal, or vanish, are no division by zero."""
    at = int(np.clip(np.searchsorted(-moments, -mean), 1, len(_GRID) - 1))
    apart = float(moments[at - 1] - moments[at])
    part = float(np.clip((moments[at - 1] - mean) / apart, 0, 1)) if apart > 1e-200 else 0.0
    return float(_GRID[at - 1] + part * (_GRID[at] - _GRID[at - 1]))


@dataclass(frozen=True, eq=False)
class Chance:
    """Pairs that do not belong together.

    pairs  : random ones
    beyond : (R,) whether a pair is further apart than the candidates of its record
    near   : (p,) squared distances of candidates that do not belong to their records
    share  : (p,) the share of all pairs that each of them stands for
    """

    pairs: Pairs
    beyond: Ints
    near: Floats
    share: Floats

    @property
    def distances(self) -> tuple[Floats, Floats]:
        """Squared distances, and the share of all pairs that each stands for: candidates, and random pairs beyond."""
        far = self.pairs.distance[self.beyond, 0]
        share = np.concatenate([self.share, np.full(len(far), 1 / len(self.beyond))])
        return np.concatenate([self.near, far])[:, None], share


def models(agree: Agreement, pairs: Pairs, chance: Chance, firsts: Sequence[Floats]) -> list[Model]:
    """The models in order of their number of parameters, fitted to the pairs.

    `firsts` are guesses of the pairs to start from, the first by distance.  Levels find pairs that agree closely in
    some columns only, from which the scales could not start; the scales find pairs under noise that levels lose.
    """
    distances, share_of = chance.distances
    near = fitted(pairs.distance[:, :, None], pairs, distances, firsts[0], share_of)
    phi = agree.features(pairs.rows, pairs.index)
    u = _chance_features(agree, chance.pairs)
    levels = Levels(agree, pairs, chance.pairs)
    closest = [levels.fit(first) for first in firsts[1:]]
    starts = [near.own, *(levels.together(one) for one in closest)]
    noise = max((fitted(phi, pairs, u, one) for one in starts), key=lambda fit: fit.likelihood)
    best = max([*closest, levels.fit(noise.own)], key=lambda one: one.likelihood)
    return [
        ByDistance(float(near.scale[0]), near.constant),
        ByScales(agree, noise.scale, noise.constant),
        ByLevels(agree, best, levels.floor),
    ]


class Levels:
    """Levels of agreement of pairs, for EM."""

    def __init__(self, agree: Agreement, pairs: Pairs, chance: Pairs) -> None:
        self.agree, self.pairs = agree, pairs
        self.levels, self.u = agree.levels(pairs.rows, pairs.index), chances(agree, chance)
        self.floor = 0.5 / max(int(pairs.inside.sum()), 1)

    def fit(self, first: Floats) -> Probabilities:
        """EM from a guess of the pairs."""
        return estimate(
            self.levels, self.agree.sizes, inside=self.pairs.inside, choices=self.pairs.choices, together=first,
            u=self.u, monotone=True, rounds=50,
        )  # fmt: skip

    def together(self, found: Probabilities) -> Floats:
        """(r, c) probability that a pair belongs together."""
        weight = found.weights(self.floor)[self.levels + self.agree.starts[:-1]].sum(axis=2)
        return posterior(weight, self.pairs, found.share)[0]


def _chance_features(agree: Agreement, chance: Pairs) -> Floats:
    """(R, p) features of some random pairs."""
    return agree.features(chance.rows[:_MOMENTS], chance.index[:_MOMENTS])[:, 0]


def chances(agree: Agreement, chance: Pairs) -> list[Floats]:
    """u of the levels of every column, from random pairs."""
    flat = agree.levels(chance.rows, chance.index)[:, 0] + agree.starts[:-1]
    return np.split(np.bincount(flat.reshape(-1), minlength=int(agree.starts[-1])) / len(flat), agree.starts[1:-1])


@dataclass(frozen=True, eq=False)
class Judges:
    """Records that no model was fitted to.

    pairs  : their candidates
    own    : (r, c) which candidates belong to them
    chance : pairs that do not belong together
    """

    pairs: Pairs
    own: Ints
    chance: Chance

    def likelihood(self, model: Model, weight: Floats) -> Floats:
        """(r,) log((1 − s) + s/N Σ m/u), with m/u divided by its mean over pairs that do not belong together.

        That mean is taken over the candidates, whose `weight` is given, and beyond these over a random sample.  It is
        1 or more, but for the distance, whose candidates are all that are near: the model's own normalisation holds
        where no pair was seen.
        """
        far = model.scores(self.chance.pairs)[:, 0]
        top = max(float(weight.max()), float(far.max()), 0.0)
        near = np.where(self.pairs.inside & ~self.own, np.exp(weight - top), 0.0).sum(axis=1)
        rest = np.exp(far - top) * self.chance.beyond
        mean = float((near / np.maximum(self.pairs.choices, 1)).mean() + rest.mean())
        lowest = np.exp(-top) / (max(float(self.pairs.choices.sum()), 1.0) if model.name == "distance" else 1.0)
        weight, share = weight - top - np.log(max(mean, lowest)), 0.5
        for _ in range(20):
            before, (together, mass) = share, posterior(weight, self.pairs, share)
            share = min(max(float(together.sum(axis=1).mean()), 1e-9), 1 - 1e-9)
            if abs(share - before) < 1e-3:
                break
        return mass


def likeliest(found: Sequence[Model], weights: Sequence[Floats], judges: Judges) -> tuple[int, dict[str, float]]:
    """Which model the likelihood prefers, and the information of each: mean over records, in nats.

    `weights` are those of the judges' candidates under each model.
    """
    best, held = 0, judges.likelihood(found[0], weights[0])
    information = {found[0].name: float(held.mean())}
    for at, (model, weight) in enumerate(zip(found[1:], weights[1:], strict=True), start=1):
        other = judges.likelihood(model, weight)
        information[model.name] = float(other.mean())
        gain = other - held
        if gain.mean() > 2 * gain.std() / np.sqrt(len(gain)):
            best, held = at, other
    return best, information


def informed(agree: Agreement, pairs: Pairs, chance: Pairs, own: Ints) -> list[Model]:
    """The models with scales, and with levels, of an attacker who knows which pairs belong together."""
    if not own.any():
        return []
    known = own / np.maximum(own.sum(), 1)
    phi = agree.features(pairs.rows, pairs.index)
    u = _chance_features(agree, chance)
    u = np.concatenate([u, np.zeros((1, u.shape[1]))])
    unit, flat = np.where(u.any(axis=0), u.mean(axis=0), 1.0), np.full(len(u), 1 / len(u))
    mean = known.reshape(-1) @ phi.reshape(-1, phi.shape[2]) / unit
    moments = [_moments(column, flat) for column in (u / unit).T]
    scale = [_scale(value, one) for value, one in zip(mean, moments, strict=True)]
    split = chances(agree, chance)
    flat = (agree.levels(pairs.rows, pairs.index) + agree.starts[:-1])[pairs.inside]
    together = own[pairs.inside].astype(np.float64)
    m, _, share = maximise(flat, together, np.concatenate(split), len(own))
    m = falling(m, np.concatenate(split), agree.starts)
    levels = Probabilities(share, np.split(m, agree.starts[1:-1]), split)
    return [ByScales(agree, np.array(scale) / unit, 0.0), ByLevels(agree, levels, 0.5 / max(len(flat), 1))]
