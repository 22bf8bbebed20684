"""The joint attack: can right matches be told from wrong ones by distance, ambiguity and uncertainty together?

Each of the three measures alone may tell nothing while the three together do, so that section 4.2.3 of [1] leaves the
question open.  The attacker here is a logistic regression on the three, on their squares and products, each as a rank,
which learns on some records and is judged on others.  He is given the truth of the records that he learns on: an upper
bound for an attacker who has to guess it.

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 4.2.3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.threads import each
from gpuanon.assessing.figures import Beside, Figure, Measured, join
from gpuanon.assessing.measure import NULL_IS_MARKED, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.match_auc import MEASURES, Matches, auc_of, match, rounded, sampled
from gpuanon.assessing.risk.prediction import EXACT_ROWS, Prediction, standardised
from gpuanon.assessing.sampling_errors import area_interval
from gpuanon.errors import InputError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


FOLDS = 5


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


def _match_auc_joint(c: Comparison) -> Measured:
    return match_auc_joint(*c.standardised, c.link, prediction=c.prediction)


MATCH_AUC_JOINT = Measure(
    name="match_auc_joint", label="does a trained attacker know which matches are right?",
    sentence="As `match_auc`, for an attacker who has learned from other people how distance, ambiguity and uncertainty"
    " go together.",
    summary="the same, by the three prediction measures together, held-out records",
    family="risk", range=SHARE, usual="0.5 is guessing; 1 is certain",
    unit="record", applies=PAIRED_QUASI, function=match_auc_joint, compute=_match_auc_joint, arrays="points",
    weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="queries", source="Lasko 2007", long=1,
)  # fmt: skip
