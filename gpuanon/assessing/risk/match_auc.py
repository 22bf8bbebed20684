"""The matching attack and how well the attacker can tell right matches from wrong ones.

Each original record is matched with the nearest released one; among ties the attacker chooses at random, so a match
is right with probability 1 / ties when the record's own is among them, and with probability 0 otherwise.  A rate of
right matches says little by itself: the attacker must know *which* are right.  The area under the ROC curve (AUC) of a
prediction measure, over right and wrong matches, says how well that measure tells them apart: 0.5 not at all, 1
always [1].

Distance, ambiguity and uncertainty together may tell more than each alone; section 4.2.3 of [1] leaves the question
open.  The attacker of `match_auc_joint` is a logistic regression on the three, on their squares and products, each as a
rank, which learns on some records and is judged on others.  He is given the truth of the records that he learns on: an
upper bound for an attacker who has to guess it.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.sorting import lexicographic_order
from gpuanon.arrays.threads import each
from gpuanon.assessing.figures import Beside, By, Figure, Measured, join
from gpuanon.assessing.measure import NULL_IS_MARKED, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.prediction import EXACT_ROWS, Prediction, predict, standardised
from gpuanon.assessing.risk.reidentification import place_in
from gpuanon.assessing.sampling_errors import area_interval, sample_note
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.distance.distance import nearest_with_ties, paired
from gpuanon.numerics.metric import tie_limit

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

MEASURES = ("distance", "ambiguity", "uncertainty")
TENTH = 0.1
FOLDS = 5


@dataclass(frozen=True, eq=False)
class Matches:
    """The matching attack, record by record.

    prediction : the three prediction measures of the records matched
    right      : (s,) probability that the match is right; NaN for a record that was not released
    """

    prediction: Prediction
    right: Array


def match(
    original: Array,
    release: Array,
    link: Array,
    *,
    k: int = 5,
    prediction: Prediction | None = None,
    limit: int = EXACT_ROWS,
) -> Matches:
    """Match every original record (n, d) with its nearest released one (m, d).

    link : (m,) original row of each released row, −1 for added rows; of several released copies of a record any counts
    """
    if len(link) != len(release):
        raise ParameterError(f"link: one entry per released row is needed ({len(release)}), got {len(link)}")
    prediction = predict(original, release, k, limit=limit) if prediction is None else prediction
    found = _own_of(original, release, link, prediction.rows)
    return Matches(prediction, _right(namespace(original), *found, prediction.squared, prediction.ties))


def right_matches(original: Array, release: Array, link: Array, rows: Array) -> Array:
    """(s,) as `Matches.right`, of these original rows: the nearest released record alone is searched."""
    found = _own_of(original, release, link, rows)
    return _right(namespace(original), *found, *nearest_with_ties(original[rows], release))


def _right(xp: Any, squared: Array, own: Array, least: Array, ties: Array) -> Array:
    """Probability of a right match: the record's own among those at the smallest distance; NaN if not released."""
    return xp.where(own == 0, xp.nan, xp.where(squared <= tie_limit(least), own / ties, 0.0))


def match_auc(
    original: Array,
    release: Array,
    link: Array,
    *,
    k: int = 5,
    standardise: bool = True,
    prediction: Prediction | None = None,
    limit: int = EXACT_ROWS,
) -> Measured:
    """AUC with which the prediction measures tell right matches from wrong ones; the value is the largest of the three.

    prediction : computed before from the standardised tables; saves the search

    Not defined, and refused as such, when there are no wrong (or no right) matches.
    """
    if standardise:
        original, release = standardised(original, release)
    attack = match(original, release, link, k=k, prediction=prediction, limit=limit)
    measured = auc_of([attack])
    if np.isnan(measured.value):
        raise InputError(f"match_auc: {measured.note} (share of right matches: {measured.details['rate']})")
    return replace(measured, note=join(sampled(attack, measured.value), measured.note))


def sampled(attack: Matches, area: float) -> str | None:
    """Whether a sample of the originals was matched, and the error of the AUC that comes from it."""
    rows, originals = len(attack.prediction.rows), attack.prediction.originals
    if rows == originals:
        return None
    right = to_host(attack.right)
    right = right[~np.isnan(right)]
    found = area_interval(area, float(right.sum()), float((1 - right).sum()))
    return sample_note(rows, originals, "original records was matched", max(found.high - area, area - found.low))


def auc_of(attacks: list[Matches]) -> Measured:
    """AUC and success among the most confident tenth, pooled over several attacks (releases of the same kind).

    The value is NaN, with a note, when there are no wrong or no right matches.
    """
    right = np.concatenate([to_host(attack.right) for attack in attacks])
    known = ~np.isnan(right)
    right = right[known]
    if len(right) == 0:
        raise ParameterError("link: no released row leads to an original record")
    details: dict[str, Figure] = {"records": len(right), "rate": float(right.mean())}
    areas: dict[str, float | None] = {}
    for name in MEASURES:
        values = np.concatenate([to_host(getattr(attack.prediction, name)) for attack in attacks])[known]
        values = rounded(values)
        area = roc_area(values, right)
        areas[name] = None if np.isnan(area) else area
        details[name] = {"auc": areas[name], "most_confident_tenth": most_confident(values, right)}
    defined = [area for area in areas.values() if area is not None]
    kind, missing = "wrong" if right.mean() > 0.5 else "right", int((~known).sum())
    note = join(
        None if defined else f"there are no {kind} matches: the AUC is not defined",
        f"{missing} original records were not released and are left out" if missing else None,
    )
    beside = Beside("cannot_tell", "cannot tell at all", 0.5)
    return Measured(max(defined, default=np.nan), details, note, parts=(By("measure", areas),), beside=(beside,))


def rounded(values: Host) -> Host:
    """Nine digits of the largest of each column: records with equal neighbours tie, whatever rounding leaves."""
    return np.asarray(np.round(values / np.maximum(values.max(axis=0), np.finfo(np.float64).tiny), 9))


def roc_area(values: Host, right: Host) -> float:
    """Probability that a right match has a smaller value than a wrong one, ties counting one half.

    Each record is right with weight `right` and wrong with weight 1 − `right`.  NaN without right or wrong matches.
    """
    won, pairs = _won(values, right)
    return won / pairs if pairs else float("nan")


def most_confident(values: Host, right: Host, share: float = TENTH) -> float:
    """Share of right matches among the records with the smallest values; a tie at the border counts by its mean."""
    size = max(1, round(share * len(values)))
    border = np.partition(values, size - 1)[size - 1]
    inside, tied = values < border, values == border
    return float((right[inside].sum() + right[tied].mean() * (size - inside.sum())) / size)


def _own_of(original: Array, release: Array, link: Array, rows: Array) -> tuple[Array, Array]:
    """`_own` of these original rows, which ascend; the others are not looked at."""
    if len(rows) == len(original):
        return _own(original, release, link)
    return _own(original[rows], release, place_in(rows, like(to_host(link), rows)))


def _own(original: Array, release: Array, link: Array) -> tuple[Array, Array]:
    """(n,) squared distance to the nearest released copy of each record itself, and how many are that near."""
    xp = namespace(original)
    n = len(original)
    released = xp.flatnonzero((link >= 0) & (link < n))
    owner = link[released]
    squared = paired(original[owner], release, index=released)
    order = lexicographic_order([squared, owner])
    owner, squared = owner[order], squared[order]
    first = xp.searchsorted(owner, xp.arange(n), side="left")
    count = xp.searchsorted(owner, xp.arange(n), side="right") - first
    least = xp.full(n, xp.inf, dtype=squared.dtype)
    has = count > 0
    least[has] = squared[first[has]]
    near = (squared <= tie_limit(least)[owner]).astype(np.int64)
    upto = xp.concatenate([xp.zeros(1, dtype=np.int64), xp.cumsum(near)])
    return least, upto[first + count] - upto[first]


def match_auc_joint(
    original: Array,
    release: Array,
    link: Array,
    *,
    k: int = 5,
    prediction: Prediction | None = None,
    limit: int = EXACT_ROWS,
) -> Measured:
    """AUC with which the three prediction measures together tell right matches from wrong ones, on held-out records.

    Parameters
    ----------
    original, release : (n, d) and (m, d), encoded alike; standardised here
    link       : (m,) original row of each released row, −1 for an added row
    prediction : computed before from the standardised tables; saves the search

    Right and wrong are compared inside folds.  0.5: they cannot be told apart; below it: what was learned did not hold
    for others.  Beside it the best of the three alone, chosen on all records.  Who has seen no right match, or no
    wrong one, cannot tell them apart.  Not defined, and refused as such, when there are none at all.
    """
    original, release = standardised(original, release)
    return joint_auc_of(match(original, release, link, k=k, prediction=prediction, limit=limit))


def joint_auc_of(attack: Matches) -> Measured:
    """See `match_auc_joint`."""
    alone = auc_of([attack])
    right = to_host(attack.right)
    known = ~np.isnan(right)
    values = np.stack([to_host(getattr(attack.prediction, name)) for name in MEASURES], axis=1)[known]
    right = right[known]
    values = rounded(values)
    if np.isnan(alone.value):
        raise InputError(f"match_auc_joint: {alone.note} (share of right matches: {alone.details['rate']})")
    features = _features(values)
    fold = _folds(values, right)

    def judged(number: int) -> tuple[float, float]:
        held = fold == number
        return _won(-_score(features[~held], right[~held], features[held]), right[held])

    wins, pairs = (sum(found) for found in zip(*each(judged, range(FOLDS)), strict=True))
    area = wins / pairs if pairs else 0.5  # where no fold has both, nothing was told apart
    details: dict[str, Figure] = {"records": len(right), "rate": alone.details["rate"], "folds": FOLDS}
    return Measured(
        area,
        details,
        join(sampled(attack, area), alone.note),
        alone.parts,
        area_interval(area, float(right.sum()), float((1 - right).sum())),
        (
            Beside("best_alone", "the best of the three alone", alone.value),
            Beside("cannot_tell", "cannot tell at all", 0.5),
        ),
    )


def _features(values: Host) -> Host:
    """(n, 9) ranks between −1 and 1, their squares and products."""
    ranks = np.empty_like(values)
    for j, column in enumerate(values.T):
        _, place, counts = np.unique(column, return_inverse=True, return_counts=True)
        middle = np.cumsum(counts) - (counts - 1) / 2 - 0.5
        ranks[:, j] = 2 * middle[place.reshape(-1)] / len(values) - 1
    first, second = np.triu_indices(values.shape[1])
    return np.hstack([ranks, ranks[:, first] * ranks[:, second]])


def _folds(values: Host, right: Host) -> Host:
    """(n,) fold of each record: dealt in the order of `right`, so that each has its share; whatever the rows' order."""
    order = np.lexsort((*values.T, right))
    out = np.empty(len(right), dtype=np.int64)
    out[order] = np.arange(len(right)) % FOLDS
    return out


def _score(X: Host, right: Host, held: Host) -> Host:
    """(h,) log odds that a held-out match is right; a record counts as right and as wrong by its probability."""
    from sklearn.linear_model import LogisticRegression

    both = np.concatenate([right, 1 - right])
    chosen = both > 0
    labels = np.repeat([1, 0], len(X))[chosen]
    if labels.min(initial=1) == labels.max(initial=0):
        return np.zeros(len(held))
    model = LogisticRegression(solver="newton-cholesky", tol=1e-9)
    model.fit(np.concatenate([X, X])[chosen], labels, sample_weight=both[chosen])
    return np.round(np.asarray(model.decision_function(held)), 6)  # equal records tie


def _won(values: Host, right: Host) -> tuple[float, float]:
    """Pairs of a right and a wrong match of which the right one has the smaller value (ties one half); all pairs."""
    wrong = 1 - right
    _, place = np.unique(values, return_inverse=True)
    right_at, wrong_at = np.bincount(place, right), np.bincount(place, wrong)
    larger = wrong_at[::-1].cumsum()[::-1] - wrong_at
    return float((right_at * (larger + 0.5 * wrong_at)).sum()), float(right.sum() * wrong.sum())


def _match_auc(c: Comparison) -> Measured:
    return match_auc(*c.standardised, c.link, prediction=c.prediction)


MATCH_AUC = Measure(
    name="match_auc", label="does an attacker know which matches are right?",
    sentence="Shown a right and a wrong match, an attacker says which is right this often: half of the time is"
    " guessing.",
    summary="how well an attacker tells right matches from wrong ones (0.5: not at all)",
    family="risk", range=SHARE, usual="0.5 is guessing; 1 is certain",
    unit="record",
    records="it ranks pairs of records",
    applies=PAIRED_QUASI, function=match_auc, compute=_match_auc, arrays="points",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="queries", source="Lasko 2007",
)  # fmt: skip


def _match_auc_joint(c: Comparison) -> Measured:
    return match_auc_joint(*c.standardised, c.link, prediction=c.prediction)


MATCH_AUC_JOINT = Measure(
    name="match_auc_joint", label="does a trained attacker know which matches are right?",
    sentence="As `match_auc`, for an attacker who has learned from other people how distance, ambiguity and uncertainty"
    " go together.",
    summary="the same, by the three prediction measures together, held-out records",
    family="risk", range=SHARE, usual="0.5 is guessing; 1 is certain",
    unit="record",
    records="it ranks pairs of records",
    applies=PAIRED_QUASI, function=match_auc_joint, compute=_match_auc_joint, arrays="points",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="queries", source="Lasko 2007", long=1,
)  # fmt: skip
