"""Tree-dependent components of many groups at once: a rotation in which a tree of links describes the dependences.

Of whitened rows, the rotation and the forest T are sought that make this small (the contrast of [1], up to a constant):

    Σ_u H(s_u) − Σ_{(u, v) ∈ T} I(s_u, s_v)

H is the entropy of a component by spacings of order statistics [2], I the mutual information of two components in
quantile classes, and T the forest of strongest links [3] above the threshold of a test.  The plane of every two axes is
turned by the best of some angles, with the links of the last sweep, and the forest is found anew: neither raises the
contrast, which is that of up to 512 rows of a group.  It is a local search: another start may end elsewhere.

References
----------
.. [1] F. Bach, M. Jordan (2003), Beyond independent components: trees and clusters, JMLR 4, section 4.
.. [2] O. Vasicek (1976), A test for normality based on sample entropy, J. R. Stat. Soc. B 38(1).
.. [3] C. Chow, C. Liu (1968), IEEE Trans. Inf. Theory 14(3).
"""

from __future__ import annotations

from itertools import combinations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.batches import even_batches, gather
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each
from gpuanon.numerics.chow_liu import dependence_forest, link_threshold, mutual_information, quantile_classes

_SAMPLE = 512
_CLASSES = 8
_ROWS_A_CLASS = 25
_ANGLES = 12
_LEVEL = 0.01
_NARROWEST = 1e-3
"""Of a spacing, in standard deviations: repeated values would have none."""


def spacing_entropy(columns: Array, rows: Array) -> Array:
    """(b, c) differential entropy of each column of (b, c, length), the first `rows` (b,) of which count [2]."""
    xp = namespace(columns)
    length = columns.shape[2]
    wide = xp.maximum(1, xp.sqrt(rows.astype(np.float64)).astype(np.int64))
    ordered = sort_rows(xp.where(xp.arange(length) < rows[:, None, None], columns, np.inf))
    place = xp.arange(length)[None, :]
    above, below = xp.minimum(place + wide[:, None], rows[:, None] - 1), xp.maximum(place - wide[:, None], 0)
    shape = (*columns.shape[:2], length)
    gaps = xp.take_along_axis(ordered, xp.broadcast_to(above[:, None], shape), axis=2)
    gaps = gaps - xp.take_along_axis(ordered, xp.broadcast_to(below[:, None], shape), axis=2)
    inside = xp.broadcast_to((place < rows[:, None])[:, None], shape)
    scaled = xp.maximum(gaps, _NARROWEST) * (rows / (2.0 * wide))[:, None, None]
    return xp.where(inside, xp.log(scaled), 0.0).sum(axis=2) / rows[:, None]


def links_of(columns: Array, rows: Array, counts: Array) -> tuple[Array, Array]:
    """(b, c, c) the links of each part's forest, as a symmetric matrix of 0 and 1, and the mutual information."""
    xp = namespace(columns)
    c = columns.shape[1]
    strength = mutual_information(quantile_classes(columns, rows, counts), rows, int(counts.max()))
    _, parent = dependence_forest(strength, link_threshold(rows, counts, _LEVEL))
    linked = (parent[:, :, None] == xp.arange(c)) & (parent >= 0)[:, :, None]
    return (linked | linked.transpose(0, 2, 1)).astype(np.float64), strength


def contrast(columns: Array, rows: Array) -> Array:
    """(b,) Σ H − Σ_T I of whitened components (b, c, length); see the module."""
    links, strength = links_of(columns, rows, _counts(rows))
    return spacing_entropy(columns, rows).sum(axis=1) - (links * strength).sum(axis=(1, 2)) / 2.0


def tree_rotation(columns: Array, rows: Array, alive: Array, sweeps: int = 4) -> Array:
    """(b, c, c) rotations R, so that ``R @ columns`` are the tree-dependent components of (b, c, length).

    rows  : (b,) entries of each part that are not padding
    alive : (b, c) False for components that were dropped: they stay as they are
    """
    xp = namespace(columns)
    b, c, _ = columns.shape
    S, counts = columns.copy(), _counts(rows)
    R = xp.zeros((b, c, c)) + xp.eye(c)
    for sweep in range(sweeps):
        links, _ = links_of(S, rows, counts)
        # The first sweep looks everywhere: a quarter turn exchanges two axes.  Later ones look ever nearer.
        turns = np.arange(_ANGLES) if sweep == 0 else np.arange(_ANGLES) - _ANGLES // 2
        angles = xp.asarray(turns * (np.pi / 2 / _ANGLES / 3**sweep))
        for i, j in combinations(range(c), 2):
            cost = _costs(S, i, j, angles, links, rows, counts)
            still = xp.asarray(turns == 0)
            lower = cost.min(axis=1) < cost[:, still][:, 0] - 1e-9
            best = xp.where(lower & alive[:, i] & alive[:, j], angles[cost.argmin(axis=1)], 0.0)
            turn = (xp.cos(best)[:, None], xp.sin(best)[:, None])
            S[:, i], S[:, j] = _turned(S[:, i], S[:, j], *turn)
            R[:, i], R[:, j] = _turned(R[:, i], R[:, j], *turn)
    return R


def _counts(rows: Array) -> Array:
    """(b,) classes of a component."""
    return namespace(rows).clip(rows // _ROWS_A_CLASS, 1, _CLASSES)


def _turned(one: Array, other: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    return cos * one + sin * other, cos * other - sin * one


def _costs(S: Array, i: int, j: int, angles: Array, links: Array, rows: Array, counts: Array) -> Array:
    """(b, angles) what the contrast has of the axes i and j when their plane is turned by each angle."""
    xp = namespace(S)
    most = int(counts.max())
    inside = (xp.arange(S.shape[2]) < rows[:, None])[:, None, None]
    turned = _turned(S[:, i, None], S[:, j, None], xp.cos(angles)[None, :, None], xp.sin(angles)[None, :, None])
    fixed = _members(quantile_classes(S, rows, counts), most, inside)
    cost = xp.zeros((len(S), len(angles)))
    found = []
    for at, columns in zip((i, j), turned, strict=True):
        members = _members(quantile_classes(columns, rows, counts), most, inside)
        found.append(members)
        wanted = links[:, at].copy()
        wanted[:, [i, j]] = 0.0
        b, a, c = len(S), len(angles), S.shape[1]
        joint = members.reshape(b, a * most, -1) @ fixed.reshape(b, c * most, -1).transpose(0, 2, 1)
        shared = _information(joint.reshape(b, a, most, c, most).transpose(0, 1, 3, 2, 4), rows[:, None, None])
        cost += spacing_entropy(columns, rows) - (shared * wanted[:, None]).sum(axis=2)
    both = _information(found[0] @ found[1].transpose(0, 1, 3, 2), rows[:, None])
    return cost - both * links[:, i, j][:, None]


def _members(classes: Array, most: int, inside: Array) -> Array:
    """(b, c, most, length) float32: 1 where a row is in a class."""
    xp = namespace(classes)
    return ((classes[:, :, None] == xp.arange(most, dtype=np.int8)[:, None]) & inside).astype(np.float32)


def _information(joint: Array, rows: Array) -> Array:
    """(…) mutual information, in nats, of counts (…, most, most) of `rows` (…) each."""
    xp = namespace(joint)
    joint = joint.astype(np.float64)

    def entropy(counts: Array) -> Array:
        return (counts * xp.log(xp.maximum(counts, 1.0))).sum(axis=-1)

    flat = joint.reshape(*joint.shape[:-2], -1)
    n = rows.astype(np.float64)
    return (entropy(flat) - entropy(joint.sum(axis=-1)) - entropy(joint.sum(axis=-2))) / n + xp.log(n)


def tree_axes(sources: Array, p: Partition, alive: Array, sweeps: int = 4) -> Array:
    """(g, c, c) the rotation of each part's whitened components `sources` (n, c); of up to 512 rows of a part.

    Cost : O(g · sweeps · c² · (c + 12) · 512) operations of 100 or so; it does not grow with the rows of a part.
    """
    xp = namespace(sources)
    out = xp.empty((p.parts, sources.shape[1], sources.shape[1]))

    def work(batch: Batch) -> None:
        Z = gather(sources, batch).transpose(0, 2, 1)
        rows = batch.valid.sum(axis=1)
        taken = xp.minimum(rows, _SAMPLE)
        length = int(taken.max())
        picks = xp.arange(length)[None, :] * rows[:, None] // taken[:, None]
        picks = xp.minimum(picks, rows[:, None] - 1)
        sample = xp.take_along_axis(Z, xp.broadcast_to(picks[:, None], (*Z.shape[:2], length)), axis=2)
        out[batch.parts] = tree_rotation(sample, taken, alive[batch.parts], sweeps)

    with one_blas_thread():
        each(work, even_batches(p))
    return out
