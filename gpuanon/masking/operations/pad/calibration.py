"""Calibration: draws of a column are tilted as little as needed to keep named statistics of the whole table.

References
----------
.. [1] J. Hainmueller (2012), Entropy balancing for causal effects, Polit. Anal. 20(1).
.. [2] G. W. Imbens, R. H. Spady, P. Johnson (1998), Information theoretic approaches to inference in moment condition
   models, Econometrica 66(2): exponential tilting.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.errors import ParameterError

_RIDGE = 1e-6
_STEPS = 60
_LARGEST = 20.0  # of a multiplier: what a tilt to the edge of the candidates needs


@dataclass(frozen=True, eq=False, repr=False)
class Tilt:
    """Multipliers of an exponential tilt, and what it costs.

    multipliers : (p,)
    price       : mean Kullback–Leibler divergence of a row's tilted draw from its own distribution, in nats
    left        : (p,) difference of the tilted mean of each moment from its target
    """

    multipliers: Host
    price: float
    left: Host


def tilt(G: Host, target: Host) -> Tilt:
    """The multipliers λ for which the mean over rows of E_λ[g] is `target`.

    Each of n rows has c candidates, equally likely, with the moments ``G[row, candidate]``.  A candidate's tilted
    probability is proportional to exp(λ·g): among all distributions that meet the target this has the least divergence
    from the draws as they are.  λ minimises the convex dual ``mean log mean exp(λ·g) − λ·target`` (Newton's method with
    step halving and a small ridge); a target that no tilt reaches is approached, and `left` says how far it is.

    Parameters
    ----------
    G      : (n, c, p)
    target : (p,)

    Cost : O(n c p²) per step.
    """
    scale = G.reshape(-1, G.shape[2]).std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    H, wanted = G / scale, target / scale
    multipliers = np.zeros(H.shape[2])
    value, slope, curve, price = _dual(H, wanted, multipliers)
    for _ in range(_STEPS):
        step = np.linalg.solve(curve + _RIDGE * np.eye(len(slope)), slope)
        size = 1.0
        while size > 1e-6:
            tried = np.clip(multipliers - size * step, -_LARGEST, _LARGEST)
            found = _dual(H, wanted, tried)
            if found[0] < value:
                break
            size /= 2
        else:
            break
        multipliers, (value, slope, curve, price) = tried, found
        if np.abs(slope).max() < 1e-7:
            break
    left = (slope - _RIDGE * multipliers) * scale
    return Tilt(multipliers / scale, price, left)


def choose(G: Host, multipliers: Host, u: Host) -> Host:
    """(n,) the candidate of each row, drawn with tilted probabilities by `u` (n,).  G : (n, c, p)."""
    running = np.cumsum(_weights(G @ multipliers), axis=1)
    return np.asarray(np.minimum((u[:, None] > running).sum(axis=1), G.shape[1] - 1))


def _weights(scores: Host) -> Host:
    """(n, c) probabilities in proportion to exp(scores)."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def _dual(H: Host, target: Host, multipliers: Host) -> tuple[float, Host, Host, float]:
    """Value, gradient and Hessian of the dual, and the divergence of the tilt."""
    scores = H @ multipliers
    top = scores.max(axis=1, keepdims=True)
    log_mean = (top + np.log(np.exp(scores - top).mean(axis=1, keepdims=True)))[:, 0]
    W = _weights(scores)
    means = np.einsum("nc,ncp->np", W, H)
    value = float(log_mean.mean() - multipliers @ target + _RIDGE * (multipliers @ multipliers) / 2)
    second = np.einsum("nc,ncp,ncq->pq", W, H, H, optimize=True) / len(H)
    curve = second - means.T @ means / len(H)
    slope = means.mean(axis=0) - target + _RIDGE * multipliers
    price = float((means @ multipliers - log_mean).mean())
    return value, slope, curve, price


@dataclass(frozen=True)
class KeptStatistics:
    """Statistics that are to stay, of columns by their numbers.

    means        : columns
    correlations : pairs of columns
    regressions  : a response and its predictors: the coefficients of the linear regression.  The intercept stays as
        well unless the mean or a correlation of the response is named: predictors have other means in the release, so
        one of the two moves
    """

    means: tuple[int, ...] = ()
    correlations: tuple[tuple[int, int], ...] = ()
    regressions: tuple[tuple[int, tuple[int, ...]], ...] = ()

    def __post_init__(self) -> None:
        """Refuse two regressions of one column: each adds as many equations as it has predictors."""
        responses = [response for response, _ in self.regressions]
        if len(set(responses)) < len(responses):
            raise ParameterError("calibrate: the coefficients of one regression of a column can stay, not of several")

    def concerns(self, column: int) -> bool:
        """Whether the draws of a column matter to any of them."""
        pairs = [pair for pair in self.correlations if column in pair]
        return column in self.means or bool(pairs) or any(column == response for response, _ in self.regressions)


@dataclass(frozen=True, eq=False, repr=False)
class Populations:
    """The records and the rows that are to be added, each by a sample, and how many there are.

    records : (s, columns), added : (t, columns), those columns first that are filled first
    """

    records: Host
    added: Host
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

    def covariances(self, columns: Sequence[int]) -> tuple[Host, Host]:
        """Means (c,) and covariances (c, c) of columns of the release that are filled by now; complete rows only."""
        total, sums, products = 0.0, np.zeros(len(columns)), np.zeros((len(columns), len(columns)))
        for part, count in ((self.records, self.rows), (self.added, self.rows_added)):
            X = part[:, list(columns)]
            X = X[~np.isnan(X).any(axis=1)]
            weight = count / max(len(part), 1)
            total, sums, products = (
                total + weight * len(X),
                sums + weight * X.sum(axis=0),
                products + weight * (X.T @ X),
            )
        means = sums / max(total, 1.0)
        return means, products / max(total, 1.0) - np.outer(means, means)


@dataclass(frozen=True, eq=False, repr=False)
class KeptRegression:
    """A linear regression of the records, whose coefficients are to stay.

    predictors : columns
    intercept  : of the records; or what gives the release the response's mean, if that is named
    free       : whether the intercept may move: residuals need not add up to 0 then
    centers, scales : of the predictors, for moments of one size; of the release, if the intercept may move
    """

    predictors: tuple[int, ...]
    intercept: float
    slopes: Host
    centers: Host
    scales: Host
    free: bool = False

    @classmethod
    def of(cls, records: Host, response: int, predictors: Sequence[int]) -> KeptRegression:
        """Least squares on the rows in which all columns are known."""
        X, y = records[:, list(predictors)], records[:, response]
        complete = ~np.isnan(X).any(axis=1) & ~np.isnan(y)
        X, y = X[complete], y[complete]
        centers, scales = X.mean(axis=0), X.std(axis=0)
        slopes = np.linalg.lstsq(X - centers, y - y.mean(), rcond=None)[0]
        return cls(
            tuple(predictors), float(y.mean() - centers @ slopes), slopes, centers, np.where(scales > 0, scales, 1.0)
        )

    def around(self, mean: float, centers: Host) -> KeptRegression:
        """The same slopes through the mean of the response and the `centers` of the predictors in the release."""
        return replace(self, intercept=float(mean - centers @ self.slopes), centers=centers, free=True)

    def moments(self, candidates: Host, known: Host) -> list[Host]:
        """(m, c) residuals (unless free), and their products with each predictor; 0 where a value is not known."""
        X = known[:, list(self.predictors)]
        residuals = candidates - (self.intercept + X @ self.slopes)[:, None]
        residuals = np.nan_to_num(residuals)
        products = [residuals * z[:, None] for z in np.nan_to_num((X - self.centers) / self.scales).T]
        return products if self.free else [residuals, *products]


@dataclass(frozen=True, eq=False, repr=False)
class ColumnTilt:
    """How the draws of one column are tilted.

    center, scale : of the column in the records
    correlated    : whether its mean and variance are held, for its correlations
    crossed       : column, mean and deviation in the release, of each column that it has to covary with
    regression    : whose response it is, or None
    spread        : deviation that it must have in the release, in terms of that in the records
    slopes        : what follows for slopes: for each named correlation the column, and the relative change of the slope
                    on it
    mean_drift    : what follows for the mean where a whole regression is kept
    tilt          : the multipliers of its moments, and their price
    """

    center: float
    scale: float
    correlated: bool = False
    crossed: tuple[tuple[int, float, float], ...] = ()
    regression: KeptRegression | None = None
    spread: float = 1.0
    slopes: tuple[tuple[int, float], ...] = ()
    mean_drift: float = 0.0
    tilt: Tilt = field(default_factory=lambda: Tilt(np.zeros(0), 0.0, np.zeros(0)))

    def moments(self, candidates: Host, known: Host) -> Host:
        """(m, c, p) moments of `candidates` (m, c) beside the columns that are `known` (m, columns); 0 for nulls."""
        products: list[Host] = []
        if self.regression is not None:
            products = [moment / self.scale for moment in self.regression.moments(candidates, known)]
            if not self.regression.free:
                return np.stack(products, axis=2)
        y = np.nan_to_num((candidates - self.center) / self.scale)
        found = [y]
        if self.correlated:
            found.append(np.where(np.isnan(candidates), 0.0, y**2 - 1))
        for column, mean, deviation in self.crossed:
            found.append(y * np.nan_to_num((known[:, column] - mean) / deviation)[:, None])
        return np.stack([*found, *products], axis=2)

    def choose(self, candidates: Host, known: Host, u: Host) -> Host:
        """(m,) one of the candidates of each row, by tilted chances."""
        picked = choose(self.moments(candidates, known), self.tilt.multipliers, u)
        return np.asarray(candidates[np.arange(len(candidates)), picked])


def column_tilt(named: KeptStatistics, column: int, whole: Populations, candidates: Host) -> ColumnTilt:
    """The tilt of the draws of `column` that leaves the named statistics of the whole table where they are.

    A mean stays if the added rows have the records' mean; a correlation ρ with a column x that is known in all rows, if
    also the variance stays and ``Σ x̃ ỹ`` over all rows is ρ times their number (x̃ standardised in the release); the
    coefficients of a regression, if the added rows meet its normal equations, as the records do: residuals that add up
    to 0, also times each predictor.  If a mean is named beside a regression, its slopes stay and its intercept moves;
    if also a correlation with a predictor is, the variance has to change as that of the predictor does.

    candidates : (t, c) draws for the sampled added rows
    """
    y = whole.records[:, column]
    known = ~np.isnan(y)
    center, scale = (float(y[known].mean()), float(y[known].std())) if known.any() else (0.0, 0.0)
    if not scale > 0:
        return ColumnTilt(center, 1.0)
    predictors = next((names for response, names in named.regressions if response == column), ())
    pairs = [pair for pair in named.correlations if column in pair]
    others = [pair[0] if pair[1] == column else pair[1] for pair in pairs]
    others = [x for x in others if x != column and _filled(x, whole.added)]
    found = ColumnTilt(center, scale)
    if predictors and not pairs and column not in named.means:
        found = _regression_tilt(found, column, predictors, whole)
        G = found.moments(candidates, whole.added)
        return replace(found, tilt=tilt(G, np.zeros(G.shape[2])))
    if predictors:
        found = _slopes_tilt(found, column, predictors, others, whole)
    crossed = [(x, *whole.moments(x)) for x in others if x not in predictors]
    deviations = {x: (float(np.nanstd(whole.records[:, x])), whole.moments(x)[1]) for x in others}
    found = replace(
        found,
        correlated=bool(pairs),
        crossed=tuple((x, mean, dev if dev > 0 else 1.0) for x, mean, dev in crossed),
        slopes=tuple(
            (x, found.spread * before / after - 1)
            for x, (before, after) in deviations.items()
            if after > 0 and x not in predictors
        ),
    )
    G = found.moments(candidates, whole.added)
    return replace(found, tilt=tilt(G, _targets(found, column, whole, candidates)))


def _regression_tilt(found: ColumnTilt, column: int, predictors: Sequence[int], whole: Populations) -> ColumnTilt:
    """With a regression whose intercept stays; the mean follows from those of the predictors."""
    regression = KeptRegression.of(whole.records, column, predictors)
    means, _ = whole.covariances(predictors)
    drift = float(regression.intercept + means @ regression.slopes - found.center)
    return replace(found, regression=regression, mean_drift=drift)


def _slopes_tilt(
    found: ColumnTilt, column: int, predictors: Sequence[int], others: Sequence[int], whole: Populations
) -> ColumnTilt:
    """With a regression whose slopes stay; the deviation follows from them and a correlation with a predictor."""
    regression = KeptRegression.of(whole.records, column, predictors)
    means, covariances = whole.covariances(predictors)
    found = replace(found, regression=regression.around(found.center, means))
    for x in others:
        rho = _correlation(whole.records, column, x) if x in predictors else 0.0
        deviation = whole.moments(x)[1]
        if rho and deviation > 0:
            covariance = float(covariances[list(predictors).index(x)] @ regression.slopes)
            return replace(found, spread=covariance / (rho * deviation * found.scale))
    return found


def _targets(found: ColumnTilt, column: int, whole: Populations, candidates: Host) -> Host:
    """What the mean of each moment must be over the added rows: 0, or what keeps a correlation or a slope."""
    records, added = whole.records, whole.added
    y = records[:, column]
    known = ~np.isnan(y)
    own = found.moments(y[:, None], records)[:, 0].mean(axis=0)
    targets, plain = np.zeros(len(own)), 1 + found.correlated
    drawn = whole.rows_added * float((~np.isnan(candidates)).mean())
    if found.correlated:
        targets[1] = (found.spread**2 - 1) * (whole.rows * float(known.mean()) + drawn) / max(whole.rows_added, 1)
    for at, (x, _, _) in enumerate(found.crossed, plain):
        both = known & ~np.isnan(records[:, x])
        rows = whole.rows * float(both.mean()) + drawn * float((~np.isnan(added[:, x])).mean())
        wanted = _correlation(records, column, x) * found.spread * rows
        targets[at] = (wanted - own[at] * whole.rows) / max(whole.rows_added, 1)
    for at in range(plain + len(found.crossed), len(own)):
        targets[at] = -own[at] * whole.rows / max(whole.rows_added, 1)
    return targets


def _correlation(records: Host, one: int, other: int) -> float:
    """Of two columns, on rows in which both are known; 0 where one is constant."""
    y, x = records[:, one], records[:, other]
    both = ~np.isnan(y) & ~np.isnan(x)
    varies = both.sum() > 1 and x[both].std() > 0 and y[both].std() > 0
    return float(np.corrcoef(y[both], x[both])[0, 1]) if varies else 0.0


def _filled(column: int, added: Host) -> bool:
    """Whether a column of the added rows is known by now."""
    return bool((~np.isnan(added[:, column])).any())
