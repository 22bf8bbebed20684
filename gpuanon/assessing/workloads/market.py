"""Market risk: what will the people cost who enrol in a new market, judged from the members of the existing one?

Section 4.1 of [1].  M tells the new market (1) from the existing one (0), E = 1 who enrols.  Costs are known for the
members, p(x | E = 1, M = 0); predictions are wanted for p(x | E = 1, M = 1), of whom nothing is known but the
population of their market.  By Bayes' rule (eq. 15–16), with enrolment independent of the market given x,

    p(x | E=1, M=1)  ∝  p(x | E=1, M=0) · p(x | M=1) / p(x | M=0)

so members are weighted by ``w(x) = p(x | M = 1) / p(x | M = 0)``.

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.assessing.declared_models import CostModel as Model
from gpuanon.assessing.declared_models import Shift
from gpuanon.assessing.utility.histogram_intersection import intersection
from gpuanon.assessing.workloads.importance import logistic_weights, nonparametric_weights
from gpuanon.assessing.workloads.prediction_errors import SubgroupBias, subgroup_bias
from gpuanon.assessing.workloads.regression import Coding, design, fit_cost, r_squared, relative_bias
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows


@dataclass(frozen=True, eq=False)
class Market:
    """Two populations and who of them enrols; rows are levels (whole numbers from 0) of discrete predictors.

    existing       : (a, d) people of the existing market
    members        : (m,) rows of `existing` that are enrolled: whose costs are known, and who need protection
    member_weights : (m,) how many members each of them stands for
    cost           : (a,) cost of each person of the existing market
    new            : (b, d) people of the new market
    new_weights    : (b,) how many people of the new market each row stands for
    enrolment      : (b,) probability that each enrols
    new_cost       : (b,) cost of each (the truth that predictions are held to)
    levels         : (d,) number of levels of each column
    """

    existing: Host
    members: Host
    member_weights: Host
    cost: Host
    new: Host
    new_weights: Host
    enrolment: Host
    new_cost: Host
    levels: tuple[int, ...]


@dataclass(frozen=True)
class MarketRisk:
    """How well the cost of the new members was predicted.

    bias       : relative bias of the mean cost, per cent
    r2         : R² of the cost of individuals
    similarity : histogram intersection of the weighted training members and the true new members
    shift      : relative difference of the mean cost of new members from that of the existing ones, per cent
    """

    bias: float
    r2: float
    similarity: float
    shift: float


def simulate_market(
    x: Host,
    cost: Host,
    train: Host,
    *,
    tilt: Host,
    enrolment: Host,
    levels: tuple[int, ...],
    rng: np.random.Generator | None = None,
) -> Market:
    """Two markets out of one table (section 4.2 of [1]).

    Parameters
    ----------
    x : (n, d) levels of the predictors
    cost : (n,) cost of each person
    train : (n,) True for the people of the existing market; the others make the new one
    tilt : (n,) demography of the new market relative to the table: the weight of each person there
    enrolment : (n,) probability of enrolling, a function of x only
    levels : number of levels of each column
    rng : draws who is enrolled in the existing market (not to be shared with the masking); None: as in [1], everybody
        there is a member with the probability of enrolling as a weight
    """
    train = np.asarray(train, dtype=bool)
    if train.all() or not train.any():
        raise ParameterError("train: both markets need people")
    chance = enrolment[train]
    members = np.arange(len(chance)) if rng is None else np.flatnonzero(rng.random(len(chance)) < chance)
    return Market(
        existing=x[train],
        members=members,
        member_weights=chance if rng is None else np.ones(len(members)),
        cost=cost[train],
        new=x[~train],
        new_weights=tilt[~train],
        enrolment=enrolment[~train],
        new_cost=cost[~train],
        levels=levels,
    )


def assess_market(
    market: Market,
    released: Host | None = None,
    *,
    shift: Shift = "nonparametric",
    coding: Coding = "dummy",
    model: Model = "linear",
) -> MarketRisk:
    """Predict the cost of the new market's members from the existing members, as released.

    Parameters
    ----------
    market : the two populations
    released : (m, d) predictors of the members as the mask left them, in the order of ``market.members``, whole
        levels; None for the unmasked ones.  Costs are the members' own.
    shift : how the weights w(x) are estimated: not at all, by logistic regression, or by the shares of cells.  A member
        whose cell the existing market does not have gets the weight 0 (a centroid can invent such a cell).
    coding : of the regression
    model : of the mean cost, see `gpuanon.assessing.workloads.regression`
    """
    x, weights, predicted = _predicted(market, released, shift, coding, model)
    target = market.new_weights * market.enrolment
    mean = np.average(market.new_cost, weights=target)
    y = market.cost[market.members]
    return MarketRisk(
        bias=relative_bias(predicted, market.new_cost, target),
        r2=r_squared(predicted, market.new_cost, target),
        similarity=similarity(x, weights, market.new, target),
        shift=float(100 * (mean / np.average(y, weights=market.member_weights) - 1)),
    )


def assess_subgroups(
    market: Market,
    column: int,
    released: Host | None = None,
    *,
    shift: Shift = "nonparametric",
    coding: Coding = "dummy",
    model: Model = "linear",
) -> SubgroupBias:
    """Relative bias of the predicted cost for each level of a column of the new market's members.

    Parameters as in `assess_market`; `column` is the place of the column, sex or age band say.
    """
    predicted = predict_market(market, released, shift=shift, coding=coding, model=model)
    target = market.new_weights * market.enrolment
    return subgroup_bias(predicted, market.new_cost, market.new[:, column], target)


def predict_market(
    market: Market,
    released: Host | None = None,
    *,
    shift: Shift = "nonparametric",
    coding: Coding = "dummy",
    model: Model = "linear",
) -> Host:
    """(b,) predicted cost of each person of the new market; parameters as in `assess_market`.

    For `aggregate_error` and `cost_factor`.
    """
    return _predicted(market, released, shift, coding, model)[2]


def _predicted(
    market: Market, released: Host | None, shift: Shift, coding: Coding, model: Model
) -> tuple[Host, Host, Host]:
    """Predictors of the members, their weights in the fit, and the predicted cost of the people of the new market."""
    x = market.existing[market.members] if released is None else np.asarray(released)
    shifted = market_weights(x, market.existing, market.new, shift, market.levels, q_weights=market.new_weights)
    weights = market.member_weights * shifted
    y = market.cost[market.members]
    fit = fit_cost(x, y, weights, model=model, coding=coding, levels=market.levels)
    return x, weights, fit.predict(market.new)


def market_weights(
    x: Host,
    existing: Host,
    new: Host,
    shift: Shift,
    levels: tuple[int, ...],
    *,
    p_weights: Host | None = None,
    q_weights: Host | None = None,
) -> Host:
    """(n,) w(x) = p(x | M = 1) / p(x | M = 0) of each row of `x`, from samples of both markets and their weights."""
    if shift == "none":
        return np.ones(len(x))
    if shift == "nonparametric":
        return nonparametric_weights(x, existing, new, p_weights=p_weights, q_weights=q_weights)
    if shift == "logistic":
        rows = (design(table, "dummy", levels)[:, 1:] for table in (x, existing, new))
        return logistic_weights(*rows, p_weights=p_weights, q_weights=q_weights)
    raise ParameterError(f"shift: none, logistic or nonparametric is allowed, got {shift!r}")


def similarity(x: Host, weights: Host, new: Host, target: Host) -> float:
    """Histogram intersection of two weighted samples."""
    cells = equal_rows(np.concatenate([x, new]))
    count = int(cells.max()) + 1
    p, q = np.bincount(cells[: len(x)], weights, count), np.bincount(cells[len(x) :], target, count)
    return intersection(p, q)
