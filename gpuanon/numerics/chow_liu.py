"""Dependence between the columns of a group: pairwise mutual information, and the tree of strongest links.

References
----------
.. [1] C. Chow, C. Liu (1968), Approximating discrete probability distributions with dependence trees, IEEE Trans.
   Inf. Theory 14(3).
.. [2] F. Bach, M. Jordan (2003), Beyond independent components: trees and clusters, JMLR 4.
"""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.sorting import sort_rows

_SAMPLE = 1 << 13
"""Most rows of a part from which the dependences are estimated."""


def quantile_classes(columns: Array, rows: Array, counts: Array) -> Array:
    """(b, c, length) int8 class, from 0, of each value of a column cut at its quantiles; ties share a class.

    columns : (b, c, length), padding at the end of each line
    rows    : (b,) entries that are not padding
    counts  : (b,) classes, of about equal size
    """
    xp = namespace(columns)
    padding = xp.arange(columns.shape[2]) >= rows[:, None]
    return classes_of(columns, sort_rows(xp.where(padding[:, None], np.inf, columns)), rows, counts)


def classes_of(columns: Array, ordered: Array, rows: Array, counts: Array) -> Array:
    """`quantile_classes` of columns that were sorted before: `ordered` (b, c, length), padding last."""
    xp = namespace(columns)
    classes = xp.zeros(columns.shape, dtype=np.int8)
    for k in range(1, int(counts.max())):
        place = xp.minimum(k * rows // counts, rows - 1)[:, None, None]
        border = xp.take_along_axis(ordered, place + xp.zeros((1, columns.shape[1], 1), dtype=place.dtype), axis=2)
        classes += (columns >= xp.where((k < counts)[:, None, None], border, np.inf)).view(np.int8)
    return classes


def mutual_information(classes: Array, rows: Array, most: int) -> Array:
    """(b, c, c) mutual information, in nats, of the columns' `classes` (b, c, length), each below `most`.

    Parts of more than 8192 rows are represented by that many evenly spaced rows.
    """
    xp = namespace(classes)
    b, c, length = classes.shape
    if length > _SAMPLE:
        picks = xp.arange(_SAMPLE)[None, :] * rows[:, None] // _SAMPLE
        classes = xp.take_along_axis(classes, picks[:, None], axis=2)
        rows = xp.full_like(rows, _SAMPLE)
    inside = xp.arange(classes.shape[2]) < rows[:, None]
    member = (classes[:, :, None] == xp.arange(most, dtype=np.int8)[:, None]) & inside[:, None, None]
    member = member.reshape(b, c * most, -1).astype(np.float32)  # counts stay below 2^24: exact
    joint = (member @ member.transpose(0, 2, 1)).astype(np.float64)
    single = xp.diagonal(joint, axis1=1, axis2=2)
    n = rows.astype(np.float64)[:, None]
    entropy = (_n_log_n(single).reshape(b, c, most).sum(axis=2)) / n
    both = _n_log_n(joint).reshape(b, c, most, c, most).sum(axis=(2, 4)) / n[:, :, None]
    return both - entropy[:, :, None] - entropy[:, None] + xp.log(n)[:, :, None]


def _n_log_n(counts: Array) -> Array:
    """n log n, 0 for n = 0."""
    xp = namespace(counts)
    return counts * xp.log(xp.maximum(counts, 1.0))


def link_threshold(rows: Array, counts: Array, level: float) -> Array:
    """(b,) mutual information that independent columns exceed with probability `level` (the G test)."""
    from scipy.special import chdtri

    xp = namespace(rows)
    most = int(counts.max())
    quantiles = [np.inf, *(chdtri((k - 1) ** 2, level) for k in range(2, most + 1))]
    judged = xp.minimum(rows, _SAMPLE)
    return xp.asarray(quantiles)[counts - 1] / (2.0 * judged)


def dependence_forest(strength: Array, threshold: Array) -> tuple[Array, Array]:
    """The forest of strongest links [1]: an `order` (b, c) of the columns and each one's `parent` (b, c), −1 for none.

    strength  : (b, c, c) symmetric
    threshold : (b,) links below it are left out

    Prim's algorithm on all parts at once; a parent comes before its children.  Ties go to the lower column.
    """
    xp = namespace(strength)
    b, c, _ = strength.shape
    part = xp.arange(b)
    diagonal = xp.arange(c)
    strength = strength.copy()
    strength[:, diagonal, diagonal] = -np.inf
    chosen = xp.zeros((b, c), dtype=bool)
    parent = xp.full((b, c), -1, dtype=np.int64)
    best = xp.where(xp.isfinite(strength), strength, -1.0).sum(axis=2)  # first root: the strongest links
    source = xp.full((b, c), -1, dtype=np.int64)
    order = []
    for at in range(c):
        column = xp.where(chosen, -np.inf, best).argmax(axis=1)
        if at:
            linked = best[part, column] > threshold
            parent[part, column] = xp.where(linked, source[part, column], -1)
        else:
            best = xp.full((b, c), -np.inf)
        chosen[part, column] = True
        order.append(column)
        stronger = strength[part, column] > best
        best = xp.where(stronger, strength[part, column], best)
        source = xp.where(stronger, column[:, None], source)
    return xp.stack(order, axis=1), parent
