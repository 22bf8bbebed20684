"""Mutual information of pairs of columns: how much one tells of the other, before and after.

References
----------
.. [1] T. M. Cover and J. A. Thomas (2006), Elements of Information Theory, section 2.3.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from gpuanon.arrays.backend import Array
from gpuanon.assessing.columns import Names, column_names, require_comparable
from gpuanon.assessing.figures import ByPair, Figure, Measured
from gpuanon.assessing.measure import FROM_0, NULL_IS_A_VALUE, USED, Measure
from gpuanon.assessing.utility.cell_counts import CellWeights, counts_of, dense
from gpuanon.errors import InputError

if TYPE_CHECKING:
    from gpuanon.assessing.comparison import Comparison


def mutual_information(
    original: Array, release: Array, *, names: Names = None, weights: CellWeights = None
) -> Measured:
    """Mean absolute change of the mutual information (natural logarithm) over all pairs of columns of codes.

    weights : people that each row of original and release stands for; shares are those of the people

    The estimate from counts is biased upwards by about (r − 1)(c − 1) / 2n,
    alike in both tables when they have as many rows.
    """
    require_comparable(original, release)
    if original.shape[1] < 2:
        raise InputError("mutual_information: needs two columns")
    labels = column_names(names, original.shape[1])
    sides = zip((original, release), weights or (None, None), strict=True)
    then, now = (_by_pair(side, own) for side, own in sides)
    change = {(labels[a], labels[b]): abs(now[a, b] - then[a, b]) for a, b in then}
    details: dict[str, Figure] = {
        "max": max(change.values()),
        "mean_original": float(np.mean(list(then.values()))),
        "mean_release": float(np.mean(list(now.values()))),
    }
    return Measured(float(np.mean(list(change.values()))), details, parts=(ByPair(dict(change)),))


def information(a: Array, b: Array, weights: Array | None = None) -> float:
    """Σ p(x, y) ln(p(x, y) / p(x) p(y)) of two columns of codes from 0 up, counted on their device."""
    columns = int(b.max()) + 1
    counts = counts_of(a * columns + b, (int(a.max()) + 1) * columns, weights)
    p = counts.reshape(-1, columns) / (len(a) if weights is None else float(weights.sum()))
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    some = p > 0
    return max(0.0, float((p[some] * np.log(p[some] / expected[some])).sum()))


def _by_pair(codes: Array, weights: Array | None) -> dict[tuple[int, int], float]:
    """The mutual information of each pair of columns."""
    columns = [dense(codes[:, j])[0] for j in range(codes.shape[1])]
    return {(a, b): information(columns[a], columns[b], weights) for a, b in combinations(range(codes.shape[1]), 2)}


def _mutual_information(c: Comparison) -> Measured:
    return mutual_information(*c.binned_by_weight, names=c.columns, weights=c.weights)


MUTUAL_INFORMATION = Measure(
    name="mutual_information", label="change of what columns tell of each other",
    sentence="How much one column tells of another changed by this much on average over all pairs.",
    summary="mean change of the mutual information of two columns",
    family="utility", range=FROM_0,
    usual="0 for a copy",
    unit="pair of columns", function=mutual_information,
    compute=_mutual_information, arrays="values", weights=USED, nulls=NULL_IS_A_VALUE, scaling="sample",
    source="Cover and Thomas 2006", sees="together",
)  # fmt: skip
