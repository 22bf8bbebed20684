"""SUDA2: records that few columns are enough to single out, and which columns those are.

A record's score adds up its minimal sample uniques: one of s of the p columns counts Π_{i=s}^{p−1} (p − i) = (p − s)!,
so a record that is alone on few columns scores high [1], as in sdcMicro (`original_scores = TRUE`).  The DIS score
turns it into a probability that a match with the record is right, given the sampling fraction [1, 2].

References
----------
.. [1] M. J. Elliot, A. Manning, K. Mayes, J. Gurd, M. Bane (2005), SUDA: a program for detecting special uniques.
.. [2] C. J. Skinner, M. J. Elliot (2002), A measure of disclosure risk for microdata, J. R. Stat. Soc. B 64(4).
.. [3] A. M. Manning, D. J. Haglin, J. A. Keane (2008), Data Min. Knowl. Disc. 16, 165–196.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.assessing.evidence import sampling_fraction
from gpuanon.assessing.figures import Beside, By, Distribution, Figure, Measured
from gpuanon.assessing.measure import FRACTION as FRACTIONS
from gpuanon.assessing.measure import QUASI, SET_SIZE, SHARE, Measure, Weights
from gpuanon.assessing.risk.suda2.minimal_uniques import minimal_uniques
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

SIZE = 3
"""Columns of the largest set that is looked at, unless said otherwise."""
FRACTION = 0.01
"""Sampling fraction of the DIS score where none is known, as in sdcMicro."""
SHOWN = 12


@dataclass(frozen=True, repr=False)
class Uniques:
    """Minimal sample uniques of a table.

    records : (sizes,) records that have a set of 1, 2, … columns or fewer that singles them out
    sets    : for each set of columns the records that are minimal unique on it
    scores  : (n,) SUDA score of each record
    columns : share of the total score that sets with this column contribute; these shares add up to more than 1
    rows    : of the table
    """

    records: Host
    sets: Mapping[tuple[str, ...], int]
    scores: Host
    columns: Mapping[str, float]
    rows: int

    @property
    def share(self) -> float:
        """Share of the records that a set of at most so many columns singles out."""
        return float(self.records[-1]) / self.rows

    @property
    def leading(self) -> dict[str, float]:
        """The sets that single out most records: share of the records by the names of the columns."""
        order = sorted(self.sets, key=lambda names: (-self.sets[names], len(names), names))
        return {" × ".join(names): self.sets[names] / self.rows for names in order[:SHOWN]}


def uniques(codes: Array, names: Sequence[str], size: int = SIZE) -> Uniques:
    """Minimal sample uniques of at most `size` columns.

    codes : (n, p) equal where values are equal; negative for a null, which is in no set
    """
    n, p = codes.shape
    if n == 0 or p == 0:
        raise ParameterError("suda2: at least one record and one column are needed")
    xp = namespace(codes)
    scores = xp.zeros(n, dtype=np.float64)
    first = xp.zeros(n, dtype=np.int64)  # columns of the smallest set of each record; 0: none
    sets: dict[tuple[str, ...], int] = {}
    by_column = dict.fromkeys(names, 0.0)
    for chosen, rows in minimal_uniques(codes, size):
        weight = float(factorial(p - len(chosen)))
        scores[rows] += weight
        first[rows] = xp.where(first[rows] == 0, len(chosen), first[rows])
        named = tuple(names[j] for j in chosen)
        sets[named] = len(rows)
        for name in named:
            by_column[name] += weight * len(rows)
    total = max(float(scores.sum()), 1e-300)
    reached = to_host(xp.bincount(first, minlength=min(size, p) + 1))[1:].cumsum()
    return Uniques(reached, sets, to_host(scores), {name: value / total for name, value in by_column.items()}, n)


def suda2(
    codes: Array, *, names: Sequence[str], size: int = SIZE, fraction: float | None = None, known: float | None = None
) -> Measured:
    """Share of records that some set of at most `size` quasi-identifiers singles out (special uniques).

    Parameters
    ----------
    codes    : (n, p) equal where values are equal; negative for a null
    size     : columns of the largest set; p gives the scores of sdcMicro
    fraction : sampling fraction of the DIS score; None: `known`, or 0.01
    known    : sampling fraction by the sample weights, or None

    ``by_column`` is the share of the total score that sets with the column contribute (sdcMicro's attribute
    contributions), ``by_set`` the share of records that are minimal unique on it.
    """
    found = uniques(codes, names, size)
    taken = fraction or known or FRACTION
    dis = dis_scores(found.scores, codes, taken)
    by_size: dict[str, Figure] = {f"{s + 1}": float(count) / found.rows for s, count in enumerate(found.records)}
    return Measured(
        found.share,
        {
            "records": int(found.records[-1]),
            "minimal_uniques": int(sum(found.sets.values())),
            "largest_set": min(size, codes.shape[1]),
            "share_up_to_columns": by_size,
            "mean_score": float(found.scores.mean()),
            "sampling_fraction": taken,
        },
        parts=(By("column", found.columns), By("set", found.leading), Distribution.over("DIS scores", dis)),
        beside=(Beside("mean_dis_score", "mean DIS score", float(dis.mean())),),
    )


def dis_scores(scores: Host, codes: Array, fraction: float) -> Host:
    """(n,) probability that a match with each record is right: sdcMicro's DIS-SUDA score.

    dis = U f / (U f + P (1 − f)) of all records with U records alone and P in pairs on all columns, spread over
    the records by their scores: 1 / (1 + U (1 / dis − 1) / (score^q Σ score^−q)), q = 1 + (8 − p) / 20.
    """
    sizes = to_host(namespace(codes).bincount(equal_rows(codes)))
    alone, paired = float((sizes == 1).sum()), 2.0 * float((sizes == 2).sum())
    scored = scores > 0
    out = np.zeros(len(scores))
    if not alone or not scored.any():
        return out
    dis = alone * fraction / (alone * fraction + paired * (1 - fraction))
    power = scores[scored] ** (1 + (8 - codes.shape[1]) / 20)
    out[scored] = 1 / (1 + alone * (1 / dis - 1) / (power * (1 / power).sum()))
    return out


def _suda2(c: Comparison, **options: Any) -> Measured:
    return suda2(c.column_classes, names=c.schema.quasi, known=sampling_fraction(c), **options)


SUDA2 = Measure(
    name="suda2", label="singled out by a few columns",
    sentence="This share of the released records can be singled out by somebody who knows only a few of their values.",
    summary="share of records that a few quasi-identifiers are enough to single out",
    family="risk", range=SHARE, unit="record", applies=QUASI, function=suda2, compute=_suda2,
    options={**FRACTIONS, "size": SET_SIZE}, arrays="classes",
    weights=Weights("estimates", "they give the sampling fraction of the DIS score; records count alike"),
    nulls="a null is something that nobody knows: it is in no set of columns", scaling="whole",
    source="Manning, Haglin and Keane 2008; Elliot et al. 2005; sdcMicro", long=0.3,
)  # fmt: skip
