"""Fellegi and Sunter's probabilities of levels of agreement, by EM under conditional independence.

With m_jl and u_jl the probabilities of level l of column j among pairs that belong together and among all others,
independent over columns, a pair's weight is

    log L = Σ_j log(m_jl / u_jl)                                                       (2.1 of [3], logarithm)

The attacker does not know which pairs belong together: EM finds m, the share of records that have a pair, and u where
it is not known [2].

References: see `linkage_probabilistic`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gpuanon.arrays.backend import Host

_ROUNDS = 100
_SETTLED = 1e-5


@dataclass(frozen=True, eq=False)
class Probabilities:
    """What EM found.

    share : of records that have their own among the candidates
    m, u  : per column the probability of each level, among pairs that belong together and among the others
    likelihood : mean logarithm over records, of one that has a pair or none against one that has none
    """

    share: float
    m: list[Host]
    u: list[Host]
    likelihood: float = 0.0

    def weights(self, floor: float) -> Host:
        """log(m / u) of all levels, column after column; probabilities are at least `floor`."""
        m, u = (np.maximum(np.concatenate(side), floor) for side in (self.m, self.u))
        return np.asarray(np.round(np.log(m / u), 9))  # sums of equal levels in another order tie


def estimate(
    levels: Host,
    sizes: Sequence[int],
    *,
    inside: Host | None = None,
    choices: Host | None = None,
    together: Host | None = None,
    u: list[Host] | None = None,
    monotone: bool = False,
    rounds: int = _ROUNDS,
    settled: float = _SETTLED,
) -> Probabilities:
    """m- and u-probabilities by EM under conditional independence.

    Parameters
    ----------
    levels   : (records, candidates, d) level of agreement of each pair, 0 the closest.  At most one candidate of a
               record belongs to it; with one candidate per record the pairs are independent, as in [1]
    sizes    : number of levels of each column
    inside   : (records, candidates) which pairs there are; None for all
    choices  : (records,) number of candidates of each record, with those that are not looked at; None: those inside
    together : (records, candidates) first guess of the probability that a pair belongs together; None: pairs that
               agree more than others do
    u        : known u-probabilities; None: estimated too
    monotone : m / u does not rise with the level: a larger difference is no better sign of a pair
    settled  : the rounds end when no probability moves more than this

    Cost : O(pairs · d) per round, at most `rounds`.
    """
    inside = np.ones(levels.shape[:2], dtype=bool) if inside is None else inside
    choices = np.maximum(inside.sum(axis=1), 1) if choices is None else choices
    starts = np.concatenate([[0], np.cumsum(sizes)])
    flat = (levels + starts[:-1])[inside]
    record = np.repeat(np.arange(len(inside)), inside.sum(axis=1))
    overall = np.bincount(flat.reshape(-1), minlength=int(starts[-1])) / len(flat)
    floor, likelihood = 0.5 / len(flat), 0.0
    if together is None:
        m, other, share = _first(overall, starts)
    else:
        m, other, share = maximise(flat, together[inside], overall, len(inside))
    known = None if u is None else np.concatenate(u)
    for _ in range(rounds):
        other = other if known is None else known
        weight = np.log(np.maximum(m, floor)) - np.log(np.maximum(other, floor))
        odds = np.exp(np.clip(weight[flat].sum(axis=1), -300, 300)) * (share / np.maximum(choices, 1))[record]
        mass = np.bincount(record, odds, minlength=len(inside)) + 1 - share
        own, likelihood = odds / mass[record], float(np.log(mass).mean())
        before = m, other
        m, other, share = maximise(flat, own, overall, len(inside))
        m = falling(m, other if known is None else known, starts) if monotone else m
        if max(np.abs(m - before[0]).max(), np.abs(other - before[1]).max()) < settled:
            break
    u = np.split(other if known is None else known, starts[1:-1])
    return Probabilities(share, np.split(m, starts[1:-1]), u, likelihood)


def _first(overall: Host, starts: Host) -> tuple[Host, Host, float]:
    """m, u and share without a guess of the pairs: each level a quarter as likely, against u, as the closer one."""
    column = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    m = overall * 0.25 ** (np.arange(len(overall)) - starts[column])
    return m / np.bincount(column, m)[column], overall, 0.5


def falling(m: Host, u: Host, starts: Host) -> Host:
    """m under the constraint that m / u does not rise with the level, of largest likelihood; column by column.

    Adjacent violators are pooled: their m is shared out in proportion to u.
    """
    out = np.empty_like(m)
    for first, last in pairwise(starts.tolist()):
        pools: list[list[float]] = []  # m, u and number of levels
        for at in range(first, last):
            pools.append([float(m[at]), max(float(u[at]), 1e-12), 1])
            while len(pools) > 1 and pools[-2][0] * pools[-1][1] < pools[-1][0] * pools[-2][1]:
                late = pools.pop()
                pools[-1] = [a + b for a, b in zip(pools[-1], late, strict=True)]
        ratio = np.concatenate([np.full(int(count), held / chance) for held, chance, count in pools])
        out[first:last] = ratio * np.maximum(u[first:last], 1e-12)
    return out


def maximise(flat: Host, together: Host, overall: Host, records: int) -> tuple[Host, Host, float]:
    """The M step: m, u and the share of records with a pair, from the probability that each pair belongs together."""
    pairs, size = len(flat), max(float(together.sum()), 1e-9)
    held = np.bincount(flat.reshape(-1), np.repeat(together, flat.shape[1]), minlength=len(overall))
    u = np.maximum(overall * pairs - held, 0) / max(pairs - size, 1e-9)
    return held / size, u, float(np.clip(size / records, 1e-9, 1 - 1e-9))
