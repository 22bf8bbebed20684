"""Probabilistic record linkage: the attack of Fellegi and Sunter, its probabilities estimated by EM.

A pair of an original and a released record is described by a level of agreement per column: equal or not for
categories; for numbers the smallest tolerance that holds the difference.  With m_jl and u_jl the probabilities of level
l of column j among pairs that belong together and among all others, independent over columns, the pair's weight is

    log L = Σ_j log(m_jl / u_jl)                                                       (2.1 of [3], logarithm)

The attacker does not know which pairs belong together: EM finds m, u and the share of such pairs [2].  It starts twice,
from the nearest candidates and from those whose closest agreements are the most surprising; where some columns are much
noisier than others these are other pairs.  The end of larger likelihood is taken.  Between the middles of the levels a
number's weight is interpolated, so that pairs of the same levels do not tie.  Each original is linked with the
candidate of the largest weight; among ties one is chosen at random.

Blocking: the candidates of an original are the released records nearest to it, inside its block where columns of
blocking are named; in a small table all of them.  At most one candidate is a record's own, which EM uses; it looks at
the nearest 100 of some records, and at the 100 most surprising.  u is taken from all candidates, nearly none of which
belong together.

References
----------
.. [1] I. P. Fellegi, A. B. Sunter (1969), A theory for record linkage, JASA 64(328).
.. [2] M. A. Jaro (1989), Advances in record-linkage methodology, JASA 84(406).
.. [3] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 2.1.1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, to_host
from gpuanon.arrays.threads import thread_count
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import Beside, By, Figure, Measured, join
from gpuanon.assessing.risk.agreement import EQUAL, TOLERANCES, Agreement
from gpuanon.assessing.shares import share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance import k_nearest
from gpuanon.numerics.sampling import sample_rows

Floats = np.ndarray[Any, Any]
Ints = np.ndarray[Any, Any]

CANDIDATES = 100
LINKED = 10_000
"""Originals that are linked, at most; of more, a repeatable random sample."""

_ALL_PAIRS = 4_000_000  # up to so many every pair is looked at
_PAIRS = 300_000  # pairs that EM sees
_ROUNDS = 100
_SETTLED = 1e-5  # no probability moves more than this in a round
_BATCH = 1 << 21  # levels of agreement that are held at once
_TREE_COLUMNS = 16
_BLOCK = 1e6  # weight of a column of blocking in the search of candidates


@dataclass(frozen=True, eq=False)
class Probabilities:
    """What EM found.

    share : of records that have their own among the candidates
    m, u  : per column the probability of each level, among pairs that belong together and among the others
    likelihood : mean logarithm over records, of one that has a pair or none against one that has none
    """

    share: float
    m: list[Floats]
    u: list[Floats]
    likelihood: float = 0.0

    def weights(self, floor: float) -> Floats:
        """log(m / u) of all levels, column after column; probabilities are at least `floor`."""
        m, u = (np.maximum(np.concatenate(side), floor) for side in (self.m, self.u))
        return np.asarray(np.round(np.log(m / u), 9))  # sums of equal levels in another order tie


def estimate(
    levels: Ints,
    sizes: Sequence[int],
    *,
    inside: Ints | None = None,
    together: Floats | None = None,
    u: list[Floats] | None = None,
    monotone: bool = False,
) -> Probabilities:
    """m- and u-probabilities by EM under conditional independence.

    Parameters
    ----------
    levels   : (records, candidates, d) level of agreement of each pair, 0 the closest.  At most one candidate of a
               record belongs to it; with one candidate per record the pairs are independent, as in [1]
    sizes    : number of levels of each column
    inside   : (records, candidates) which pairs there are; None for all
    together : (records, candidates) first guess of the probability that a pair belongs together; None: pairs that
               agree more than others do
    u        : known u-probabilities; None: estimated too
    monotone : m / u does not rise with the level: a larger difference is no better sign of a pair

    Cost : O(pairs · d) per round, at most 100 rounds.
    """
    inside = np.ones(levels.shape[:2], dtype=bool) if inside is None else inside
    starts = np.concatenate([[0], np.cumsum(sizes)])
    flat = (levels + starts[:-1])[inside]
    pairs, total = len(flat), int(starts[-1])
    record = np.repeat(np.arange(len(inside)), inside.sum(axis=1))
    choices = np.maximum(inside.sum(axis=1), 1)
    column = np.repeat(np.arange(len(sizes)), sizes)
    overall = np.bincount(flat.reshape(-1), minlength=total) / pairs
    floor = 0.5 / pairs
    if together is None:
        m, other, share = overall * 0.25 ** (np.arange(total) - starts[column]), overall, 0.5
        m = m / np.bincount(column, m)[column]
    else:
        m, other, share = _maximise(flat, together[inside], overall, len(inside))
    known, likelihood = None if u is None else np.concatenate(u), 0.0
    for _ in range(_ROUNDS):
        other = other if known is None else known
        weight = np.log(np.maximum(m, floor)) - np.log(np.maximum(other, floor))
        odds = np.exp(np.clip(weight[flat].sum(axis=1), -300, 300)) * (share / choices)[record]
        mass = np.bincount(record, odds, minlength=len(inside)) + 1 - share
        own, likelihood = odds / mass[record], float(np.log(mass).mean())
        before = m, other
        m, other, share = _maximise(flat, own, overall, len(inside))
        m = falling(m, other if known is None else known, starts) if monotone else m
        if max(np.abs(m - before[0]).max(), np.abs(other - before[1]).max()) < _SETTLED:
            break
    u = np.split(other if known is None else known, starts[1:-1])
    return Probabilities(share, np.split(m, starts[1:-1]), u, likelihood)


def falling(m: Floats, u: Floats, starts: Ints) -> Floats:
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


def _maximise(flat: Ints, together: Floats, overall: Floats, records: int) -> tuple[Floats, Floats, float]:
    """The M step: m, u and the share of records with a pair, from the probability that each pair belongs together."""
    pairs, size = len(flat), max(float(together.sum()), 1e-9)
    held = np.bincount(flat.reshape(-1), np.repeat(together, flat.shape[1]), minlength=len(overall))
    u = np.maximum(overall * pairs - held, 0) / max(pairs - size, 1e-9)
    return held / size, u, float(np.clip(size / records, 1e-9, 1 - 1e-9))


@dataclass(frozen=True, eq=False)
class Side:
    """One table as the attack sees it.

    points : (n, f) encoded and standardised, for the search of candidates
    values : (n, d) numbers, NaN for null; codes of categories
    """

    points: Array
    values: Floats


def linkage_probabilistic(
    original: Side,
    release: Side,
    link: Array,
    *,
    categorical: Sequence[bool],
    names: Names = None,
    tolerances: Sequence[float] = TOLERANCES,
    candidates: int | None = None,
    block: Sequence[bool] | None = None,
    metric_weights: Sequence[float] | None = None,
    limit: int = LINKED,
) -> Measured:
    """Expected share of originals that are linked with their own release.

    Parameters
    ----------
    link        : (m,) original row of each released row, −1 for an added row
    categorical : per column whether its values are codes; two nulls are equal, a null and a value are not
    tolerances  : levels of agreement of numbers, in standard deviations of the original, ascending
    candidates  : released records that are looked at per original, the nearest ones; None: all of a small table, and
                  at least 100
    block       : per column whether a candidate must be equal on it
    metric_weights : of the points' features in the search of candidates; see `blocking_weights`
    limit       : originals that are linked, at most; of more, a repeatable random sample

    Beside it: the nearest released record as the link (the attack by distance), an attacker who knows m and u of the
    release (in the sample, so an upper bound), and a blind guess.

    Cost : the search, and O(n · candidates · d); no table of all pairs.
    """
    link = to_host(link)
    n, m = len(original.values), len(release.values)
    if len(link) != m:
        raise ParameterError(f"link: one entry per released row is needed ({m}), got {len(link)}")
    if not tolerances or list(tolerances) != sorted(set(tolerances)) or tolerances[0] < 0:
        raise ParameterError("tolerances: ascending numbers of 0 or more are needed")
    rows = sample_rows(n, limit, "probabilistic linkage")
    count = max(CANDIDATES, _ALL_PAIRS // n) if candidates is None else candidates
    distance, index = _candidates(original.points, release.points, rows, min(count, m), metric_weights)
    agree = Agreement(original.values, release.values, np.asarray(categorical), tolerances)
    inside = _inside(original.values, release.values, rows, index, block)
    own = (link[index] == rows[:, None]) & inside
    most = _PAIRS // min(2 * CANDIDATES, index.shape[1])
    some = np.linspace(0, len(rows) - 1, max(1, min(len(rows), most))).astype(np.int64)
    found, informed, floor = _estimates(agree, rows[some], index[some], inside[some], own[some])
    weights = np.stack([found.weights(floor), informed.weights(floor)])
    right = _right(agree, rows, index, inside, own, weights)
    nearest = _shared(distance == distance[:, :1], own)
    columns = column_names(names, len(agree.sizes))
    value = float(right[0].mean())
    details: dict[str, Figure] = {
        "records": len(rows),
        "candidates": index.shape[1],
        "own_among_candidates": float(own.any(axis=1).mean()),
        "estimated_share": found.share,
        "m_by_column": _by_level(found.m, columns, agree),
        "u_by_column": _by_level(found.u, columns, agree),
    }
    interval, by_distance = share_interval(value, len(rows)), float(nearest.mean())
    note = join(
        None if len(rows) == n else f"a random sample of {len(rows)} of {n} original records was linked",
        "the attack by distance links more: EM does not find the pairs here" if by_distance > interval.high else None,
    )
    return Measured(
        value,
        details,
        note,
        parts=(_information(found, columns, floor),),
        interval=interval,
        beside=(
            Beside("nearest", "by distance", by_distance),
            Beside("informed", "m and u known", float(right[1].mean())),
            Beside("guess", "a blind guess", 1 / m),
        ),
    )


def _candidates(X: Array, Y: Array, rows: Ints, count: int, weights: Sequence[float] | None) -> tuple[Floats, Ints]:
    """(rows, count) squared distances of the nearest released rows, and these rows: by a k-d tree of few columns."""
    scale = np.sqrt(np.ones(X.shape[1]) if weights is None else np.asarray(weights))
    A, B = to_host(X)[rows] * scale, to_host(Y) * scale
    if count == len(B) or A.shape[1] > _TREE_COLUMNS:
        distance, index = k_nearest(A, B, count)
        return distance, index
    from scipy.spatial import cKDTree

    tree = cKDTree(B, balanced_tree=False, compact_nodes=False)
    distance, index = tree.query(A, k=np.arange(1, count + 1), workers=thread_count())
    return distance**2, index


def blocking_weights(features: Sequence[str], block: Sequence[str]) -> list[float] | None:
    """Weights of features with which candidates of the same block come first; None without columns of blocking."""
    return [_BLOCK if name in block else 1.0 for name in features] if block else None


def _inside(before: Floats, after: Floats, rows: Ints, index: Ints, block: Sequence[bool] | None) -> Ints:
    """(rows, c) whether each candidate is in the block of its original."""
    inside = np.ones(index.shape, dtype=bool)
    for j in np.flatnonzero(block) if block is not None else ():
        x, y = before[rows, j][:, None], after[index, j]
        inside &= (x == y) | (np.isnan(x) & np.isnan(y))
    return inside


def _estimates(
    agree: Agreement, rows: Ints, index: Ints, inside: Ints, own: Ints
) -> tuple[Probabilities, Probabilities, float]:
    """By EM, the better of two starts; from the link; and the smallest probability."""
    if not inside.any():
        raise ParameterError("block: no original has a released record in its block")
    starts = agree.starts
    spread = slice(None, None, max(1, len(rows) * index.shape[1] // _PAIRS))
    flat = (agree.levels(rows[spread], index[spread]) + starts[:-1])[inside[spread]]
    u = np.bincount(flat.reshape(-1), minlength=int(starts[-1])) / max(len(flat), 1)
    index, inside, own, firsts = _pool(agree, rows, index, inside, own, u)
    levels, split = agree.levels(rows, index), np.split(u, starts[1:-1])
    ends = [estimate(levels, agree.sizes, inside=inside, together=first, u=split, monotone=True) for first in firsts]
    found = max(ends, key=lambda end: end.likelihood)
    flat = (levels + starts[:-1])[inside]
    m, _, share = _maximise(flat, own[inside].astype(np.float64), u, len(rows))
    m = falling(m, u, starts)
    known = Probabilities(share, np.split(m, starts[1:-1]), found.u)
    return found, known if own.any() else found, 0.5 / len(flat)


def _pool(
    agree: Agreement, rows: Ints, index: Ints, inside: Ints, own: Ints, u: Floats
) -> tuple[Ints, Ints, Ints, list[Floats]]:
    """Candidates that EM looks at: the nearest, and the most surprising; and a first guess from either."""
    near = min(CANDIDATES, index.shape[1])
    tails = np.concatenate([np.cumsum(part) for part in np.split(u, agree.starts[1:-1])])
    surprise = np.zeros(index.shape)
    step = max(1, _BATCH // max(1, index.shape[1] * len(agree.sizes)))
    for at in range(0, len(rows), step):
        flat = agree.levels(rows[at : at + step], index[at : at + step]) + agree.starts[:-1]
        surprise[at : at + step] = -np.log(np.maximum(tails[flat], 1e-9)).sum(axis=2)
    surprise[~inside] = -np.inf
    best = np.argsort(-surprise, axis=1, kind="stable")[:, :near]
    places = np.concatenate([np.broadcast_to(np.arange(near), best.shape), best], axis=1)
    new = np.concatenate([np.ones(best.shape, dtype=bool), best >= near], axis=1)  # each candidate once
    guesses = [np.argmax(inside[:, :near], axis=1), np.where(best[:, 0] < near, best[:, 0], near)]
    firsts = []
    for guess in guesses:
        first = np.zeros(places.shape)
        first[np.arange(len(rows)), guess] = 0.9
        firsts.append(first)
    index, inside, own = (np.take_along_axis(side, places, axis=1) for side in (index, inside, own))
    return index, inside & new, own & new, firsts


def _right(agree: Agreement, rows: Ints, index: Ints, inside: Ints, own: Ints, weights: Floats) -> Floats:
    """(w, rows) probability that each original is linked with its own release, under each set of weights."""
    out = np.zeros((len(weights), len(rows)))
    step = max(1, _BATCH // max(1, index.shape[1]))
    for at in range(0, len(rows), step):
        part = slice(at, at + step)
        for number, weight in enumerate(weights):
            score = np.where(inside[part], agree.scores(rows[part], index[part], weight), -np.inf)
            out[number, part] = _shared((score == score.max(axis=1, keepdims=True)) & inside[part], own[part])
    return out


def _shared(best: Ints, own: Ints) -> Floats:
    """(rows,) probability that one of the best candidates, chosen at random, is the record's own."""
    return np.asarray((best & own).sum(axis=1) / np.maximum(best.sum(axis=1), 1))


def _by_level(side: list[Floats], names: Sequence[str], agree: Agreement) -> dict[str, Figure]:
    """m or u of every column and level, under names."""
    numbers = [f"within {tolerance:g} sd" for tolerance in np.where(agree.tolerances > EQUAL, agree.tolerances, 0)]
    out: dict[str, Figure] = {}
    for name, values, flag in zip(names, side, agree.categorical, strict=True):
        labels = ["equal", "different"] if flag else [*numbers, "beyond"]
        out[name] = {label: round(float(value), 6) for label, value in zip(labels, values, strict=True)}
    return out


def _information(found: Probabilities, names: Sequence[str], floor: float) -> By:
    """Per column the expected weight of a pair that belongs together, Σ_l m_l log(m_l / u_l)."""
    pairs = ((np.maximum(m, floor), np.maximum(u, floor)) for m, u in zip(found.m, found.u, strict=True))
    values = [float((m * np.log(m / u)).sum()) for m, u in pairs]
    return By("column", dict(zip(names, values, strict=True)))
