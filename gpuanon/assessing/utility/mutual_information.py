"""Mutual information of pairs of columns: how much one tells of the other, before and after.

References
----------
.. [1] T. M. Cover and J. A. Thomas (2006), Elements of Information Theory, section 2.3.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.assessing.columns import Names, column_names
from gpuanon.assessing.figures import ByPair, Figure, Measured
from gpuanon.assessing.utility.cells import dense
from gpuanon.assessing.utility.pairs import require_comparable
from gpuanon.errors import InputError


def mutual_information(original: Array, release: Array, *, names: Names = None) -> Measured:
    """Mean absolute change of the mutual information (natural logarithm) over all pairs of columns of codes.

    The estimate from counts is biased upwards by about (r − 1)(c − 1) / 2n,
    alike in both tables when they have as many rows.
    """
    require_comparable(original, release)
    if original.shape[1] < 2:
        raise InputError("mutual_information: needs two columns")
    labels = column_names(names, original.shape[1])
    then, now = (_by_pair(side) for side in (original, release))
    change = {(labels[a], labels[b]): abs(now[a, b] - then[a, b]) for a, b in then}
    details: dict[str, Figure] = {
        "max": max(change.values()),
        "mean_original": float(np.mean(list(then.values()))),
        "mean_release": float(np.mean(list(now.values()))),
    }
    return Measured(float(np.mean(list(change.values()))), details, parts=(ByPair(dict(change)),))


def information(a: Array, b: Array) -> float:
    """Σ p(x, y) ln(p(x, y) / p(x) p(y)) of two columns of codes from 0 up, counted on their device."""
    columns = int(b.max()) + 1
    counts = namespace(a).bincount(a * columns + b, minlength=(int(a.max()) + 1) * columns)
    p = to_host(counts).reshape(-1, columns) / len(a)
    expected = p.sum(axis=1, keepdims=True) * p.sum(axis=0, keepdims=True)
    some = p > 0
    return max(0.0, float((p[some] * np.log(p[some] / expected[some])).sum()))


def _by_pair(codes: Array) -> dict[tuple[int, int], float]:
    """The mutual information of each pair of columns."""
    columns = [dense(codes[:, j])[0] for j in range(codes.shape[1])]
    return {(a, b): information(columns[a], columns[b]) for a, b in combinations(range(codes.shape[1]), 2)}
