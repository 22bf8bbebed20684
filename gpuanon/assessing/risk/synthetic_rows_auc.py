"""Can added rows be told from the records of their class?  Padding protects only if they cannot be discounted.

References
----------
.. [1] W. Fried, D. Vamvourellis, Towards minimizing statistical distortion introduced by de-identification methods: a
   class whose made rows are easily found has not grown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.blas import one_blas_thread, one_openmp_thread
from gpuanon.arrays.rng import Key
from gpuanon.assessing.figures import Beside, By, ConfidenceInterval, Figure, Measured
from gpuanon.assessing.measure import PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.tables.codes import level_codes
from gpuanon.tables.values import family, floats

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


ROWS = 100_000
"""Rows of padded classes that are looked at, at most; of more, a repeatable random sample of classes."""

FOLDS = 3
_T = 4.303  # 97.5 % quantile of Student's t with two degrees of freedom: the folds are three samples
_PUBLIC = Key(b"the classes of a measure are no secret")


def synthetic_rows_auc(
    known: Host, others: Host, added: Host, *, names: Sequence[str], quasi: Host | None = None
) -> Measured:
    """Class-balanced area under the curve of an attacker who tells added rows from records of the same class.

    0.5: not at all; 1: always.  Only classes with both are looked at.  In each of them records have half of the weight
    and added rows the other half, so that what all rows of a class share says nothing; the attacker (boosted trees)
    learns on some classes and is judged on others.  Besides the values it sees how often each occurs in the release,
    and in its class: copies of rare values are a trace of how rows were made.

    Parameters
    ----------
    known  : (m, q) the quasi-identifiers, equal for equal values; rows that are equal here are a class
    others : (m, c) the other columns: numbers, or codes of levels; NaN is a null
    added  : (m,) whether a row stands for no record
    names  : of the other columns
    quasi  : (m, q) the quasi-identifiers as numbers for the attacker; None: `known`
    """
    labels = equal_rows(known)
    padded = _padded(labels, added)
    if not padded.any():
        return Measured(0.5, {"classes": 0}, "no class holds both records and added rows: there is nothing to tell")
    rows = _some_classes(labels, padded)
    shares = _one_value(labels, others, added & padded[labels], names)
    details: dict[str, Figure] = {
        "classes": int(padded.sum()),
        "rows_looked_at": len(rows),
        "smallest_diversity": _smallest_diversity(labels, others, padded, names),
        "one_value_share": dict(shares),
    }
    beside = (Beside("indistinguishable", "not at all", 0.5),)
    if not others.shape[1]:
        return Measured(0.5, details, "there are no columns besides the quasi-identifiers", beside=beside)
    features = _features(known if quasi is None else quasi, others, labels)[rows]
    scores, folds = _scores(features, labels[rows], added[rows])
    weights = _balanced(labels[rows], added[rows])
    value = _auc(scores, added[rows], weights)
    by_fold = [_auc(scores[folds == f], added[rows][folds == f], weights[folds == f]) for f in np.unique(folds)]
    details["by_fold"] = [float(one) for one in by_fold]
    wide = _T * float(np.std(by_fold, ddof=1)) / FOLDS**0.5 if len(by_fold) == FOLDS else 0.5
    interval = ConfidenceInterval(max(value - wide, 0.0), min(value + wide, 1.0))
    return Measured(value, details, parts=(By("column", shares),), interval=interval, beside=beside)


def _padded(labels: Host, added: Host) -> Host:
    """(classes,) whether a class holds records and added rows."""
    count = int(labels.max(initial=-1)) + 1
    made = np.bincount(labels[added], minlength=count)
    return np.asarray((made > 0) & (np.bincount(labels, minlength=count) > made))


def _some_classes(labels: Host, padded: Host) -> Host:
    """Rows of padded classes, of a random sample of classes where there are too many."""
    sizes = np.bincount(labels, minlength=len(padded)) * padded
    lots = _PUBLIC.draws(np.arange(len(padded)), "classes").uniform()[:, 0]
    chosen = padded & (lots < ROWS / max(int(sizes.sum()), 1))
    return np.flatnonzero((chosen if chosen.any() else padded)[labels])


def _features(quasi: Host, others: Host, labels: Host) -> Host:
    """What the attacker sees: values, how often each occurs in the release, and in its class."""
    columns = [quasi, others]
    for column in others.T:
        value = equal_rows(column[:, None])
        pair = equal_rows(np.stack([labels, value], axis=1))
        columns.append(np.log(np.bincount(value)[value])[:, None])
        columns.append((np.bincount(pair)[pair] / np.bincount(labels)[labels])[:, None])
    return np.hstack(columns).astype(np.float32)


def _scores(X: Host, labels: Host, added: Host) -> tuple[Host, Host]:
    """(n,) how much each row looks like an added one, by trees that have not seen its class; and its fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    lots = _PUBLIC.draws(labels, "folds").uniform()[:, 0]
    folds = (lots * FOLDS).astype(np.int64)
    weights, scores = _balanced(labels, added), np.full(len(X), 0.5)
    for fold in range(FOLDS):
        rest, asked = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not len(asked) or added[rest].all() or not added[rest].any():
            continue
        model = HistGradientBoostingClassifier(max_iter=60, min_samples_leaf=40, early_stopping=False, random_state=0)
        with one_blas_thread(), one_openmp_thread():
            model.fit(X[rest], added[rest], sample_weight=weights[rest])
            scores[asked] = model.predict_proba(X[asked])[:, 1]
    return scores, folds


def _balanced(labels: Host, added: Host) -> Host:
    """(n,) weights: ½ for the records and ½ for the added rows of each class."""
    index = labels * 2 + added
    counts = np.bincount(index)
    return np.asarray(0.5 / counts[index] * len(labels) / max(len(np.unique(labels)), 1))


def _auc(scores: Host, added: Host, weights: Host) -> float:
    """Weighted area under the curve; ½ where there is one kind only."""
    from sklearn.metrics import roc_auc_score

    if added.all() or not added.any():
        return 0.5
    return float(roc_auc_score(added, scores, sample_weight=weights))


def _one_value(labels: Host, others: Host, made: Host, names: Sequence[str]) -> dict[str, float | None]:
    """Share of the padded classes with two added rows or more in which all of them have one value, by column."""
    rows = np.flatnonzero(made)
    found: dict[str, float | None] = {}
    _, place, count = np.unique(labels[rows], return_inverse=True, return_counts=True)
    several = count >= 2
    for at, name in enumerate(names):
        value = equal_rows(others[rows, at][:, None])
        pairs = np.unique(np.stack([place.reshape(-1), value]), axis=1)
        different = np.bincount(pairs[0], minlength=len(count))
        found[name] = float((different[several] == 1).mean()) if several.any() else None
    return found


def _smallest_diversity(labels: Host, others: Host, padded: Host, names: Sequence[str]) -> dict[str, Figure]:
    """Fewest different values in a padded class, added rows counted, by column."""
    rows = np.flatnonzero(padded[labels])
    found: dict[str, Figure] = {}
    for at, name in enumerate(names):
        value = equal_rows(others[rows, at][:, None])
        pairs = np.unique(np.stack([labels[rows], value]), axis=1)
        found[name] = int(np.bincount(pairs[0], minlength=len(padded))[padded].min())
    return found


def _synthetic_rows_auc(c: Comparison) -> Measured:
    """Of every released column, whatever its role."""
    classes, schema = np.asarray(c.classes), c.schema
    quasi = [name for name in c.points.names if name in schema.quasi]
    kinds = {column.name: column.kind for column in schema.columns}  # a release may have columns of its own
    others = [name for name in c.points.names if name not in schema.quasi and kinds.get(name) is not None]

    def numbers(names: list[str]) -> Host:
        found = level_codes([c.points], names)[0].astype(np.float64)
        found[found < 0] = np.nan
        for at, name in enumerate(names):
            if schema[name].kind in ("numeric", "date") and family(c.points.arrow(name).type) in ("number", "time"):
                found[:, at] = floats(c.points.arrow(name))
        return found

    return synthetic_rows_auc(classes, numbers(others), c.link < 0, names=others, quasi=numbers(quasi))


SYNTHETIC_ROWS_AUC = Measure(
    name="synthetic_rows_auc", label="can added rows be told from real ones?",
    sentence="Shown a real record and an added row of the same group, a trained attacker says which is real this often:"
    " half of the time is guessing.",
    summary="how well added rows are told from records of their class (0.5: not)",
    family="risk", range=SHARE, usual="0.5 is guessing; 1 is certain",
    unit="record", applies=PAIRED_QUASI, function=synthetic_rows_auc, compute=_synthetic_rows_auc,
    arrays="classes", weights=RISK_OF_RECORDS, nulls="a null is seen as missing by the attacker's trees",
    scaling="whole",
    host="gradient boosting of scikit-learn, on at most 100 000 rows; cuML has none",
    source="Fried and Vamvourellis",
)  # fmt: skip
