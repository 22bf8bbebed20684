"""Confidence intervals and errors of estimators: would an analyst of the release conclude the same?

References
----------
.. [1] A. F. Karr, C. N. Kohnen, A. Oganian, J. P. Reiter, A. P. Sanil (2006), A framework for evaluating the utility of
   data altered to protect confidentiality, Am. Stat. 60(3).
.. [2] R. Kulik (2025), MAT 4376 Foundations of Data Privacy, lectures 7–9.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.ranges import ranges
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import Names, column_names, constant_note, fold
from gpuanon.assessing.figures import By, Figure, Measured, join
from gpuanon.assessing.measure import AGAINST_CHANCE, FROM_0, LEVEL, NULL_IS_MARKED, Measure
from gpuanon.assessing.sampling_errors import PIECES, pieces_of, with_error
from gpuanon.assessing.utility.differences import varying
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


_PUBLIC = Key(b"the resampling of a measure is no secret")
_BOOTSTRAP_ROWS = 20_000
_RESAMPLES = 16  # that are computed at once: the rows are read once for all of them
_DEVIATIONS = 8  # of the rows drawn below the middle of a column: a resample's median is hardly ever further from it
ESTIMATORS: dict[str, Callable[..., Any]] = {"mean": np.mean, "median": np.median, "deviation": np.std}


def confidence_overlap(original: Array, release: Array, *, level: float = 0.95, names: Names = None) -> Measured:
    """Overlap of the confidence intervals of means from original and release: 1 equal, 0 or less apart ([1]).

    The value is the mean over features; by column the smallest of its features.  Beside it the shares of features
    whose released mean, and whose released share of values up to the original's median, fall into the original's
    interval ([2]).
    """
    if not 0 < level < 1:
        raise ParameterError(f"level: a number between 0 and 1 is allowed, got {level}")
    if original.shape[1] != release.shape[1] or min(len(original), len(release)) < 2:
        raise ParameterError("tables: the same columns and at least two rows each are needed")
    varies = varying(original)
    if not varies.any():
        raise InputError("confidence_overlap: not defined, every column of the original is constant")
    from scipy.special import ndtri

    z = float(ndtri((1 + level) / 2))
    before, after = _interval(original, z)[:, varies], _interval(release, z)[:, varies]
    common = np.minimum(before[1], after[1]) - np.maximum(before[0], after[0])
    width_before, width_after = before[1] - before[0], after[1] - after[0]
    # A released column without spread is a point: its own half of the overlap is whether it lies inside.
    inside_point = np.where((after[0] >= before[0]) & (after[0] <= before[1]), 1.0, 0.0)
    own = np.where(width_after > 0, common / np.where(width_after > 0, width_after, 1.0), inside_point)
    overlap = (common / width_before + own) / 2
    centre = after.mean(axis=0)
    details: dict[str, Figure] = {
        "min": float(overlap.min()),
        "mean_inside": float(((centre >= before[0]) & (centre <= before[1])).mean()),
        "median_share_inside": _shares_inside(_chosen(to_host(original), varies), _chosen(to_host(release), varies), z),
    }
    labels = column_names(names, original.shape[1])
    note = constant_note(labels, varies, varying(release))
    part = By("column", fold(_spread(overlap, varies), labels, np.min), "smallest")
    return Measured(float(overlap.mean()), details, note, parts=(part,))


def estimator_mse(original: Array, release: Array, *, rounds: int = 200, names: Names = None) -> Measured:
    """Mean squared error (variance + bias²) of estimates from the release over that from the original, by bootstrap.

    For each column the mean, the median and the standard deviation are estimated; the error is measured from the
    original's estimate.  The value is the median ratio over features and estimators: 1 when nothing is lost.  By
    column: the largest over its features and the estimators.
    """
    if rounds < 2:
        raise ParameterError(f"rounds: 2 or more are allowed, got {rounds}")
    before, after = (to_host(table).astype(float, copy=False) for table in (original, release))
    varies, varies_after = varying(before), varying(after)
    if not varies.any():
        raise InputError("estimator_mse: not defined, every column of the original is constant")
    before, after = _chosen(before, varies), _chosen(after, varies)
    bias = np.stack([estimate(after, axis=0) - estimate(before, axis=0) for estimate in ESTIMATORS.values()])
    sample, shown = _sampled(before), _sampled(after)
    every = _ratios(_variances(sample, rounds, len(before)), _variances(shown, rounds, len(after)), bias)
    if np.isnan(every).all():
        raise InputError("estimator_mse: not defined, no estimate from the original has an error")
    details: dict[str, Figure] = {"max": float(np.nanmax(every)), "rounds": rounds}
    estimators = {
        name: None if np.isnan(found).all() else float(np.nanmedian(found))
        for name, found in zip(ESTIMATORS, every, strict=True)
    }
    labels = column_names(names, original.shape[1])
    largest = np.fmax.reduce(every, axis=0)
    parts = By("column", fold(_spread(largest, varies), labels)), By("estimator", estimators)
    note = constant_note(labels, varies, varies_after)
    if max(len(before), len(after)) <= _BOOTSTRAP_ROWS:
        return Measured(float(np.nanmedian(every)), details, note, parts=parts)
    note = join(note, f"variances were resampled from {_BOOTSTRAP_ROWS} rows and scaled to the number of rows")
    fewer = max(2, rounds // PIECES)  # of the resamples as of the rows: both have a part in the error
    refits = [
        float(np.nanmedian(_ratios(_variances(X, fewer, len(before)), _variances(Y, fewer, len(after)), bias)))
        for X, Y in zip(_pieces(sample), _pieces(shown), strict=True)
    ]
    return with_error(Measured(float(np.nanmedian(every)), details, note, parts=parts), refits)


def _sampled(X: Host) -> Host:
    """The rows that are resampled."""
    return np.asarray(X[sample_rows(len(X), _BOOTSTRAP_ROWS, "bootstrap")])


def _pieces(X: Host) -> list[Host]:
    """Disjoint pieces of the rows."""
    return [X[rows] for rows in pieces_of(len(X))]


def _ratios(before: Host, after: Host, bias: Host) -> Host:
    """(estimators, d) error from the release over that from the original; NaN where the original has none."""
    return np.asarray((after + bias**2) / np.where(before > 0, before, np.nan))


def _chosen(X: Host, columns: Host) -> Host:
    """These columns; the table itself, and no copy, where these are all."""
    return X if columns.all() else X[:, columns]


def _interval(X: Array, z: float) -> Host:
    """(2, d) normal confidence interval of the column means."""
    deviation = np.where(varying(X), to_host(X.std(axis=0, ddof=1)), 0.0)  # rounding gives a constant one a little
    mean, error = to_host(X.mean(axis=0)), deviation / np.sqrt(len(X))
    return np.stack([mean - z * error, mean + z * error])


def _shares_inside(before: Host, after: Host, z: float) -> float:
    """Share of columns whose released share of values up to the original's median lies in the original's interval."""
    middle = np.median(before, axis=0)
    share, released = (before <= middle).mean(axis=0), (after <= middle).mean(axis=0)
    half = z * np.sqrt(share * (1 - share) / len(before))
    return float((np.abs(released - share) <= half).mean())


def _variances(X: Host, rounds: int, rows: int) -> Host:
    """(estimators, d) variance of each estimator over resamples of the rows of `X`, for a table of `rows` rows.

    A resample is how often each row is drawn: sums are products with that, and the median of a column is where the
    counts, in the order of its values, reach one half.
    """
    size = len(X)
    medians = _Medians(X)
    middle = X.mean(axis=0)
    centred = X - middle
    squared = centred * centred
    draws = _PUBLIC.draws(np.arange(size))

    def some(numbers: slice) -> Host:
        streams = (draws.child(str(number)).uniform()[:, 0] for number in range(numbers.start, numbers.stop))
        counts = np.stack([np.bincount((share * size).astype(np.int64), minlength=size) for share in streams])
        weights = counts.astype(np.float64)
        mean, squares = weights @ centred / size, weights @ squared / size
        return np.stack([middle + mean, medians.of(counts), np.sqrt(np.maximum(squares - mean**2, 0.0))], axis=1)

    found = np.concatenate(each(some, ranges(rounds, _RESAMPLES)))
    return np.asarray(found.var(axis=0, ddof=1) * size / rows)


class _Medians:
    """Medians of the columns of `X` (n, d) over resamples of its rows.

    The counts of a resample, in the order of a column's values, reach one half near the middle of the rows.  So they
    are added one by one only there; those of all lower rows are one product.
    """

    def __init__(self, X: Host) -> None:
        size = len(X)
        columns = np.ascontiguousarray(X.T)
        self.order = np.argsort(columns, axis=1, kind="stable")
        self.ordered = np.take_along_axis(columns, self.order, axis=1)
        reach = int(_DEVIATIONS * np.sqrt(size) / 2) + 1
        self.near = slice(max(0, size // 2 - reach), min(size, size // 2 + reach))
        self.lower = np.zeros((size, len(columns)))
        np.put_along_axis(self.lower, self.order[:, : self.near.start].T, 1.0, axis=0)

    def of(self, counts: Host) -> Host:
        """(m, d) medians of m resamples, in which the rows occur `counts` (m, n) times, n in all."""
        below = counts.astype(np.float64) @ self.lower  # exact: whole numbers
        places = np.empty((2, *below.shape), dtype=np.int64)
        halves = (counts.shape[1] - 1) // 2, counts.shape[1] // 2
        for j, order in enumerate(self.order):
            total = below[:, j, None] + np.cumsum(counts[:, order[self.near]], axis=1)
            for half, place in zip(halves, places[:, :, j], strict=True):
                place[:] = self.near.start + (total <= half).sum(axis=1)
                for far in np.flatnonzero((below[:, j] > half) | (total[:, -1] <= half)):
                    place[far] = np.searchsorted(np.cumsum(counts[far, order]), half, side="right")
        low, high = (np.take_along_axis(self.ordered, place.T, axis=1).T for place in places)
        return np.asarray((low + high) / 2)


def _spread(values: Host, present: Host) -> Host:
    """(features,) values at the features that have one, NaN elsewhere."""
    out = np.full(len(present), np.nan)
    out[present] = values
    return out


def _confidence_overlap(c: Comparison, **options: Any) -> Measured:
    """Of every column."""
    before, after = c.encoded
    return confidence_overlap(before, after, names=c.features, **options)


def _estimator_mse(c: Comparison) -> Measured:
    return estimator_mse(*c.encoded, names=c.features)


CONFIDENCE_OVERLAP = Measure(
    name="confidence_overlap", label="do averages stay within their margins of error?",
    sentence="The margins of error of an average from original and release overlap by this share: 1 same, 0 or"
    " less apart.",
    summary="mean overlap of the confidence intervals of a mean",
    family="utility", better="higher", range=(-inf, 1.0), usual="1: the same interval; 0 or less: none in common",
    unit="column", function=confidence_overlap, compute=_confidence_overlap, options=LEVEL, arrays="encoded",
    weights=AGAINST_CHANCE, nulls=NULL_IS_MARKED, scaling="whole",
    host="not written for a device: means, deviations and medians of each column",
    source="Kulik, lecture on utility and information loss", sees="columns",
)  # fmt: skip
ESTIMATOR_MSE = Measure(
    name="estimator_mse", label="error of estimates from the release",
    sentence="Means, medians and spreads estimated from the release are off by this many times the error that they"
    " have from the original.",
    summary="median ratio of an estimator's error from the release to that from the original",
    family="utility", range=FROM_0, usual="1: as good as from the original",
    unit="column", function=estimator_mse, compute=_estimator_mse, arrays="encoded", weights=AGAINST_CHANCE,
    nulls=NULL_IS_MARKED, scaling="whole",
    host="a bootstrap of 20 000 rows at most",
    source="Kulik, lecture on utility and information loss", long=0.7,
)  # fmt: skip
