"""Probabilistic record linkage: the attack of Fellegi and Sunter, its probabilities estimated by EM.

A pair of an original and a released record has a weight: the logarithm of how much likelier the two are as a pair that
belongs together (m) than as two records of the table (u).  The attacker does not know which pairs belong together: EM
finds m and the share of such pairs [2].  There are three models of m (`linkage_models`): by distance, by a normal
regression of originals on releases, and by levels of agreement column by column (equal or not for categories, the
difference for numbers).  Each original is linked with the candidate of the largest weight; among ties one is chosen at
random.  The figure is the share that the best of the three links: an attacker who knows a few people of the release
sees which of them works.  Beside it stands the share of the model that the likelihood of other records prefers, which
an attacker who knows nobody would take; under much noise the likelihood hardly tells them apart.

Blocking: the candidates of an original are the released records nearest to it, inside its block where columns of
blocking are named; in a small table all of them.  At most one candidate is a record's own, which EM uses; it looks at
the nearest 50 of some records, and at the 50 whose closest agreements are the most surprising: where some columns are
much noisier than others these are other pairs.

References
----------
.. [1] I. P. Fellegi, A. B. Sunter (1969), A theory for record linkage, JASA 64(328).
.. [2] M. A. Jaro (1989), Advances in record-linkage methodology, JASA 84(406).
.. [3] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 2.1.1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.comparison import only
from gpuanon.assessing.figures import Beside, By, Figure, Measured, join
from gpuanon.assessing.measure import NAMES, NOT_NEGATIVE, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, WHOLE, Measure
from gpuanon.assessing.risk.linkage.candidate_pairs import (
    EQUAL,
    TOLERANCES,
    Agreement,
    BlockedRecords,
    Pairs,
    Side,
    blocking_weights,
)
from gpuanon.assessing.risk.linkage.models import ByLevels, Chance, Judges, Learned, Model, chances, likeliest
from gpuanon.assessing.risk.reidentification import Hits
from gpuanon.assessing.sampling_errors import share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


Read: TypeAlias = Callable[[Host], tuple[Host, Host]]

CANDIDATES = 100
LINKED = 5_000
"""Originals that are linked, at most; of more, a repeatable random sample."""

_ALL_PAIRS = 1_000_000  # up to so many every pair is looked at
_POOL = 50  # candidates of a record that EM sees: so many of the nearest, and so many that agree most surprisingly
_PAIRS = 150_000  # pairs that EM sees; random pairs
_FEATURES = 3_000_000  # figures of pairs that EM sees
_BATCH = 1 << 21  # levels of agreement that are held at once


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
    read: Read | None = None,
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
    read        : gives the values of all originals and of some released rows, where the sides have none

    Beside it: the nearest released record as the link (the attack by distance), the model that the likelihood prefers,
    an attacker who knows m and u of the release (in the sample; the best of the models), and a blind guess.

    Cost : the search, and O(n · candidates · d); no table of all pairs.
    """
    link = to_host(link)
    n, m = len(original.points), len(release.points)
    _check(link, m, tolerances)
    rows = sample_rows(n, limit, "probabilistic linkage")
    blocks = BlockedRecords(original, release, block, metric_weights)
    if not blocks.counts[blocks.before[rows]].any():
        raise ParameterError("block: no original has a released record in its block")
    count = max(CANDIDATES, _ALL_PAIRS // n) if candidates is None else candidates
    pairs = blocks.nearest(rows, min(count, m))
    own = (link[pairs.index] == rows[:, None]) & pairs.inside
    chance = _chance(blocks, pairs, own, link)
    before, after, held = _values(original, release, read, pairs, chance)
    agree = Agreement(before, after, np.asarray(categorical), tolerances, held)
    attack = _attack(agree, blocks.points, pairs, own, chance, link)
    columns = column_names(names, len(agree.sizes))
    details = _details(attack, pairs, own, agree, columns)
    beside = {
        "nearest": _nearest(pairs, own),
        "likely": attack.linked[attack.preferred],
        "informed": max(attack.informed, default=attack.share),
        "guess": 1 / m,
    }
    return _measured(attack.share, beside, n, details, _information(attack.levels, columns))


@dataclass(frozen=True)
class _Attack:
    """What the models link.

    linked      : share of originals that each model links rightly, by its name
    preferred   : the model that the likelihood of other records prefers
    information : by model, what the likelihood gains
    informed    : shares of the models that know m and u
    levels      : the model by levels of agreement
    """

    linked: dict[str, float]
    preferred: str
    information: dict[str, float]
    informed: list[float]
    levels: ByLevels

    @property
    def share(self) -> float:
        """Of the model that links most."""
        return max(self.linked.values())


def _values(
    original: Side, release: Side, read: Read | None, pairs: Pairs, chance: Chance
) -> tuple[Host, Host, Host | None]:
    """Values of originals and releases; of the released rows that a pair needs alone, with their numbers, by `read`."""
    before, after, held = original.values, release.values, None
    if read is not None:
        needed = np.zeros(len(release.points), dtype=bool)
        needed[pairs.index] = needed[chance.pairs.index] = True
        held = np.flatnonzero(needed)
        before, after = read(held)
    if before is None or after is None:
        raise ParameterError("original, release: values are needed, or `read`")
    return before, after, held


def _attack(
    agree: Agreement, points: tuple[Host, Host], pairs: Pairs, own: Host, chance: Chance, link: Host
) -> _Attack:
    """Fit the models on some records, let the likelihood of the others choose, and link all."""
    fits, knows, learned = _fits(agree, points, pairs, chance, link)
    weights = [_weights(fit, pairs) for fit in fits]
    judges = np.setdiff1d(np.arange(len(pairs.rows)), learned) if len(pairs.rows) > 1 else learned
    judging = Judges(pairs.of(judges), own[judges], chance)
    preferred, information = likeliest(fits, [weight[judges] for weight in weights], judging)
    return _Attack(
        {fit.name: _right(weight, pairs, own) for fit, weight in zip(fits, weights, strict=True)},
        fits[preferred].name,
        dict(information),
        [_right(_weights(model, pairs), pairs, own) for model in knows],
        next(fit for fit in fits if isinstance(fit, ByLevels)),
    )


def _details(attack: _Attack, pairs: Pairs, own: Host, agree: Agreement, columns: Sequence[str]) -> dict[str, Figure]:
    """What was looked at, what each model links, and m and u of each column."""
    found = attack.levels.found
    return {
        "records": len(pairs.rows),
        "candidates": pairs.index.shape[1],
        "own_among_candidates": float(own.any(axis=1).mean()),
        "model": max(attack.linked, key=lambda name: attack.linked[name]),
        "linked_by_model": {name: round(share, 6) for name, share in attack.linked.items()},
        "information_by_model": {name: round(value, 6) for name, value in attack.information.items()},
        "estimated_share": found.share,
        "m_by_column": _by_level(found.m, columns, agree),
        "u_by_column": _by_level(found.u, columns, agree),
    }


def _check(link: Host, m: int, tolerances: Sequence[float]) -> None:
    """Refuse a link of another release, and tolerances that are not levels."""
    if len(link) != m:
        raise ParameterError(f"link: one entry per released row is needed ({m}), got {len(link)}")
    if not tolerances or list(tolerances) != sorted(set(tolerances)) or tolerances[0] < 0:
        raise ParameterError("tolerances: ascending numbers of 0 or more are needed")


def _chance(blocks: BlockedRecords, pairs: Pairs, own: Host, link: Host) -> Chance:
    """Random pairs, and the near ones of some records."""
    some = np.unique(np.linspace(0, len(own) - 1, max(1, min(len(own), _PAIRS // own.shape[1]))).astype(np.int64))
    inside = pairs.inside[some] & ~own[some]
    share = np.broadcast_to(1 / (len(some) * np.maximum(pairs.choices[some], 1.0))[:, None], inside.shape)
    chance, beyond = blocks.random(pairs, _PAIRS, link)
    return Chance(chance, beyond, pairs.distance[some][inside], share[inside])


def _fits(
    agree: Agreement, points: tuple[Host, Host], pairs: Pairs, chance: Chance, link: Host
) -> tuple[list[Model], list[Model], Host]:
    """The models fitted without the link, and with it, and at which rows they were: at most three of four."""
    width, deep = min(2 * _POOL, pairs.index.shape[1]), max(len(agree.sizes), points[0].shape[1])
    most = max(1, min(3 * len(pairs.rows) // 4, _PAIRS // width, _FEATURES // (width * deep)))
    some = np.unique(np.linspace(0, len(pairs.rows) - 1, most).astype(np.int64))
    seen, firsts = _pool(agree, pairs.of(some), chance.pairs)
    learned = Learned(agree, points, seen, chance, firsts)
    known = (link[seen.index] == seen.rows[:, None]) & seen.inside
    return learned.models(), learned.informed(known), some


def _pool(agree: Agreement, pairs: Pairs, chance: Pairs) -> tuple[Pairs, list[Host]]:
    """Candidates that EM looks at: the nearest, and the most surprising; and a first guess from either."""
    near = min(_POOL, pairs.index.shape[1])
    tails = np.concatenate([np.cumsum(part) for part in chances(agree, chance)])
    surprise = np.zeros(pairs.index.shape)
    step = max(1, _BATCH // max(1, pairs.index.shape[1] * len(agree.sizes)))
    for at in range(0, len(pairs.rows), step):
        part = slice(at, at + step)
        flat = agree.levels(pairs.rows[part], pairs.index[part]) + agree.starts[:-1]
        surprise[part] = -np.log(np.maximum(tails, 1e-9))[flat].sum(axis=2)
    surprise[~pairs.inside] = -np.inf
    best = np.argsort(-surprise, axis=1, kind="stable")[:, :near]
    places = np.concatenate([np.broadcast_to(np.arange(near), best.shape), best], axis=1)
    once = np.concatenate([np.ones(best.shape, dtype=bool), best >= near], axis=1)  # each candidate once
    guesses = [np.argmax(pairs.inside[:, :near], axis=1), np.where(best[:, 0] < near, best[:, 0], near)]
    firsts = []
    for guess in guesses:
        first = np.zeros(places.shape)
        first[np.arange(len(first)), guess] = 0.9
        firsts.append(first)
    return pairs.at(places, once), firsts


def _weights(model: Model, pairs: Pairs) -> Host:
    """(rows, c) weight of each pair; −∞ outside the block."""
    out = np.empty(pairs.index.shape)
    step = max(1, _BATCH // max(1, 16 * pairs.index.shape[1]))  # a pair has a dozen figures
    for at in range(0, len(out), step):
        some = pairs.of(slice(at, at + step))
        out[at : at + step] = np.where(some.inside, model.scores(some), -np.inf)
    return out


def _right(weight: Host, pairs: Pairs, own: Host) -> float:
    """Share of originals that are linked with their own release by the largest weight."""
    return float(_shared((weight == weight.max(axis=1, keepdims=True)) & pairs.inside, own).mean())


def _nearest(pairs: Pairs, own: Host) -> float:
    """Share of originals that the attack by distance links rightly."""
    return float(_shared(pairs.distance == pairs.distance[:, :1], own).mean())


def _shared(best: Host, own: Host) -> Host:
    """(rows,) probability that one of the best candidates, chosen at random, is the record's own."""
    return np.asarray((best & own).sum(axis=1) / np.maximum(best.sum(axis=1), 1))


_LABELS = {
    "nearest": "by distance",
    "likely": "the likeliest model",
    "informed": "m and u known",
    "guess": "a blind guess",
}


def _measured(value: float, beside: dict[str, float], n: int, details: dict[str, Figure], part: By) -> Measured:
    """The figure, with what stands beside it."""
    records = int(str(details["records"]))
    interval = share_interval(value, records)
    note = join(
        None if records == n else f"a random sample of {records} of {n} original records was linked",
        "the likelihood prefers a model that links less" if beside["likely"] < interval.low else None,
    )
    shown = tuple(Beside(name, _LABELS[name], figure) for name, figure in beside.items())
    return Measured(value, details, note, parts=(part,), interval=interval, beside=shown)


def _by_level(side: list[Host], names: Sequence[str], agree: Agreement) -> dict[str, Figure]:
    """m or u of every column and level, under names."""
    numbers = [f"within {tolerance:g} sd" for tolerance in np.where(agree.tolerances > EQUAL, agree.tolerances, 0)]
    out: dict[str, Figure] = {}
    for name, values, flag in zip(names, side, agree.categorical, strict=True):
        labels = ["equal", "different"] if flag else [*numbers, "beyond"]
        out[name] = {label: round(float(value), 6) for label, value in zip(labels, values, strict=True)}
    return out


def _information(levels: ByLevels, names: Sequence[str]) -> By:
    """Per column the expected weight of a pair that belongs together, Σ_l m_l log(m_l / u_l)."""
    sides = zip(levels.found.m, levels.found.u, strict=True)
    pairs = ((np.maximum(m, levels.floor), np.maximum(u, levels.floor)) for m, u in sides)
    values = [float((m * np.log(m / u)).sum()) for m, u in pairs]
    return By("column", dict(zip(names, values, strict=True)))


def _quasi_values(c: Comparison, codes: list[bool], rows: Host | None = None) -> tuple[Host, Host]:
    """The quasi-identifiers of original and release, or of these released rows: numbers as they are, codes else."""
    chosen = c if rows is None else c.with_released(rows)
    # Of a comparison that nobody else has: its arrays may be written to.
    before, after = (np.asarray(to_host(side), dtype=np.float64) for side in only(chosen, c.schema.quasi).values)
    for side in (before, after):
        side[:, codes] = np.where(side[:, codes] < 0, np.nan, side[:, codes])
    return before, after


def _linkage_probabilistic(c: Comparison, block: list[str] | None = None, **options: Any) -> Measured:
    """Of the quasi-identifiers; columns of blocking by name."""
    link, named = c.link, block or []
    codes = [c.schema[name].kind not in ("numeric", "date") for name in c.schema.quasi]
    unknown = [name for name in named if name not in c.schema.quasi]
    if unknown:
        raise ParameterError(f"block: {', '.join(map(repr, unknown))}: there is no such quasi-identifier")
    points = [to_host(side) for side in c.standardised]
    values = _quasi_values(c, codes) if named else (None, None)
    linked = linkage_probabilistic(
        Side(points[0], values[0]),
        Side(points[1], values[1]),
        link,
        read=None if named else lambda rows: _quasi_values(c, codes, rows),
        categorical=codes,
        names=c.schema.quasi,
        block=[name in named for name in c.schema.quasi],
        metric_weights=blocking_weights(c.quasi_features, named),
        **options,
    )
    return _with_known_pairs(linked, c.hits) if not named else linked


def _with_known_pairs(linked: Measured, hits: Hits) -> Measured:
    """The figure, or that of an attacker who knows some pairs and fits the map between the tables, if it links more."""
    share = float(hits.values.mean())
    if not hits.mapped or share <= linked.value:
        return linked
    return replace(
        linked, value=share, note=join(linked.note, hits.note), interval=share_interval(share, len(hits.values))
    )


LINKAGE_PROBABILISTIC = Measure(
    name="linkage_probabilistic", label="people linked by a statistical record linkage",
    sentence="The record linkage that statistical offices use to join files links this share of people with their own"
    " released record.",
    summary="share of originals linked with their own release by likelihood",
    family="risk", range=SHARE,
    usual="at most 1/k where k records look alike",
    unit="record",
    records="its model is one of pairs of records",
    applies=PAIRED_QUASI, function=linkage_probabilistic,
    compute=_linkage_probabilistic, options={"tolerances": list[NOT_NEGATIVE], "candidates": WHOLE, "block": NAMES},
    arrays="points", weights=RISK_OF_RECORDS, nulls="two nulls agree, a null and a value do not", scaling="queries",
    host="EM runs over agreement patterns of candidate pairs, which a k-d tree proposes: it leaves out nearly all"
    " pairs, which a device would all measure",
    source="Fellegi and Sunter 1969; Jaro 1989", long=1.6, large=True,
)  # fmt: skip
