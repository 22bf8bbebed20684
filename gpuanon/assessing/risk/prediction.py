"""Prediction distance, ambiguity and uncertainty: how well a release predicts the records it came from.

For an original record a, with the released records ordered by ``s(a, b) = sqrt(mean_j (a_j − b_j)²)`` (eq. 3.1 of [1]):

distance     s to the nearest released record: how close the best guess comes
ambiguity    s to the nearest / s to the k-th nearest: 0 when the guess is exact, 1 when k guesses are equally good
uncertainty  mean over columns of the variance among the k nearest: what choosing wrongly among them costs

The three are distributions over the original records; small values mean risk.  What is small enough is a question
for a reference sample (`gpuanon.assessing.risk.reference_standard`).

References
----------
.. [1] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 3.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.assessing.columns import Names, column_names, places
from gpuanon.assessing.figures import By, ConfidenceInterval, Distribution, Figure, Measured
from gpuanon.assessing.measure import FROM_0, NOT_NEGATIVE, NULL_IS_MARKED, QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import k_nearest_with_ties
from gpuanon.numerics.sampling import sample_rows, share_error

EXACT_ROWS = 100_000
"""Up to this many rows every original is compared with every released record; beyond, a sample of the originals is."""

CANDIDATES = 5
"""k: released records that ambiguity and uncertainty look at, unless said otherwise."""

_ROUNDING = 1e-9


@dataclass(frozen=True, eq=False)
class Prediction:
    """The three distributions over original records (or over a sample of them).

    rows        : (s,) original rows looked at
    near        : (s, k) squared Euclidean distances to the nearest released records, ascending
    ties        : (s,) released records at exactly the smallest distance
    distance    : (s,) s to it
    ambiguity   : (s,) nearest over k-th nearest
    uncertainty : (s,) mean column variance (divisor k − 1) of the k nearest
    nearest     : (s,) the nearest released row; the lowest on a tie
    copies      : records with at least k exact copies in the release, whose ambiguity 0/0 is set to 1
    originals   : original rows of interest, of which `rows` are all or a sample
    variances   : (s, d) variance of each column among the k nearest
    """

    rows: Array
    near: Array
    ties: Array
    distance: Array
    ambiguity: Array
    uncertainty: Array
    nearest: Array
    copies: int
    originals: int
    variances: Array | None = None

    @property
    def squared(self) -> Array:
        """(s,) squared Euclidean distance to the nearest released record."""
        return self.near[:, 0]

    @property
    def share_error(self) -> float:
        """95 % bound on the error of the three distribution functions from sampling; 0 when all records were used."""
        return share_error(len(self.rows), self.originals)


def predict(
    original: Array, release: Array, k: int = CANDIDATES, *, rows: Array | None = None, limit: int = EXACT_ROWS
) -> Prediction:
    """Compare original records (n, d) with all released ones (m, d), both encoded and standardised alike.

    Parameters
    ----------
    original, release : matrices with the same columns; see `standardised`
    k     : candidates that ambiguity and uncertainty look at, 2 or more
    rows  : the original rows of interest; None for all
    limit : tables of up to this many rows are compared in full; beyond, a repeatable random sample of
            ``limit² / m`` of the original rows is, each with the whole release
    """
    if k < 2:
        raise ParameterError(f"k: 2 or more are allowed, got {k}")
    xp = namespace(original)
    rows = xp.arange(len(original), dtype=np.int64) if rows is None else rows
    n, m = len(rows), len(release)
    if n == 0:
        raise ParameterError("original: at least one record is needed")
    if m < k:
        raise ParameterError(f"release: at least k = {k} records are needed, got {m}")
    if max(n, m) > limit:
        rows = rows[like(sample_rows(n, max(1, limit**2 // m), "prediction"), original)]
    squared, index, ties = k_nearest_with_ties(original[rows], release, k)
    s = xp.sqrt(squared / original.shape[1])
    all_exact = s[:, -1] == 0
    variances = _variances(release, index)
    ambiguity = xp.where(all_exact, 1.0, s[:, 0] / xp.where(all_exact, 1.0, s[:, -1]))
    return Prediction(
        rows=rows,
        near=squared,
        ties=ties,
        distance=s[:, 0],
        ambiguity=ambiguity,
        uncertainty=variances.mean(axis=1),
        nearest=index[:, 0],
        copies=int(all_exact.sum()),
        originals=n,
        variances=variances,
    )


def standardised(original: Array, *others: Array) -> list[Array]:
    """`original` and `others`, each column minus the original's mean, over the original's standard deviation.

    A column that is constant in the original is centred only.  Tables that are standardised already, but for rounding,
    are returned as they are, so that what was searched in them need not be searched again.
    """
    scale = scale_of(original)
    return [original, *others] if scale is None else [scaled(table, scale) for table in (original, *others)]


def scale_of(original: Array) -> tuple[Array, Array] | None:
    """(d,) mean and deviation of each column, 1 where it is constant; None for a table that is standardised already."""
    xp = namespace(original)
    mean, deviation = original.mean(axis=0), original.std(axis=0)
    deviation = xp.where(original.max(axis=0) > original.min(axis=0), deviation, 1.0)
    if bool((xp.abs(mean) < _ROUNDING).all() and (xp.abs(deviation - 1) < _ROUNDING).all()):
        return None
    return mean, deviation


def scaled(table: Array, scale: tuple[Array, Array]) -> Array:
    """`table` minus a mean, over a deviation, by column."""
    out = table - scale[0]
    out /= scale[1]
    return out


def prediction_distance(
    original: Array,
    release: Array,
    *,
    k: int = CANDIDATES,
    standardise: bool = True,
    prediction: Prediction | None = None,
) -> Measured:
    """Distance of each original record from the nearest released one, in deviations; the value is the median."""
    return _measured("distance", original, release, k, standardise, prediction)


def prediction_ambiguity(
    original: Array,
    release: Array,
    *,
    k: int = CANDIDATES,
    standardise: bool = True,
    prediction: Prediction | None = None,
) -> Measured:
    """Nearest over k-th nearest distance of each original record, 0 clear match to 1 tie; the value is the median."""
    return _measured("ambiguity", original, release, k, standardise, prediction)


def prediction_uncertainty(
    original: Array,
    release: Array,
    *,
    k: int = CANDIDATES,
    standardise: bool = True,
    prediction: Prediction | None = None,
    names: Names = None,
    weights: Mapping[str, float] | None = None,
) -> Measured:
    """Mean column variance of the k released records nearest to each original; the value is the median.

    names   : the table column of each column; an encoded category has several
    weights : importance of table columns, in their weighted mean instead of the plain mean over the encoded columns;
              0 for those that are not named

    Beside the value its median by table column: a column that the neighbours agree on is disclosed, whatever the mean.
    """
    if prediction is None:
        if standardise:
            original, release = standardised(original, release)
        prediction = predict(original, release, k)
    if prediction.variances is None:
        raise ParameterError("prediction: the variances by column are needed")
    columns = column_names(names, prediction.variances.shape[1])
    by_column = {name: prediction.variances[:, at].mean(axis=1) for name, at in places(columns).items()}
    if weights is not None:
        prediction = replace(prediction, uncertainty=_weighted(by_column, weights))
    found = _measured("uncertainty", original, release, k, standardise, prediction)
    medians = {name: float(np.median(to_host(values))) for name, values in by_column.items()}
    details: dict[str, Figure] = dict(found.details)
    if weights is not None:
        details["weights"] = dict(weights)
    return replace(found, details=details, parts=(*found.parts, By("column", medians, "smallest")))


def _weighted(by_column: Mapping[str, Array], weights: Mapping[str, float]) -> Array:
    """Weighted mean over the columns."""
    unknown = [name for name in weights if name not in by_column]
    if unknown:
        raise ParameterError(f"weights: there is no column {', '.join(map(repr, unknown))}")
    total = float(sum(weights.values()))
    if min(weights.values(), default=0.0) < 0 or not total > 0:
        raise ParameterError("weights: numbers of 0 or more are needed, one of them above 0")
    return sum(by_column[name] * (weight / total) for name, weight in weights.items())


def _measured(
    name: str, original: Array, release: Array, k: int, standardise: bool, prediction: Prediction | None
) -> Measured:
    """One of the three distributions as a figure; a `prediction` that was computed before saves the search."""
    if prediction is None:
        if standardise:
            original, release = standardised(original, release)
        prediction = predict(original, release, k)
    values = to_host(getattr(prediction, name))
    part = Distribution.over("original records", values)
    details: dict[str, Figure] = {"k": k, "records": len(prediction.rows)}
    details["exact_matches"] = int((prediction.distance == 0).sum())
    if name == "ambiguity":
        details["tied_copies"] = prediction.copies
    note = _note(name, prediction, details)
    return Measured(part.quantiles["median"], details, note, parts=(part,), interval=_interval(values, prediction))


def _interval(values: Host, prediction: Prediction) -> ConfidenceInterval | None:
    """Of the median of all records, where a sample was taken: quantiles as far from 1/2 as shares may be wrong."""
    error = prediction.share_error
    if not error:
        return None
    low, high = np.quantile(values, [max(0.0, 0.5 - error), min(1.0, 0.5 + error)])
    return ConfidenceInterval(float(low), float(high))


def _note(name: str, prediction: Prediction, details: dict[str, Figure]) -> str | None:
    """What must be said: a sample was taken, 0/0 occurred."""
    notes = []
    if prediction.share_error:
        details["share_error"] = prediction.share_error
        notes.append(
            f"a random sample of {len(prediction.rows)} of {prediction.originals} original records was compared with "
            f"the whole release: each share of records is right to ±{prediction.share_error:.4f} (95 %)"
        )
    if name == "ambiguity" and prediction.copies:
        notes.append(f"{prediction.copies} records have k exact copies in the release: their ambiguity 0/0 counts as 1")
    return "; ".join(notes) or None


def _variances(release: Array, index: Array) -> Array:
    """(s, d) variance (divisor k − 1) of each column over the rows `index` (s, k), in slices that fit a cache."""
    xp = namespace(release)
    out = xp.empty((len(index), release.shape[1]), dtype=np.float64)
    step = max(1, (1 << 20) // max(1, index.shape[1] * release.shape[1]))
    for at in range(0, len(index), step):
        candidates = release[index[at : at + step]].astype(np.float64)
        candidates -= candidates[:, :1].copy()  # equal rows have variance 0, not what rounding leaves
        out[at : at + step] = candidates.var(axis=1, ddof=1)
    return out


# `c` below is a `Comparison`, which imports this file.


def _prediction_distance(c: Any) -> Measured:
    return prediction_distance(*c.standardised, prediction=c.prediction)


def _prediction_ambiguity(c: Any, k: int = CANDIDATES) -> Measured:
    return prediction_ambiguity(*c.standardised, k=k, prediction=_shared(c, k))


def _prediction_uncertainty(c: Any, weights: Mapping[str, float] | None = None, k: int = CANDIDATES) -> Measured:
    before, after = c.standardised
    return prediction_uncertainty(before, after, k=k, prediction=_shared(c, k), names=c.quasi_features, weights=weights)


def _shared(c: Any, k: int) -> Prediction | None:
    """The search that other measures use, where it has as many candidates."""
    found: Prediction | None = c.prediction if k == CANDIDATES else None
    return found


_K = Annotated[int, Field(strict=True, ge=2, le=1000, description="nearest released records that are looked at")]


_PREDICTION: Mapping[str, Any] = {
    "family": "risk",
    "better": "higher",
    "unit": "record",
    "applies": QUASI,
    "arrays": "points",
    "weights": RISK_OF_RECORDS,
    "nulls": NULL_IS_MARKED,
    "scaling": "queries",
    "source": "Lasko 2007",
}
PREDICTION_DISTANCE = Measure(
    name="prediction_distance", label="distance to the nearest released record",
    sentence="Half of the people are at least this far, in standard deviations, from the released record most like"
    " them.",
    summary="median distance from an original to the nearest released record",
    usual="no less than a sample of other people gives",
    range=FROM_0, function=prediction_distance, compute=_prediction_distance, **_PREDICTION,
)  # fmt: skip
PREDICTION_AMBIGUITY = Measure(
    name="prediction_ambiguity", label="how hard the nearest record is to tell from the next",
    sentence="For a typical person the nearest released record is hardly nearer than others (1), or clearly the nearest"
    " (0).",
    summary="median of nearest over k-th nearest distance",
    records="the records near a person may be those of one other",
    usual="near 1: the nearest record is no better than the next",
    range=SHARE, function=prediction_ambiguity, compute=_prediction_ambiguity, options={"k": _K}, **_PREDICTION,
)  # fmt: skip
PREDICTION_UNCERTAINTY = Measure(
    name="prediction_uncertainty", label="spread of the records near a person",
    sentence="The released records most like a typical person differ this much among themselves: the more, the less"
    " they tell of that person.",
    summary="median variance among the k nearest released records",
    records="the records near a person may be those of one other",
    usual="0: the nearest records agree, and tell the values",
    range=FROM_0, function=prediction_uncertainty, compute=_prediction_uncertainty,
    options={"weights": dict[str, NOT_NEGATIVE], "k": _K}, **_PREDICTION,
)  # fmt: skip
