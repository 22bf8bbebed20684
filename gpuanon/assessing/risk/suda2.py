"""SUDA2: records that few columns are enough to single out, and which columns those are.

A record's score adds up its minimal sample uniques: one of s of the p columns counts Π_{i=s}^{p−1} (p − i) = (p − s)!,
so a record that is alone on few columns scores high [1], as in sdcMicro (`original_scores = TRUE`).  The DIS score
turns it into a probability that a match with the record is right, given the sampling fraction [1, 2].

A set of columns M is minimal unique for a record that is alone on M and on no proper subset of M [3].

References
----------
.. [1] M. J. Elliot, A. Manning, K. Mayes, J. Gurd, M. Bane (2005), SUDA: a program for detecting special uniques.
.. [2] C. J. Skinner, M. J. Elliot (2002), A measure of disclosure risk for microdata, J. R. Stat. Soc. B 64(4).
.. [3] A. M. Manning, D. J. Haglin, J. A. Keane (2008), A recursive search algorithm for statistical disclosure
       assessment, Data Min. Knowl. Disc. 16, 165–196.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import factorial
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, to_host
from gpuanon.assessing.evidence import sampling_fraction
from gpuanon.assessing.figures import Beside, By, Distribution, Figure, Measured
from gpuanon.assessing.measure import FRACTION as FRACTIONS
from gpuanon.assessing.measure import QUASI, SET_SIZE, SHARE, Measure, Weights
from gpuanon.errors import ParameterError
from gpuanon.numerics.equal_rows import equal_rows

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison

ColumnSet = tuple[int, ...]

_COUNTED = 8  # times as many possible classes as rows may be counted by place; more are sorted


def minimal_uniques(codes: Array, size: int) -> Iterator[tuple[ColumnSet, Array]]:
    """For each set of at most `size` columns the rows, ascending, that are minimal unique on it; sets without any are
    left out.

    codes : (n, p) int64, equal where values are equal; negative for a null, which nobody knows: a set is looked at in
            the rows that have values in all of its columns, as in sdcMicro

    Rows that are alone on a subset are alone on every superset, so they are neither candidates there nor companions
    of other rows: they are left out before the superset's classes are counted.

    Cost : O(n) for each of the Σ C(p, s) sets, by counting where few classes are possible, else one sort of n numbers.
           Memory O(n) numbers, and one bit per row and set.
    """
    xp = namespace(codes)
    n, p = codes.shape
    columns = [_dense(codes[:, j]) for j in range(p)]
    missing = [xp.packbits(codes < 0) for codes, _ in columns]
    alone: dict[ColumnSet, Array] = {}  # rows that are alone on a set or on one of its subsets, as bits
    for s in range(1, min(size, p) + 1):
        found: dict[ColumnSet, Array] = {}
        for chosen in combinations(range(p), s):
            known = xp.zeros_like(missing[0])
            for subset in combinations(chosen, s - 1) if s > 1 else ():
                known |= alone[subset]
            left_out = known.copy()
            for j in chosen:
                left_out |= missing[j]
            rows = xp.flatnonzero(xp.unpackbits(~left_out)[:n])
            new = rows[_alone([(columns[j][0][rows], columns[j][1]) for j in chosen])]
            if len(new):
                yield chosen, new
                flags = xp.zeros(n, dtype=bool)
                flags[new] = True
                known |= xp.packbits(flags)
            found[chosen] = known
        alone = found


def _dense(column: Array) -> tuple[Array, int]:
    """Codes from 0 without gaps, −1 for null, and how many there are."""
    xp = namespace(column)
    there = column >= 0
    out = xp.full(len(column), -1, dtype=np.int64)
    if not bool(there.any()):
        return out, 0
    codes = equal_rows(column[there][:, None])
    out[there] = codes
    return out, int(codes.max()) + 1


def _alone(columns: list[tuple[Array, int]]) -> Array:
    """(m,) whether a row's combination of codes occurs once.  Each column: codes from 0, and how many there are."""
    xp = namespace(columns[0][0])
    key, width = columns[0]
    for codes, count in columns[1:]:
        if width * count > 2**62:  # keep the product inside 64 bits
            key = equal_rows(key[:, None])
            width = int(key.max()) + 1 if len(key) else 1
        key, width = key * count + codes, width * count
    if len(key) == 0:
        return xp.zeros(0, dtype=bool)
    if width <= _COUNTED * len(key):
        return xp.bincount(key, minlength=1)[key] == 1
    order = xp.argsort(key, kind="stable")
    sorted_ = key[order]
    same = sorted_[1:] == sorted_[:-1]
    single = xp.ones(len(key), dtype=bool)
    single[1:] &= ~same
    single[:-1] &= ~same
    out = xp.empty(len(key), dtype=bool)
    out[order] = single
    return out


SIZE = 3
"""Columns of the largest set that the value counts, unless said otherwise."""
CHEAP = 30_000_000
"""Rows times sets of columns up to which the scores are of sets of any size, unless said otherwise: about a second."""
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
    codes: Array,
    *,
    names: Sequence[str],
    size: int | None = None,
    fraction: float | None = None,
    known: float | None = None,
) -> Measured:
    """Share of records that some set of at most `size` quasi-identifiers singles out (special uniques).

    Parameters
    ----------
    codes    : (n, p) equal where values are equal; negative for a null
    size     : columns of the largest set.  None: the value counts sets of at most three, and the scores are of sets of
               any size, as in sdcMicro, where these are few enough (`CHEAP`)
    fraction : sampling fraction of the DIS score; None: `known`, or 0.01
    known    : sampling fraction by the sample weights, or None

    ``by_column`` is the share of the total score that sets with the column contribute (sdcMicro's attribute
    contributions), ``by_set`` the share of records that are minimal unique on it.
    """
    n, p = codes.shape
    few = min(SIZE if size is None else size, p)
    found = uniques(codes, names, p if size is None and n * 2**p <= CHEAP else few)
    taken = fraction or known or FRACTION
    dis = dis_scores(found.scores, codes, taken)
    by_size: dict[str, Figure] = {f"{s + 1}": float(count) / found.rows for s, count in enumerate(found.records)}
    return Measured(
        float(found.records[few - 1]) / found.rows,
        {
            "records": int(found.records[few - 1]),
            "scored_records": int((found.scores > 0).sum()),
            "minimal_uniques": int(sum(found.sets.values())),
            "largest_set": len(found.records),
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
    family="risk", range=SHARE,
    usual="0: nobody is singled out by a few columns",
    unit="record",
    records="its scores are of records that are alone on sets of columns",
    applies=QUASI, function=suda2, compute=_suda2,
    options={**FRACTIONS, "size": SET_SIZE}, arrays="classes",
    weights=Weights("estimates", "they give the sampling fraction of the DIS score; records count alike"),
    nulls="a null is something that nobody knows: it is in no set of columns", scaling="whole",
    source="Manning, Haglin and Keane 2008; Elliot et al. 2005; sdcMicro", long=0.3,
)  # fmt: skip
