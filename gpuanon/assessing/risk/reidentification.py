"""Reidentification risk: how often an attacker who knows the quasi-identifiers finds the right released record.

Each original record is matched with the released record at the smallest Euclidean distance on the quasi-identifiers;
among ties one is chosen at random; a hit is the record's own release (section 4.3 of [1]).  The expected hit rate of
a release is computed exactly, record by record: the share of the ties that are the record's own.

An attacker who knows which released records are those of ten people fits the linear map from release to original by
least squares, and looks there: a release that was shifted, mirrored or rotated is found so, though no record is near
its own.  Where that attacker finds far more of the others, the figure is that attacker's, and a note says so.

The same attack on the unmasked table stands beside it: where many records share their values it is far below 1
already, and a comparison with 1/k alone says little.

References
----------
.. [1] D. Wei, K. N. Ramamurthy, K. R. Varshney (2018), Distribution-preserving k-anonymity, Stat. Anal. Data Min.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, on_device, to_host
from gpuanon.assessing.figures import Beside, Distribution, Figure, Measured, figure_text, join
from gpuanon.assessing.measure import NULL_IS_MARKED, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.prediction import EXACT_ROWS, Prediction
from gpuanon.assessing.sampling_errors import mean_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import nearest_with_ties, paired
from gpuanon.numerics.distance.distance_search import looks_at_few
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.metric import tie_limit
from gpuanon.numerics.sampling import sample_rows

KNOWN = 10
"""People whose released records an attacker knows already."""
_TRIED = 500
_GAIN = 0.1
_DEVICE_PAIRS = 1 << 38  # that a device looks at before a k-d tree on the host takes over: 500 000 times 500 000 rows


@dataclass(frozen=True, eq=False)
class Hits:
    """The attack, record by record.

    rows      : (s,) the original records that were attacked: all, or a repeatable random sample
    values    : (s,) probability that each is matched with its own release
    originals : original records, of which `rows` are all or a sample
    mapped    : whether the attacker fitted a map by known pairs, see `known_map`
    """

    rows: Host
    values: Host
    originals: int
    mapped: bool = False

    @property
    def note(self) -> str | None:
        """Whether a map was fitted; whether a sample was taken, and its error."""
        mapped = f"by an attacker who knows {KNOWN} pairs and fits the map between the tables" if self.mapped else None
        if len(self.rows) == self.originals:
            return mapped
        error = 1.96 * float(self.values.std() / np.sqrt(len(self.rows)))
        sampled = (
            f"a random sample of {len(self.rows)} of {self.originals} original records was attacked: "
            f"right to ±{error:.4f} (95 %)"
        )
        return join(mapped, sampled)


def reidentification(
    X: Array, Y: Array, link: Array, *, unmasked: Array | None = None, hits: Hits | None = None
) -> Measured:
    """Expected share of originals whose nearest released record is their own.

    Parameters
    ----------
    X : (n, d) quasi-identifiers of the original records, encoded
    Y : (m, d) those of the released records, encoded alike
    link : (m,) original row of each released row, −1 for an added row
    unmasked : (n,) hit probability of each record when the table is released as it is; None when `X` is the whole
        table, and not a sample of its rows
    hits : of `attacked`, computed before

    Returns
    -------
    Measured
        With the value: its standard error over records (taken as independent), Wilson's 95 % interval, the
        distribution over original records, the same attack on the unmasked table, and a blind guess.
    """
    hits = attacked(X, Y, link) if hits is None else hits
    n, value = len(hits.values), float(hits.values.mean())
    error = float(hits.values.std() / np.sqrt(n))
    baseline = float(to_host(unmasked_probabilities(X) if unmasked is None else unmasked).mean())
    details: dict[str, Figure] = {"standard_error": error, "records": n}
    return Measured(
        value,
        details,
        join(hits.note, _note(baseline)),
        parts=(Distribution.over("original records", hits.values),),
        interval=mean_interval(value, float(hits.values.var()), n),
        beside=(Beside("unmasked", "unmasked", baseline), Beside("guess", "a blind guess", 1 / len(Y))),
    )


def reidentification_by_class(X: Array, Y: Array, link: Array, *, hits: Hits | None = None) -> Measured:
    """Expected hit rate by equivalence class of the original quasi-identifiers; the value is the mean over classes.

    A class counts once, however many records it has, so rare combinations weigh as much as common ones.  In one
    release a class of one record has a rate of 0 or 1 / ties: quantiles speak of this release, not of its method.
    Of a sample of the records, each counts by one over the size of its class, and there are no quantiles.
    """
    hits = attacked(X, Y, link) if hits is None else hits
    classes = to_host(equal_rows(X))
    sizes = np.bincount(classes)
    details: dict[str, Figure] = {"classes": len(sizes)}
    parts: tuple[Distribution, ...] = ()
    if len(hits.rows) == hits.originals:
        rates = np.bincount(classes, hits.values) / sizes
        value, error = float(rates.mean()), float(rates.std() / np.sqrt(len(rates)))
        parts = (Distribution.over("classes of equal originals", rates),)
    else:
        share = 1 / sizes[classes[hits.rows]]
        value = float(np.average(hits.values, weights=share))
        error = float(np.sqrt((share**2 * (hits.values - value) ** 2).sum()) / share.sum())
    return Measured(
        value,
        {"standard_error": error, **details},
        join(hits.note, _note(float((1 / sizes[classes]).mean()))),
        parts=parts,
        beside=(Beside("unmasked", "unmasked", float((1 / sizes).mean())),),
    )


def attacked(
    X: Array,
    Y: Array,
    link: Array,
    *,
    persons: Host | None = None,
    prediction: Prediction | None = None,
    limit: int = EXACT_ROWS,
) -> Hits:
    """The attack on every original, or on a repeatable random sample of ``limit² / m`` of them.

    A sample is taken of more than `limit` rows with so many columns of many values that nearly all distances have to be
    looked at: on the host and on a device alike, so that both attack the same records.

    persons    : (n,) whose record each original is: a hit is then any released record of the person
    prediction : of the same tables, whose search is used
    """
    link = like(to_host(link), X)
    _check(X, Y, link)
    found = _attacked(X, Y, link, persons, prediction, limit)
    mapped = known_map(X, Y, link, found)
    if mapped is None:
        return found
    return replace(_attacked(X, mapped, link, persons, None, limit), mapped=True)


def known_map(X: Array, Y: Array, link: Array, found: Hits) -> Array | None:
    """(m, d) the release in the coordinates of the original, by a linear map that `KNOWN` pairs fit best.

    None unless the map finds at least `_GAIN` more of a sample of other records than `found`, and twice as many.
    """
    origin = to_host(link)
    released = np.flatnonzero(origin >= 0)
    if len(released) < 4 * KNOWN or len(np.unique(origin[released])) < 4 * KNOWN:
        return None
    random = np.random.default_rng(10)
    pairs = random.choice(released, KNOWN, replace=False)
    known, seen = to_host(Y[like(pairs, X)]).astype(np.float64), to_host(X[like(origin[pairs], X)]).astype(np.float64)
    middle = known.mean(axis=0)
    slope = np.linalg.lstsq(known - middle, seen - seen.mean(axis=0), rcond=1e-9)[0]
    mapped = (Y.astype(np.float64) - like(middle, X)) @ like(slope, X) + like(seen.mean(axis=0), X)
    others = np.setdiff1d(found.rows, origin[pairs])
    others = np.sort(random.permutation(others)[:_TRIED])
    if not len(others):
        return None
    before = float(found.values[np.searchsorted(found.rows, others)].mean())
    tried = like(others, X)
    after = float(to_host(hit_probabilities(X[tried], mapped, place_in(tried, link))).mean())
    return mapped if after > max(before + _GAIN, 2 * before) else None


def _attacked(X: Array, Y: Array, link: Array, persons: Host | None, prediction: Prediction | None, limit: int) -> Hits:
    """See `attacked`."""
    if persons is not None:
        return _persons_attacked(X, Y, link, persons, limit)
    few = looks_at_few(some_rows(Y))
    if prediction is not None and not few:
        rows, found = prediction.rows, (prediction.squared, prediction.ties)
        return Hits(to_host(rows), to_host(_hits(X[rows], Y, place_in(rows, link), *found)), len(X))
    if few or max(len(X), len(Y)) <= limit:
        return Hits(np.arange(len(X)), to_host(hit_probabilities(X, Y, link)), len(X))
    rows = like(sample_rows(len(X), max(1, limit**2 // len(Y)), "prediction"), X)
    return Hits(to_host(rows), to_host(hit_probabilities(X[rows], Y, place_in(rows, link))), len(X))


def _persons_attacked(X: Array, Y: Array, link: Array, persons: Host, limit: int) -> Hits:
    """The attack where a person has several records: the share of a record's ties that are the person's."""
    n, m, origin = len(X), len(Y), to_host(link)
    count = n if max(n, m) <= limit else max(1, limit**2 // m)
    rows = np.arange(n) if count >= n else sample_rows(n, count, "prediction")
    least, ties = nearest_with_ties(X[like(rows, X)], Y)
    released = np.flatnonzero(origin >= 0)
    released = released[np.argsort(persons[origin[released]], kind="stable")]
    owners = persons[origin[released]]
    first, last = (np.searchsorted(owners, persons[rows], side=side) for side in ("left", "right"))
    mine = np.repeat(np.arange(len(rows)), last - first)
    places = np.arange(len(mine)) - np.repeat(np.cumsum(last - first) - (last - first), last - first)
    theirs = released[np.repeat(first, last - first) + places]
    mine_there = like(mine, X)
    hit = to_host(paired(X[like(rows[mine], X)], Y[like(theirs, X)]) <= tie_limit(least)[mine_there])
    return Hits(rows, np.bincount(mine[hit], minlength=len(rows)) / to_host(ties), n)


def place_in(rows: Array, link: Array) -> Array:
    """(m,) where the original of each released row stands in `rows`, ascending; −1 where it does not."""
    xp = namespace(rows)
    place = xp.minimum(xp.searchsorted(rows, link), len(rows) - 1)
    return xp.where(rows[place] == link, place, -1)


def hit_probabilities(X: Array, Y: Array, link: Array) -> Array:
    """(n,) probability that each original record is matched with its own release (0 where it was not released).

    Cost : one exact search for the nearest released records and their ties (`numerics.distance`).  A device
        measures all pairs; where these are very many, and the host looks at few of them, the host searches.
    """
    link = like(to_host(link), X)
    _check(X, Y, link)
    X, Y = (table.astype(np.float64, copy=False) for table in (X, Y))
    if on_device(X) and len(X) * len(Y) > _DEVICE_PAIRS and looks_at_few(some_rows(Y)):
        return like(hit_probabilities(to_host(X), to_host(Y), to_host(link)), X)
    return _hits(X, Y, link, *nearest_with_ties(X, Y))


def _hits(X: Array, Y: Array, link: Array, least: Array, ties: Array) -> Array:
    """(n,) hit probabilities, from the distances of the nearest released records and the number of them."""
    xp = namespace(X)
    rows = xp.flatnonzero(link >= 0)
    mine = link[rows]
    hit = paired(X[mine], Y[rows]) <= tie_limit(least)[mine]
    return xp.bincount(mine[hit], minlength=len(X)) / ties


def unmasked_probabilities(X: Array) -> Array:
    """(n,) hit probability of each record when the table is released as it is: one over the size of its class."""
    classes = equal_rows(X)
    return 1 / namespace(X).bincount(classes)[classes]


def some_rows(Y: Array) -> Host:
    """Some thousand rows, on the host."""
    return to_host(Y[:: max(1, len(Y) // 4096)])


def _check(X: Array, Y: Array, link: Array) -> None:
    """Refuse tables that do not fit together."""
    if len(X) == 0 or len(Y) == 0:
        raise ParameterError("reidentification: original and release need at least one record each")
    if X.shape[1] != Y.shape[1]:
        raise ParameterError(f"columns: both tables need the same number, got {X.shape[1]} and {Y.shape[1]}")
    if len(link) != len(Y):
        raise ParameterError(f"link: one entry per released row is needed ({len(Y)}), got {len(link)}")
    if not all(bool(namespace(X).isfinite(table).all()) for table in (X, Y)):
        raise ParameterError("columns: distances need finite numbers", hint="encode or fill missing values first")


def _note(unmasked: float) -> str | None:
    """How to read a rate on columns that identify few records in the first place."""
    if unmasked > 0.5:
        return None
    return f"the unmasked table itself gives {figure_text(unmasked, 3)}: compare with that as well as with 1/k"


# `c` below is a `Comparison`, which imports this file.


def _reidentification(c: Any) -> Measured:
    before, after = c.quasi
    unmasked = c.unmasked
    if c.persons is not None and unmasked is None:
        unmasked = attacked(before, before, np.arange(len(before)), persons=c.persons).values
    return reidentification(before, after, c.link, unmasked=unmasked, hits=c.hits)


def _reidentification_by_class(c: Any) -> Measured:
    before, after = c.quasi
    return reidentification_by_class(before, after, c.link, hits=c.hits)


REIDENTIFICATION = Measure(
    name="reidentification", label="people found by the nearest record",
    sentence="Somebody who knows a person's quasi-identifiers and picks the most similar released record picks that"
    " person's own this often.",
    summary="expected share of originals whose nearest released record is their own",
    family="risk", range=SHARE,
    usual="at most 1/k where k records look alike; 0.09 is a common maximum",
    unit="record", applies=PAIRED_QUASI, function=reidentification,
    compute=_reidentification, arrays="quasi", weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="queries",
    source="Wei, Ramamurthy and Varshney 2018", long=1,
)  # fmt: skip
REIDENTIFICATION_BY_CLASS = Measure(
    name="reidentification_by_class", label="people found, rare ones counting as much as common ones",
    sentence="As `reidentification`, but people who were alike before masking count once together, so that rare people"
    " weigh as much as common ones.",
    summary="the same, each class of equal originals counting once",
    family="risk", range=SHARE,
    usual="at most 1/k where k records look alike",
    unit="class", applies=PAIRED_QUASI, function=reidentification_by_class,
    compute=_reidentification_by_class, arrays="quasi", weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="whole",
    source="Wei, Ramamurthy and Varshney 2018",
)  # fmt: skip
