"""Pairs that belong together as a normal regression: what is left of an original, given its released record.

    x = B y + c + ε,  ε ~ N(0, Σ)      a pair that belongs together, x the point of the original, y of the release
    x ~ N(μ, S)                        any other pair: the moments of the originals

The weight log m/u of Fellegi and Sunter is then a Mahalanobis distance in the metric Σ⁻¹, and a term of x alone.  No
independence of columns is assumed on either side.  For noise that was added to normal records this is the weight of an
attacker who knows the noise: B draws y back towards the mean by as much as the noise has spread it.  For means of
groups B is the identity.

EM finds B, c and Σ from the candidates of some records.  It starts from what the moments of both tables say without
any pair: along axes on which neither has correlations, a release of λ times the variance of the originals is theirs
and noise if λ > 1 (B = 1/λ), and the originals are the release and noise if λ < 1 (B = 1); Σ is at least the noise of
the model by distance.  As many pairs of that kind as there are features are added: few records do not leave it far.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.ranges import ranges
from gpuanon.assessing.risk.linkage.candidate_pairs import Pairs, posterior

_PIECE = 1 << 14  # rows that are turned at a time
_ROUNDS = 60
_SETTLED = 1e-4  # of the mean likelihood in a round
_NARROWEST = 1e-6
"""Of an original, at least this variance is left; the features have about 1."""


@dataclass(frozen=True, eq=False)
class NormalRegression:
    """Originals given their releases.

    slope    : (f + 1, f) Bᵀ, and c below it
    metric   : (f, f) root R of Σ⁻¹ = R Rᵀ
    constant : ½ log det Σ⁻¹
    """

    slope: Host
    metric: Host
    constant: float


@dataclass(frozen=True, eq=False)
class NormalFit:
    """What EM found: the regression, the probability (r, c) that each pair belongs together, the mean likelihood."""

    found: NormalRegression
    own: Host
    likelihood: float


@dataclass(frozen=True, eq=False)
class ByNormal:
    """The regression of all pairs that belong together; `alone` (n,): log density of each original without one."""

    before: Host
    after: Host
    found: NormalRegression
    alone: Host
    name: str = "normal"

    @cached_property
    def _expected(self) -> Host:
        return _expected(self.after, self.found)

    def _expected_of(self, index: Host) -> Host:
        """(r, c, f) of the released rows `index`; of a large table only these are computed."""
        if len(self.after) <= index.size:
            return np.asarray(self._expected[index])
        return _expected(self.after[index.reshape(-1)], self.found).reshape(*index.shape, -1)

    def scores(self, pairs: Pairs) -> Host:
        """(r, c) weight of each pair."""
        x = self.before[pairs.rows] @ self.found.metric
        apart = x[:, None] - self._expected_of(pairs.index)
        weight = -0.5 * np.einsum("rcf,rcf->rc", apart, apart) + self.found.constant - self.alone[pairs.rows, None]
        return np.asarray(np.round(weight, 6))  # equal records tie, whatever the order of the sums


def _expected(after: Host, found: NormalRegression) -> Host:
    """(m, f) expected originals of released points, in the metric of what is left of them."""
    turn = found.slope @ found.metric
    return np.asarray(after @ turn[:-1] + turn[-1])


def log_density(x: Host) -> Host:
    """(n,) logarithm of the normal density with the moments of x, but for the constant that a pair has as well."""
    apart = x - x.mean(axis=0)
    values, axes = np.linalg.eigh(apart.T @ apart / len(x) + _NARROWEST * np.eye(x.shape[1]))
    out = np.empty(len(x))
    for rows in ranges(len(x), _PIECE):
        out[rows] = ((apart[rows] @ axes) ** 2 / values).sum(axis=1)
    return np.asarray(-0.5 * out - 0.5 * np.log(values).sum())


def by_moments(before: Host, after: Host, noise: float) -> tuple[Host, Host]:
    """(f + 1, f) slope and (f, f) Σ that the moments of both tables suggest; `noise`: variance by distance."""
    f = before.shape[1]
    S, T = (np.cov(side.T, bias=True).reshape(f, f) + _NARROWEST * np.eye(f) for side in (before, after))
    root = np.linalg.cholesky(S)
    spread, turn = np.linalg.eigh(np.linalg.solve(root, np.linalg.solve(root, T).T))
    axes = np.linalg.solve(root.T, turn)  # axesᵀ S axes = 1, axesᵀ T axes = spread
    inverse = turn.T @ root.T
    slope = (axes * np.minimum(1.0, 1 / spread)) @ inverse
    left = np.maximum(1 - np.minimum(spread, 1 / spread), np.minimum(noise * (axes**2).sum(axis=0), 1.0))
    constant = before.mean(axis=0) - after.mean(axis=0) @ slope
    return np.vstack([slope, constant]), (inverse.T * left) @ inverse


class NormalPairs:
    """Points of pairs, for EM.

    noise : variance of the noise by distance
    """

    def __init__(self, before: Host, after: Host, pairs: Pairs, noise: float) -> None:
        self.before, self.after, self.pairs = before, after, pairs
        self.alone = log_density(before)
        self.x = before[pairs.rows]
        rows, place = np.unique(pairs.index, return_inverse=True)
        self.released = after[rows]
        self.place = place.reshape(pairs.index.shape)
        self.y = after[pairs.index]
        self.left_out = np.arange(len(pairs.rows)) % 3 == 2 if len(pairs.rows) > 2 else np.ones(len(pairs.rows), bool)
        f = before.shape[1]
        slope, left = by_moments(before, after, noise)
        self.weight, held = float(f), np.empty((f + 1, f + 1))  # of the released points, and 1
        held[:f, :f], held[f, :f], held[f, f] = after.T @ after, after.sum(axis=0), len(after)
        held[:f, f] = held[f, :f]
        held *= self.weight / len(after)
        self.prior = held, held @ slope, slope.T @ held @ slope + self.weight * left

    def first(self) -> NormalRegression:
        """What the moments of the tables say."""
        return self.regression(np.zeros(self.place.shape))

    def fit(self, found: NormalRegression) -> NormalFit:
        """EM from a first regression.

        Every third record is left out: the rounds end when its likelihood no longer rises, so that EM does not fit the
        other two thirds too closely.
        """
        share, best = 0.5, None
        for _ in range(_ROUNDS):
            own, mass = posterior(self._weights(found), self.pairs, share)
            level = float(mass[self.left_out].mean())
            if best is not None and level - best.likelihood < _SETTLED:
                break
            best = NormalFit(found, own, level)
            learned = np.where(self.left_out[:, None], 0.0, own)
            share = min(max(float(learned.sum()) / max(1, int((~self.left_out).sum())), 1e-9), 1 - 1e-9)
            found = self.regression(learned)
        assert best is not None
        return best

    def regression(self, own: Host) -> NormalRegression:
        """The M step: weighted least squares of originals on their candidates (r, c)."""
        y = np.column_stack([self.released, np.ones(len(self.released))])
        held = np.bincount(self.place.reshape(-1), own.reshape(-1), minlength=len(y))
        total = own.sum(axis=1)
        mean = np.column_stack([np.matmul(own[:, None], self.y)[:, 0], total])
        f = self.x.shape[1]
        gram = (y * held[:, None]).T @ y + self.prior[0] + 1e-9 * np.eye(f + 1)
        cross = mean.T @ self.x + self.prior[1]
        slope = np.linalg.solve(gram, cross)
        left = (self.x * total[:, None]).T @ self.x + self.prior[2] - cross.T @ slope
        values, axes = np.linalg.eigh((left + left.T) / 2 / (total.sum() + self.weight))
        values = np.maximum(values, 0.0) + _NARROWEST
        return NormalRegression(slope, axes / np.sqrt(values), float(-0.5 * np.log(values).sum()))

    def _weights(self, found: NormalRegression) -> Host:
        """(r, c) log m/u; multiplied out, so that a pair costs one product of vectors."""
        x, y = self.x @ found.metric, _expected(self.released, found)
        turn = found.slope @ found.metric
        cross = np.matmul(self.y, (x @ turn[:-1].T)[:, :, None])[:, :, 0] + (x @ turn[-1])[:, None]
        apart = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[self.place] - 2 * cross
        return np.asarray(found.constant - 0.5 * apart - self.alone[self.pairs.rows][:, None])

    def model(self, found: NormalRegression) -> ByNormal:
        return ByNormal(self.before, self.after, found, self.alone)
