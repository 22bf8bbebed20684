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

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, like, namespace, to_host
from gpuanon.assessing.figures import Beside, Distribution, Figure, Measured
from gpuanon.assessing.measure import ABOVE_1, NULL_IS_MARKED, QUASI, RISK_OF_RECORDS, SHARE, WHOLE, Measure
from gpuanon.assessing.risk.prediction import EXACT_ROWS
from gpuanon.assessing.sampling_errors import sample_note, share_error, share_interval
from gpuanon.errors import ParameterError
from gpuanon.numerics.distance.distance import k_nearest
from gpuanon.numerics.equal_rows import equal_rows
from gpuanon.numerics.sampling import sample_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


POINTS = 20_000
"""Records that are tried, at most; of more, a repeatable random sample."""

PAIRS = EXACT_ROWS**2
"""Pairs of records that are looked at, at most, by all points together: among very many originals fewer are tried."""

_SAME = 1e-12
_DIGITS = 9


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
    if t < 2:
        raise ParameterError(f"t: 2 or more are allowed, got {t}")
    if len(original) <= t:
        raise ParameterError(f"original: more than t = {t} records are needed, got {len(original)}")
    if not len(release):
        raise ParameterError("release: at least one record is needed")
    tables = [release, original, *(() if reference is None else (reference,))]
    points = max(1, min(points, PAIRS // (len(tables) * len(original))))
    ratios, left_out, *others = _ratios(tables, original, t, points)
    value = float((ratios > c).mean())
    beside = [Beside("left_out", "by originals left out", float((left_out > c).mean()))]
    beside += [Beside("reference", "by the reference", float((other > c).mean())) for other in others]
    details: dict[str, Figure] = {"c": float(c), "t": t, "points": len(ratios)}
    different = min(len(ratios), int(equal_rows(release).max()) + 1)
    details["different_points"] = different
    details["holds"] = _no_oftener(value, different, float(beside[0].value or 0.0), min(points, len(original)))
    note = None
    if len(ratios) < len(release):
        error = share_error(value, len(ratios), len(release))
        note = sample_note(len(ratios), len(release), "released records was tried", error)
    part = Distribution.over("released records", np.minimum(ratios, 1e6))
    return Measured(value, details, note, (part,), share_interval(value, len(ratios)), tuple(beside))


def _no_oftener(share: float, n: int, base: float, m: int) -> bool:
    """Whether a share of n is not significantly above one of m: one-sided, at 5 %, both taken as one."""
    pooled = (share * n + base * m) / (n + m)
    return bool(share - base <= 1.645 * np.sqrt(pooled * (1 - pooled) * (1 / n + 1 / m)))


def _ratios(tables: Sequence[Array], original: Array, t: int, points: int) -> list[Host]:
    """For points of each table (q,) distance of the t-th nearest original over that of the nearest; infinite for x / 0.

    tables : the second is the original itself, whose points are left out of it.  0 / 0, t originals at the very point,
        is 1: none of them is singled out

    Cost : one search for the points of all tables.
    """
    xp = namespace(original)
    chosen = [table[like(sample_rows(len(table), points, "isolation"), table)] for table in tables]
    near = k_nearest(xp.concatenate(chosen), original, t + 1)[0]
    out = []
    for number, squared in enumerate(xp.split(near, np.cumsum([len(some) for some in chosen])[:-1].tolist())):
        skip = int(number == 1)
        first, last = (np.asarray(to_host(squared[:, at]), dtype=np.float64) for at in (skip, skip + t - 1))
        zero = first <= _SAME
        ratio = np.where(zero, np.where(last <= _SAME, 1.0, np.inf), last / np.where(zero, 1.0, first))
        out.append(np.round(np.sqrt(ratio), _DIGITS))  # on a grid many are c exactly, which is not farther
    return out


def _ct_isolation(source: Comparison, **options: Any) -> Measured:
    """On the quasi-identifiers; `c` is one of the options."""
    reference = None if source.reference_table is None else source.standardised_reference
    return ct_isolation(*source.standardised, reference, **options)


CT_ISOLATION = Measure(
    name="ct_isolation", label="released records that point at one person",
    sentence="This share of the released records lies so close to one person, and so far from others, that it points at"
    " that person.",
    summary="share of released records that single out an original: c times closer",
    family="risk", range=SHARE,
    usual="0: no record points at one person",
    unit="record",
    records="its balls hold records",
    applies=QUASI, function=ct_isolation, compute=_ct_isolation,
    options={"c": ABOVE_1, "t": WHOLE}, arrays="points", weights=RISK_OF_RECORDS, nulls=NULL_IS_MARKED, scaling="whole",
    source="Chawla et al. 2005; Lasko 2007", long=0.7,
)  # fmt: skip
