"""Three models of the pairs that belong together, fitted without knowing them; which of them is the likeliest.

Every model gives a pair the weight log m/u of Fellegi and Sunter:

- distance : m / u = exp(−τ D²) / Z, D the distance of the points.  Its order of candidates is the distance attack's.
- normal   : original points are a linear regression on released points, any noise and any dependence of columns that
             is normal (`linkage_normal`).
- levels   : m / u = Π_j m_jl / u_jl, any falling function of the difference (`linkage_levels`); between the middles of
             levels the weight is interpolated, so that pairs of the same levels do not tie.  Columns are independent
             given whether a pair belongs together; u is known from random pairs.

τ is found by EM: the mean of D² among the pairs must be the model's, which is its moment equation.

Which model: on records that were not used in the fit, by the mean of log((1 − s) + s/N Σ m/u) over records, with s the
share of records that have a pair and N the candidates of a record.  So that these compare although columns depend on
one another, every m/u is first divided by its mean over pairs that do not belong together where that is above 1 (it is
1 if u is right).  A model of more parameters is taken only if it is better by twice the standard error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.risk.linkage.candidate_pairs import Agreement, Pairs, posterior
from gpuanon.assessing.risk.linkage.level_models import Probabilities, estimate, falling, maximise
from gpuanon.assessing.risk.linkage.normal_models import NormalPairs

_ROUNDS = 30
_SETTLED = 1e-3  # relative change of τ
_GRID = np.concatenate([[0.0], np.geomspace(1e-3, 1e9, 97)])  # τ in units of the mean of D² among random pairs


class Model(Protocol):
    """A model of pairs: its name, and the weight log m/u of pairs."""

    @property
    def name(self) -> str: ...

    def scores(self, pairs: Pairs) -> Host:
        """(r, c) weight of each pair."""
        ...


@dataclass(frozen=True, eq=False)
class ByDistance:
    """The nearest candidate; τ only tells how likely it is."""

    scale: float
    constant: float
    name: str = "distance"

    def scores(self, pairs: Pairs) -> Host:
        return np.asarray(-self.scale * pairs.distance - self.constant)

    @property
    def noise(self) -> float:
        """Variance of a feature's noise, 1 at most."""
        return 1 / (1 + 2 * self.scale)


@dataclass(frozen=True, eq=False)
class ByLevels:
    """One weight per level of each column."""

    agree: Agreement
    found: Probabilities
    floor: float
    name: str = "levels"

    def scores(self, pairs: Pairs) -> Host:
        return self.agree.scores(pairs.rows, pairs.index, self.found.weights(self.floor))


def by_distance(pairs: Pairs, chance: Chance, own: Host) -> ByDistance:
    """τ by EM from a first guess of the probability that each pair belongs together.

    Cost : O(r c) per round, at most 30 rounds.
    """
    away, weight = chance.distances
    away = np.append(away, 0.0)  # a pair that agrees keeps Z above 0
    weight = np.append(weight, weight.min(initial=1.0))
    unit = float(weight @ away)
    unit = unit if unit > 0 else 1.0  # nobody differs
    moments = _moments(away / unit, weight)
    scale = 0.0
    for _ in range(_ROUNDS):
        size = max(float(own.sum()), 1e-9)
        share = min(max(size / len(own), 1e-9), 1 - 1e-9)
        before, scale = scale, _scale(float((own * pairs.distance).sum()) / (size * unit), moments)
        model = ByDistance(scale / unit, float(np.log(weight @ np.exp(-away * (scale / unit)))))
        own, _ = posterior(model.scores(pairs), pairs, share)
        if abs(scale - before) <= _SETTLED * max(scale, 1e-9):
            break
    return model


def _moments(phi: Host, weight: Host) -> Host:
    """(grid,) mean of φ = D² among pairs under each τ: E_u[φ exp(−τφ)] / E_u[exp(−τφ)], falling."""
    order = np.argsort(phi, kind="stable")
    values, weight = phi[order], weight[order]
    if len(values) > 2000:  # the closest are kept one by one
        edges = np.unique(np.concatenate([np.arange(500), np.linspace(500, len(phi), 1500).astype(np.int64)]))[:-1]
        held = np.add.reduceat(weight, edges)
        values, weight = np.add.reduceat(values * weight, edges) / held, held
    tilt = np.exp(-_GRID[:, None] * values) * weight
    return np.asarray((tilt @ values) / np.maximum(tilt.sum(axis=1), 1e-300))


def _scale(mean: float, moments: Host) -> float:
    """τ under which D² has this mean; moments that are equal, or vanish, are no division by zero."""
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
    beyond: Host
    near: Host
    share: Host

    @property
    def distances(self) -> tuple[Host, Host]:
        """Squared distances, and the share of all pairs that each stands for: candidates, and random pairs beyond."""
        far = self.pairs.distance[self.beyond, 0]
        share = np.concatenate([self.share, np.full(len(far), 1 / len(self.beyond))])
        return np.concatenate([self.near, far]), share


class AgreementLevels:
    """Levels of agreement of pairs, for EM."""

    def __init__(self, agree: Agreement, pairs: Pairs, chance: Pairs) -> None:
        self.agree, self.pairs = agree, pairs
        self.levels, self.u = agree.levels(pairs.rows, pairs.index), chances(agree, chance)
        self.floor = 0.5 / max(int(pairs.inside.sum()), 1)

    def fit(self, first: Host) -> Probabilities:
        """EM from a guess of the pairs."""
        return estimate(
            self.levels, self.agree.sizes, inside=self.pairs.inside, choices=self.pairs.choices, together=first,
            u=self.u, monotone=True, rounds=30, settled=1e-3,
        )  # fmt: skip

    def known(self, own: Host) -> Probabilities:
        """m of pairs that are known to belong together."""
        u, starts = np.concatenate(self.u), self.agree.starts
        flat = (self.levels + starts[:-1])[self.pairs.inside]
        m, _, share = maximise(flat, own[self.pairs.inside].astype(np.float64), u, len(own))
        return Probabilities(share, np.split(falling(m, u, starts), starts[1:-1]), self.u)

    def model(self, found: Probabilities) -> ByLevels:
        return ByLevels(self.agree, found, self.floor)

    def together(self, found: Probabilities) -> Host:
        """(r, c) probability that a pair belongs together."""
        weight = found.weights(self.floor)[self.levels + self.agree.starts[:-1]].sum(axis=2)
        return posterior(weight, self.pairs, found.share)[0]


class Learned:
    """The pairs that models are fitted to.

    points : of both tables
    firsts : guesses of the pairs to start from, the first by distance
    """

    def __init__(
        self, agree: Agreement, points: tuple[Host, Host], pairs: Pairs, chance: Chance, firsts: Sequence[Host]
    ) -> None:
        self.firsts = firsts[1:]
        self.near = by_distance(pairs, chance, firsts[0])
        self.levels = AgreementLevels(agree, pairs, chance.pairs)
        self.normal = NormalPairs(*points, pairs, self.near.noise)

    def models(self) -> list[Model]:
        """The models in order of their number of parameters.

        Levels find pairs that agree closely in some columns only, from which the normal model could not start; that
        model finds pairs under noise that levels lose.
        """
        closest = [self.levels.fit(first) for first in self.firsts]
        starts = [self.normal.first(), *(self.normal.regression(self.levels.together(one)) for one in closest)]
        noise = max((self.normal.fit(start) for start in starts), key=lambda fit: fit.likelihood)
        best = max([*closest, self.levels.fit(noise.own)], key=lambda one: one.likelihood)
        return [self.near, self.normal.model(noise.found), self.levels.model(best)]

    def informed(self, own: Host) -> list[Model]:
        """The normal model, and levels, of an attacker who knows which pairs (r, c) belong together."""
        if not own.any():
            return []
        known = self.normal.regression(own.astype(np.float64))
        return [self.normal.model(known), self.levels.model(self.levels.known(own))]


def chances(agree: Agreement, chance: Pairs) -> list[Host]:
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
    own: Host
    chance: Chance

    def likelihood(self, model: Model, weight: Host) -> Host:
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


def likeliest(found: Sequence[Model], weights: Sequence[Host], judges: Judges) -> tuple[int, dict[str, float]]:
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
