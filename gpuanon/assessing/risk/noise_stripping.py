"""The noise-stripping attack: most of independent noise lies off the leading components of a release.

Additive noise spreads over all directions, while the data keep to a few.  Projecting the release on its own leading
components drops noise and keeps data [1]; matching the projection reidentifies more records than matching the release.

References
----------
.. [1] H. Kargupta, S. Datta, Q. Wang, K. Sivakumar (2003), On the privacy preserving properties of random data
   perturbation techniques, ICDM '03.  T. A. Lasko (2007), PhD thesis, MIT, section 2.3.1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.arrays.ranges import row_ranges
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_MARKED, PAIRED_QUASI, RISK_OF_RECORDS, SHARE, Measure
from gpuanon.assessing.risk.match_auc import match, right_matches
from gpuanon.assessing.risk.prediction import Prediction, standardised
from gpuanon.assessing.risk.reidentification import place_in
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


STRIPPED_ROWS = 40_000
"""As `gpuanon.assessing.risk.prediction.EXACT_ROWS`; fewer, because the attack is tried several times."""

_PIECE = 1 << 14  # rows that are projected at a time


def principal_axes(release: Array) -> tuple[Array, Array]:
    """(d,) mean of the release (m, d), and (d, d) its principal components, ascending by variance."""
    mean = release.mean(axis=0)
    centred = release - mean
    return mean, namespace(release).linalg.eigh(centred.T @ centred)[1]


def _tried(d: int, components: int | None) -> list[int]:
    """Numbers of leading components, of d, that the attack is tried with."""
    if components is None:
        return sorted({max(1, round(d * share)) for share in (0.1, 0.25, 0.5, 0.75, 0.9)})
    if not 1 <= components <= d:
        raise ParameterError(f"components: from 1 to the number of columns ({d}) is allowed, got {components}")
    return [components]


def noise_stripping(
    original: Array,
    release: Array,
    link: Array,
    *,
    components: int | None = None,
    standardise: bool = True,
    prediction: Prediction | None = None,
    limit: int = STRIPPED_ROWS,
) -> Measured:
    """Share of records matched after the noise is stripped; beside it the share without, and the error removed.

    The attacker projects the known originals on the same components and matches there: in the coordinates along the
    components, where distances are those of the projections.

    Parameters
    ----------
    original, release : encoded matrices, (n, d) and (m, d)
    link       : (m,) original row of each released row, −1 for added rows
    components : leading components kept; None tries several and reports the best for the attacker, who does not
                 know which it is: an upper bound
    prediction : of the standardised tables, computed before; saves the search without stripping
    limit      : see `gpuanon.assessing.risk.prediction.predict`
    """
    if standardise:
        original, release = standardised(original, release)
    d = original.shape[1]
    tried = _tried(d, components)
    rows = _rows(len(original), len(release), limit)
    baseline = _mean(_unstripped(original, release, link, like(rows, original), prediction))
    mean, vectors = principal_axes(release)
    known = _along(original[like(rows, original)], mean, vectors, 0)
    place = place_in(like(rows, original), like(to_host(link), original))
    everyone = namespace(original).arange(len(rows), dtype=np.int64)
    error_with = _errors(original, release, link, mean, vectors)
    rates: dict[int, float] = {}
    errors: dict[int, float] = {}
    for count in tried:
        shown = _along(release, mean, vectors, d - count)
        rates[count] = _mean(right_matches(known[:, d - count :], shown, place, everyone))
        errors[count] = float(error_with[d - count])
    best = max(rates, key=lambda count: rates[count])
    before = float(error_with[0])
    details: dict[str, Figure] = {
        "components": best,
        "error_before": before,
        "error_after": min(errors.values()),
        "error_by_kept": {f"{count} components": error for count, error in errors.items()},
    }
    looked, note = len(rows), None
    details["records"] = looked
    if looked < len(original):
        error = 1.96 * float(np.sqrt(rates[best] * (1 - rates[best]) / looked))
        note = f"for a random sample of {looked} of {len(original)} originals: right to ±{error:.4f} (95 %)"
    part = By("kept", {f"{count} components": rate for count, rate in rates.items()})
    beside = Beside("baseline", "without stripping", baseline)
    return Measured(rates[best], details, note, parts=(part,), beside=(beside,))


def _rows(n: int, m: int, limit: int) -> Host:
    """The originals that are tried: all, or as many as `limit` allows."""
    return sample_rows(n, n if max(n, m) <= limit else max(1, limit**2 // m), "prediction")


def _unstripped(original: Array, release: Array, link: Array, rows: Array, prediction: Prediction | None) -> Array:
    """Right matches of `rows` without stripping; samples of fewer rows are part of samples of more."""
    if prediction is None or len(prediction.rows) < len(rows):
        return right_matches(original, release, link, rows)
    right = match(original, release, link, prediction=prediction).right
    return right[namespace(rows).searchsorted(prediction.rows, rows)]


def _along(rows: Array, mean: Array, vectors: Array, first: int) -> Array:
    """(n, d − first) coordinates of rows along the components from `first` on, some rows at a time."""
    out = namespace(rows).empty((len(rows), rows.shape[1] - first), dtype=np.float64)
    for some in row_ranges(rows, _PIECE):
        out[some] = ((rows[some] - mean) @ vectors)[:, first:]
    return out


def _errors(original: Array, release: Array, link: Array, mean: Array, vectors: Array) -> Host:
    """(d + 1,) root mean squared difference between released cells and their originals, all components counted.

    Of the release along the components the first 0, 1, … d are taken as 0.
    """
    xp, d = namespace(original), release.shape[1]
    released = xp.flatnonzero((link >= 0) & (link < len(original)))
    alone, apart = xp.zeros(d), xp.zeros(d)
    for some in row_ranges(released, _PIECE):
        known = (original[link[released[some]]] - mean) @ vectors
        alone += (known**2).sum(axis=0)
        shown = (release[released[some]] - mean) @ vectors
        apart += ((known - shown) ** 2).sum(axis=0)
    dropped, kept = np.cumsum(to_host(alone)), np.cumsum(to_host(apart)[::-1])[::-1]
    squares = np.append(0.0, dropped) + np.append(kept, 0.0)
    return np.asarray(np.sqrt(squares / max(1, len(released) * d)))


def _mean(right: Array) -> float:
    """Share of right matches among the records that were released."""
    right = to_host(right)
    if np.isnan(right).all():
        raise InputError("noise_stripping: no released row has an original")
    return float(np.nanmean(right))


def _noise_stripping(c: Comparison) -> Measured:
    return noise_stripping(*c.standardised, c.link, prediction=c.prediction_or_none)


NOISE_STRIPPING = Measure(
    name="noise_stripping", label="people found after noise is removed",
    sentence="An attacker who first removes what looks like noise from the release matches this share of people with"
    " their own record.",
    summary="share of records matched after noise is stripped by principal components",
    family="risk", range=SHARE,
    usual="no more than `reidentification`",
    unit="record",
    records="it links stripped records to records",
    applies=PAIRED_QUASI, function=noise_stripping,
    compute=_noise_stripping, arrays="points", weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="queries",
    source="Lasko 2007", long=0.5,
)  # fmt: skip
