"""(c, t)-isolation: does a released record single out an original?

A point q isolates the original nearest to it, at distance δ, when fewer than t originals lie within c·δ of q: the
t-th nearest is more than c times as far as the nearest [1, 2].  The definition is one of methods, for the best point
that an attacker can compute.  Here every released record is such a point, which bounds that attacker from below.

What RHS proves of the records of a cell depends on their distribution along the axes that it cuts, and whether it holds
along principal axes is left open (4.1.2 of [2]).  Isolation itself is a matter of distances alone, which a rotation
keeps: a point isolates in the rotated coordinates if and only if it does in the original ones.  So the guarantee is
checked on the release, whatever axes it was made along: it `holds` when released records isolate no oftener than
originals do that were left out, by a one-sided test at 5 %, equal released records counting as one.  That is not so of
every table: cells of two distant clouds isolate oftener.

References
----------
.. [1] S. Chawla, C. Dwork, F. McSherry, A. Smith, H. Wee (2005), Toward privacy in public databases, TCC 2005.
.. [2] T. A. Lasko (2007), Spectral Anonymization of Data, PhD thesis, MIT, section 2.1.1.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, like, to_host
from gpuanon.assessing.figures import Beside, Distribution, Figure, Measured
from gpuanon.assessing.risk.prediction import EXACT_ROWS
from gpuanon.assessing.shares import share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.sampling import sample_rows

POINTS = 20_000
"""Records that are tried, at most; of more, a repeatable random sample."""

PAIRS = EXACT_ROWS**2
"""Pairs of records that are looked at, at most: among very many originals fewer are tried."""

_SAME = 1e-12


def ct_isolation(
    original: Array, release: Array, reference: Array | None = None, *, c: float = 2.0, t: int = 5, points: int = POINTS
) -> Measured:
    """Share of released records that (c, t)-isolate an original.

    Parameters
    ----------
    original, release, reference : (n, d) encoded and standardised alike; see `prediction.standardised`
    c : how many times farther the t-th nearest must be, more than 1
    t : 2 or more

    Beside it the share of the originals themselves that isolate another one, each left out of the table that it is
    tried on: what a fresh sample of the population gives; and the reference's, where there is one.
    """
    if not c > 1:
        raise ParameterError(f"c: a number above 1 is allowed, got {c}")
    if not 2 <= t < len(original):
        raise ParameterError(f"t: a number from 2 to {len(original) - 1} is allowed, got {t}")
    if not len(release):
        raise ParameterError("release: at least one record is needed")
    points = max(1, min(points, PAIRS // len(original)))
    ratios = _ratios(release, original, t, points)
    isolates = ratios > c
    value = float(isolates.mean())
    beside = [
        Beside("left_out", "by originals left out", float((_ratios(original, original, t, points, 1) > c).mean()))
    ]
    if reference is not None:
        beside.append(
            Beside("reference", "by the reference", float((_ratios(reference, original, t, points) > c).mean()))
        )
    details: dict[str, Figure] = {"c": float(c), "t": t, "points": len(ratios)}
    different = min(len(ratios), int(equal_rows(release).max()) + 1)
    details["different_points"] = different
    details["holds"] = _no_oftener(value, different, float(beside[0].value or 0.0), min(points, len(original)))
    note = None
    if len(ratios) < len(release):
        note = f"a random sample of {len(ratios)} of {len(release)} released records was tried"
    part = Distribution.over("released records", np.minimum(ratios, 1e6))
    return Measured(value, details, note, (part,), share_interval(value, len(ratios)), tuple(beside))


def _no_oftener(share: float, n: int, base: float, m: int) -> bool:
    """Whether a share of n is not significantly above one of m: one-sided, at 5 %, both taken as one."""
    pooled = (share * n + base * m) / (n + m)
    return bool(share - base <= 1.645 * np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)))


def _ratios(queries: Array, rows: Array, t: int, points: int, skip: int = 0) -> np.ndarray[Any, Any]:
    """(q,) distance of the t-th nearest row over that of the nearest, after the `skip` nearest; infinite for x / 0.

    0 / 0, t originals at the very point, is 1: none of them is singled out.
    """
    chosen = queries[like(sample_rows(len(queries), points, "isolation"), queries)]
    squared = np.asarray(to_host(k_nearest(chosen, rows, t + skip)[0]), dtype=np.float64)
    near, far = squared[:, skip], squared[:, -1]
    zero = near <= _SAME
    return np.sqrt(np.where(zero, np.where(far <= _SAME, 1.0, np.inf), far / np.where(zero, 1.0, near)))
