"""Maximum mean discrepancy of all columns together, by random Fourier features.

References
----------
.. [1] A. Gretton et al. (2012), A Kernel Two-Sample Test, J. Mach. Learn. Res. 13.
.. [2] A. Rahimi and B. Recht (2007), Random Features for Large-Scale Kernel Machines, NIPS.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, to_host
from gpuanon.arrays.rng import Key
from gpuanon.arrays.threads import each
from gpuanon.assessing.columns import require_comparable, sampled_pairs
from gpuanon.assessing.figures import Beside, Figure, Measured
from gpuanon.assessing.measure import NULL_IS_MARKED, PERMUTATIONS, WHOLE, Measure, Weights
from gpuanon.assessing.utility.propensity.pmse import permuted
from gpuanon.errors import InputError, ParameterError
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


_PUBLIC = Key(b"the random features of a measure are no secret")
_ROWS, _PAIRS = 20_000, 2_000
_CHUNK = 1 << 11  # rows whose features are computed at a time
_ROUNDING = 1e-12  # of sums of features, all below 1


def mmd(
    original: Array, release: Array, *, link: Array | None = None, features: int = 256, permutations: int = 99
) -> Measured:
    """Distance of the mean embeddings of two tables under the Gaussian kernel: 0 equal, at most √2.

    Parameters
    ----------
    original, release : (n, d) and (m, d), encoded alike
    link : (m,) original row of each released row: the null then exchanges labels within pairs, as dependent tables
        want it; without it labels are permuted at random, and the comparison is a distance, not a test
    features : random frequencies; the squared value has an error of about 1 / √features of the kernel
    permutations : labelings to compare with; 0 for none

    The bandwidth is the median distance of two original rows.  Of tables of more than 20 000 rows pairs are
    sampled where every released row has an original, else the same row numbers of both; the note then has the error of
    the value.  Cost: O((n + m) · features · (d + permutations)).
    """
    require_comparable(original, release)
    if features < 1 or permutations < 0:
        raise ParameterError("features: 1 or more are allowed; permutations: 0 or more")
    X, Y = to_host(original), to_host(release)
    own = None if link is None else to_host(link)
    note = None
    if max(len(X), len(Y)) > _ROWS and own is not None and (own >= 0).all():
        X, Y, own = sampled_pairs(X, Y, own, _ROWS)
        note = f"on a sample of {len(X)} original rows, each with one of its released rows"
    elif max(len(X), len(Y)) > _ROWS:
        X, Y, own = _sampled(X), _sampled(Y), None
        note = f"on a sample of {len(X)} original and {len(Y)} released rows, labels permuted at random"
    both = _features(np.concatenate([X, Y]), _bandwidth(X), features)
    released = np.repeat([0.0, 1.0], [len(X), len(Y)])
    value = float(_distances(both, released[None, :])[0])
    details: dict[str, Figure] = {"features": features, "rows": len(X), "released_rows": len(Y)}
    if note is not None:
        error = _error(both[: len(X)], both[len(X) :], own is not None)
        details, note = details | {"sampling_error": error}, f"{note}: right to ±{error:.4f} (95 %)"
    if not permutations:
        return Measured(value, details, note)
    null = _distances(both, np.stack(permuted(released, len(X), own, permutations)))
    details |= {
        "permutations": permutations,
        "permuted_share": (1 + int((null >= value - _ROUNDING).sum())) / (1 + permutations),
        "exchanged_within_pairs": own is not None,
    }
    beside = Beside("permuted_mean", "with labels permuted", float(null.mean()))
    return Measured(value, details, note, beside=(beside,))


def _distances(features: Host, labels: Host) -> Host:
    """(r,) distance of the mean features of rows with label 1 and 0, for each row of `labels` (r, n)."""
    sums, counts = labels @ features, labels.sum(axis=1, keepdims=True)
    rest = (features.sum(axis=0) - sums) / (features.shape[0] - counts)
    return np.asarray(np.linalg.norm(sums / counts - rest, axis=1))


def _error(before: Host, after: Host, pairs: bool) -> float:
    """95 % error of the distance that comes from a sample: of the mean difference along its own direction.

    To first order the distance ``‖mean φ(x) − mean φ(y)‖`` moves with the means along v, their difference divided by
    its length: 1.96 · sd(v·φ(x) − v·φ(y)) / √n of pairs, and the root of both variances over n and m else.
    """
    along = before.mean(axis=0) - after.mean(axis=0)
    along /= max(float(np.linalg.norm(along)), 1e-300)
    x, y = before @ along, after @ along
    if pairs:
        return 1.96 * float(np.std(x - y) / np.sqrt(len(x)))
    return 1.96 * float(np.sqrt(x.var() / len(x) + y.var() / len(y)))


def _features(rows: Host, bandwidth: float, count: int) -> Host:
    """(n, 2 · count) random Fourier features of the Gaussian kernel with this bandwidth ([2])."""
    draws = _PUBLIC.draws(np.arange(rows.shape[1], dtype=np.int64), "frequencies").normal(count)
    frequencies = np.asarray(draws) / bandwidth
    out = np.empty((len(rows), 2 * count))

    def fill(at: int) -> None:
        angles = rows[at : at + _CHUNK] @ frequencies
        np.cos(angles, out=out[at : at + _CHUNK, :count])
        np.sin(angles, out=out[at : at + _CHUNK, count:])
        out[at : at + _CHUNK] /= np.sqrt(count)

    each(fill, range(0, len(rows), _CHUNK))
    return out


def _bandwidth(rows: Host) -> float:
    """Median distance of two rows, from pairs at random."""
    pairs = _PUBLIC.draws(np.arange(_PAIRS, dtype=np.int64), "pairs").uniform(2)
    first, second = (np.asarray(pairs) * len(rows)).astype(np.int64).T
    median = float(np.median(np.linalg.norm(rows[first] - rows[second], axis=1)))
    if median > 0:
        return median
    mean = float(np.linalg.norm(rows[first] - rows[second], axis=1).mean())
    if mean == 0:
        raise InputError("mmd: not defined, every column of the original is constant")
    return mean


def _sampled(rows: Host) -> Host:
    """At most `_ROWS` rows."""
    return rows if len(rows) <= _ROWS else rows[sample_rows(len(rows), _ROWS, "mmd")]


def _mmd(c: Comparison, **options: Any) -> Measured:
    """Of all compared columns, encoded."""
    before, after = c.encoded
    return mmd(before, after, link=c.link_of_pairs, **options)


MMD = Measure(
    name="mmd", label="distance of the two tables as a whole",
    sentence="All columns together, original and release are this far apart: 0 equal, 1.41 nothing in common.",
    summary="distance of all columns together, Gaussian kernel",
    family="utility", range=(0.0, sqrt(2) + 1e-9),
    usual="0 for equal tables; 1.41: nothing in common",
    unit="table", function=mmd, compute=_mmd,
    options={**PERMUTATIONS, "features": WHOLE}, arrays="encoded",
    weights=Weights(
        "ignored", "it is a distance of all columns of two sets of records, held against exchanges of records"
    ),
    nulls=NULL_IS_MARKED, scaling="sample",
    host="random features of 20 000 rows at most",
    source="Gretton et al. 2012; Rahimi and Recht 2007", sees="together", long=0.8,
)  # fmt: skip
