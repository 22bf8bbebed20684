"""The noise-stripping attack: most of independent noise lies off the leading components of a release.

Additive noise spreads over all directions, while the data keep to a few.  Projecting the release on its own leading
components drops noise and keeps data [1]; matching the projection reidentifies more records than matching the release.

References
----------
.. [1] H. Kargupta, S. Datta, Q. Wang, K. Sivakumar (2003), On the privacy preserving properties of random data
   perturbation techniques, ICDM '03.  T. A. Lasko (2007), PhD thesis, MIT, section 2.3.1.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.assessing.figures import Beside, By, Figure, Measured
from gpuanon.assessing.risk.match_auc import match
from gpuanon.assessing.risk.prediction import standardised
from gpuanon.errors import InputError, ParameterError

STRIPPED_ROWS = 40_000
"""As `gpuanon.assessing.risk.prediction.EXACT_ROWS`; fewer, because the attack is tried several times."""


def strip_noise(release: Array, components: int, rows: Array | None = None) -> Array:
    """Project `rows` (the release itself by default) on the leading principal components of `release` (m, d)."""
    d = release.shape[1]
    if not 1 <= components <= d:
        raise ParameterError(f"components: from 1 to the number of columns ({d}) is allowed, got {components}")
    xp = namespace(release)
    mean = release.mean(axis=0)
    centred = release - mean
    _, vectors = xp.linalg.eigh(centred.T @ centred)  # ascending
    leading = vectors[:, d - components :]
    return mean + ((release if rows is None else rows) - mean) @ leading @ leading.T


def noise_stripping(
    original: Array,
    release: Array,
    link: Array,
    *,
    components: int | None = None,
    standardise: bool = True,
    limit: int = STRIPPED_ROWS,
) -> Measured:
    """Share of records matched after the noise is stripped; beside it the share without, and the error removed.

    The attacker projects the known originals on the same components and matches there.

    Parameters
    ----------
    original, release : encoded matrices, (n, d) and (m, d)
    link       : (m,) original row of each released row, −1 for added rows
    components : leading components kept; None tries several and reports the best for the attacker, who does not
                 know which it is: an upper bound
    limit      : see `gpuanon.assessing.risk.prediction.predict`
    """
    if standardise:
        original, release = standardised(original, release)
    d = original.shape[1]
    tried = (
        sorted({max(1, round(d * share)) for share in (0.1, 0.25, 0.5, 0.75, 0.9)})
        if components is None
        else [components]
    )
    plain = match(original, release, link, limit=limit)
    baseline = _mean(plain.right)
    rates: dict[int, float] = {}
    errors: dict[int, float] = {}
    for count in tried:
        stripped = strip_noise(release, count)
        known = strip_noise(release, count, original)
        rates[count] = _mean(match(known, stripped, link, limit=limit).right)
        errors[count] = _error(original, stripped, link)
    best = max(rates, key=lambda count: rates[count])
    before = _error(original, release, link)
    details: dict[str, Figure] = {
        "components": best,
        "error_before": before,
        "error_after": min(errors.values()),
        "error_by_kept": {f"{count} components": error for count, error in errors.items()},
    }
    looked, note = len(plain.prediction.rows), None
    details["records"] = looked
    if looked < len(original):
        error = 1.96 * float(np.sqrt(rates[best] * (1 - rates[best]) / looked))
        note = f"for a random sample of {looked} of {len(original)} originals: right to ±{error:.4f} (95 %)"
    part = By("kept", {f"{count} components": rate for count, rate in rates.items()})
    beside = Beside("baseline", "without stripping", baseline)
    return Measured(rates[best], details, note, parts=(part,), beside=(beside,))


def _error(original: Array, release: Array, link: Array) -> float:
    """Root mean squared difference between released cells and their originals."""
    released = namespace(link).flatnonzero((link >= 0) & (link < len(original)))
    difference = original[link[released]] - release[released]
    return float(np.sqrt(float((difference * difference).mean())))


def _mean(right: Array) -> float:
    """Share of right matches among the records that were released."""
    right = to_host(right)
    if np.isnan(right).all():
        raise InputError("noise_stripping: no released row has an original")
    return float(np.nanmean(right))
