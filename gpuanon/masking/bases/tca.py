"""Tree-dependent components of many groups at once: a rotation in which a tree of links describes the dependences.

Of whitened rows, the rotation and the forest T are sought that make this small (the contrast of [1], up to a constant):

    Σ_u H(s_u) − Σ_{(u, v) ∈ T} I(s_u, s_v)

H is the entropy of a component by spacings of order statistics [2], I the mutual information of two components in
quantile classes, and T the forest of strongest links [3] above the threshold of a test.  The plane of every two axes is
turned by the best of six angles, with the links of the last sweep, and the forest is found anew: neither raises the
contrast, which is that of up to 512 rows of a group.  It is a local search: another start may end elsewhere.  The
angles of three sweeps are 15, 5 and 1.7 degrees apart: the axes of some hundred rows are known no better.

References
----------
.. [1] F. Bach, M. Jordan (2003), Beyond independent components: trees and clusters, JMLR 4, section 4.
.. [2] O. Vasicek (1976), A test for normality based on sample entropy, J. R. Stat. Soc. B 38(1).
.. [3] C. Chow, C. Liu (1968), IEEE Trans. Inf. Theory 14(3).
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Literal

import numpy as np
from pydantic import Field

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.batches import even_batches
from gpuanon.arrays.blas import one_blas_thread
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each
from gpuanon.masking.bases.linear import LinearBasis
from gpuanon.numerics.chow_liu import (
    classes_of,
    dependence_forest,
    link_threshold,
    mutual_information,
    quantile_classes,
)
from gpuanon.numerics.ica import independent_axes, whitening
from gpuanon.numerics.lockstep import Affine

_SAMPLE = 512
_CLASSES = 8
_ROWS_A_CLASS = 25
_ANGLES = 6
_STEP = 16
_ELEMENTS = 1 << 16  # of a batch, a dozen columns of which are sorted at once
_LEVEL = 0.01
_NARROWEST = 1e-3
"""Of a spacing, in standard deviations: repeated values would have none."""


def sorted_columns(columns: Array, rows: Array) -> Array:
    """The columns (b, c, length) sorted, padding last."""
    xp = namespace(columns)
    if int(rows.min()) == columns.shape[2]:
        return sort_rows(columns)
    inside = xp.arange(columns.shape[2]) < rows[:, None, None]
    return sort_rows(xp.where(inside, columns, np.inf))


def spacing_entropy(ordered: Array, rows: Array) -> Array:
    """(b, c) differential entropy of each of the sorted columns (b, c, length), whose first `rows` (b,) count [2]."""
    xp = namespace(ordered)
    length = ordered.shape[2]
    wide = xp.maximum(1, xp.sqrt(rows.astype(np.float64)).astype(np.int64))[:, None]
    if int(rows.min()) == length:
        gaps = _spacings(ordered, int(wide[0, 0]))
    else:
        place = xp.arange(length)[None, :]
        above, below = xp.minimum(place + wide, rows[:, None] - 1), xp.maximum(place - wide, 0)
        above, below = (xp.broadcast_to(side[:, None], ordered.shape) for side in (above, below))
        gaps = xp.take_along_axis(ordered, above, axis=2) - xp.take_along_axis(ordered, below, axis=2)
        gaps = xp.where((place < rows[:, None])[:, None], gaps, (2.0 * wide / rows[:, None])[:, :, None])
    xp.maximum(gaps, _NARROWEST, out=gaps)
    gaps *= (rows[:, None] / (2.0 * wide))[:, :, None]  # 1, of which the logarithm is 0, at padding
    return xp.log(gaps, out=gaps).sum(axis=2) / rows[:, None]


def _spacings(ordered: Array, wide: int) -> Array:
    """(b, c, length) from `wide` places below each of the sorted values to `wide` above, inside the column."""
    xp = namespace(ordered)
    gaps = xp.empty_like(ordered)
    wide = min(wide, ordered.shape[2])
    gaps[:, :, :-wide] = ordered[:, :, wide:]
    gaps[:, :, -wide:] = ordered[:, :, -1:]
    gaps[:, :, :wide] -= ordered[:, :, :1]
    gaps[:, :, wide:] -= ordered[:, :, :-wide]
    return gaps


def forest_links(classes: Array, rows: Array, counts: Array) -> tuple[Array, Array]:
    """(b, c, c) links of the forest of each part, symmetric, 0 or 1, and the mutual information of its columns."""
    xp = namespace(classes)
    c = classes.shape[1]
    strength = mutual_information(classes, rows, int(counts.max()))
    _, parent = dependence_forest(strength, link_threshold(rows, counts, _LEVEL))
    linked = (parent[:, :, None] == xp.arange(c)) & (parent >= 0)[:, :, None]
    return (linked | linked.transpose(0, 2, 1)).astype(np.float64), strength


def tree_rotation(columns: Array, rows: Array, alive: Array, sweeps: int = 3) -> Array:
    """(b, c, c) rotations R, so that ``R @ columns`` are the tree-dependent components of (b, c, length).

    rows  : (b,) entries of each part that are not padding
    alive : (b, c) False for components that were dropped: they stay as they are
    """
    xp = namespace(columns)
    b, c, _ = columns.shape
    S, counts = columns.copy(), _counts(rows)
    R = xp.zeros((b, c, c)) + xp.eye(c)
    classes = quantile_classes(S, rows, counts)
    parts = xp.arange(b)
    for sweep in range(sweeps):
        links, _ = forest_links(classes, rows, counts)
        # The first sweep looks everywhere: a quarter turn exchanges two axes.  Later ones look ever nearer.
        still = 0 if sweep == 0 else _ANGLES // 2
        angles = xp.asarray((np.arange(_ANGLES) - still) * (np.pi / 2 / _ANGLES / 3**sweep))
        for i, j in combinations(range(c), 2):
            cost, found = _costs(S, i, j, angles, links, classes, rows, counts)
            best = cost.argmin(axis=1)
            lower = cost[parts, best] < cost[:, still] - 1e-9
            best = xp.where(lower & alive[:, i] & alive[:, j], best, still)
            turn = (xp.cos(angles[best])[:, None], xp.sin(angles[best])[:, None])
            S[:, i], S[:, j] = _turned(S[:, i], S[:, j], *turn)
            R[:, i], R[:, j] = _turned(R[:, i], R[:, j], *turn)
            classes[:, i], classes[:, j] = found[parts, best], found[parts, _ANGLES + best]
    return R


def _counts(rows: Array) -> Array:
    """(b,) classes of a component."""
    return namespace(rows).clip(rows // _ROWS_A_CLASS, 1, _CLASSES)


def _turned(one: Array, other: Array, cos: Array, sin: Array) -> tuple[Array, Array]:
    return cos * one + sin * other, cos * other - sin * one


def _costs(
    S: Array, i: int, j: int, angles: Array, links: Array, classes: Array, rows: Array, counts: Array
) -> tuple[Array, Array]:
    """(b, angles) what the contrast has of the axes i and j when their plane is turned by each angle.

    And (b, 2 · angles, length) the classes of both axes then, i first.
    """
    xp = namespace(S)
    a, most = len(angles), int(counts.max())
    cos, sin = xp.cos(angles)[None, :, None], xp.sin(angles)[None, :, None]
    turned = xp.concatenate(_turned(S[:, i, None], S[:, j, None], cos, sin), axis=1)
    ordered = sorted_columns(turned, rows)
    entropy, found = spacing_entropy(ordered, rows), classes_of(turned, ordered, rows, counts)
    cost = entropy[:, :a] + entropy[:, a:]
    for at, side in ((i, found[:, :a]), (j, found[:, a:])):
        wanted = links[:, at] > 0
        wanted[:, [i, j]] = False
        part, other = xp.nonzero(wanted)  # few: a forest has fewer links than axes
        if len(part):
            shared = _shared(side[part], classes[part, other][:, None], rows[part], most)
            for k in range(a):
                cost[:, k] -= xp.bincount(part, shared[:, k], minlength=len(S))
    part = xp.nonzero(links[:, i, j] > 0)[0]
    if len(part):
        cost[part] -= _shared(found[part, :a], found[part, a:], rows[part], most)
    return cost, found


def _shared(one: Array, other: Array, rows: Array, most: int) -> Array:
    """(p, angles) mutual information of classes (p, angles, length) and (p, angles or 1, length)."""
    xp = namespace(one)
    p, a, length = one.shape
    cells = most * most
    place = one.astype(np.int64) * most + other + (xp.arange(p * a) * (cells + 1)).reshape(p, a, 1)
    beyond = (xp.arange(p * a) * (cells + 1) + cells).reshape(p, a, 1)  # the last cell counts the padding
    place = xp.where((xp.arange(length) < rows[:, None])[:, None], place, beyond)
    joint = xp.bincount(place.reshape(-1), minlength=p * a * (cells + 1)).reshape(p, a, cells + 1)
    return _information(joint[:, :, :cells].reshape(p, a, most, most), rows[:, None])


def _information(joint: Array, rows: Array) -> Array:
    """(…) mutual information, in nats, of counts (…, most, most) of `rows` (…) each."""
    xp = namespace(joint)
    joint = joint.astype(np.float64)

    def entropy(counts: Array) -> Array:
        return (counts * xp.log(xp.maximum(counts, 1.0))).sum(axis=-1)

    flat = joint.reshape(*joint.shape[:-2], -1)
    n = rows.astype(np.float64)
    return (entropy(flat) - entropy(joint.sum(axis=-1)) - entropy(joint.sum(axis=-2))) / n + xp.log(n)


def tree_axes(sources: Array, p: Partition, alive: Array, sweeps: int = 3) -> Array:
    """(g, c, c) the rotation of each part's whitened components `sources` (n, c).

    Of up to 512 rows of a part, evenly spaced, a multiple of 16 of them: parts of about a size are turned together.

    Cost : O(g · sweeps · c² · 512) operations of 100 or so; it does not grow with the rows of a part beyond 512.
    """
    xp = namespace(sources)
    out = xp.empty((p.parts, sources.shape[1], sources.shape[1]))

    def work(batch: Batch) -> None:
        rows = batch.valid.sum(axis=1)
        taken = xp.minimum(rows, _SAMPLE)
        taken = xp.where(taken < _STEP, taken, taken // _STEP * _STEP)
        for length in np.unique(to_host(taken)).tolist():
            some = xp.nonzero(taken == length)[0]
            picks = xp.arange(length)[None, :] * rows[some][:, None] // length
            Z = sources[xp.take_along_axis(batch.rows[some], picks, axis=1)].transpose(0, 2, 1)
            parts = batch.parts[some]
            out[parts] = tree_rotation(xp.ascontiguousarray(Z), taken[some], alive[parts], sweeps)

    with one_blas_thread():
        each(work, even_batches(p, elements=_ELEMENTS))
    return out


class Tca(LinearBasis):
    """Components that are independent but for a tree of links (Bach and Jordan 2003; Lasko 2007, 6.3).

    A local search from the independent components, on up to 512 rows of a group.  Meant for `tree-swap`, which keeps
    the links of the tree; an independent swap loses them in this basis as in any other.
    """

    use: Literal["tca"] = "tca"
    iterations: int = Field(default=20, ge=1, description="of FastICA, whose components are the start")
    sweeps: int = Field(default=3, ge=1, le=20, description="over all planes of two axes")

    def coordinates(self, X: Array, parts: Partition) -> tuple[Array, Callable[[Array], Array]]:
        xp = namespace(X)
        axes, W = independent_axes(X, parts, self.iterations, smallest=self.tolerance)
        white = whitening(axes, parts)
        sources = Affine(white @ W.transpose(0, 2, 1), before=axes.means)(X, parts)
        W = tree_axes(sources, parts, axes.s > 0, self.sweeps) @ W
        root = xp.sqrt(parts.sizes.astype(axes.s.dtype))[:, None]
        unmix = Affine(white @ W.transpose(0, 2, 1), before=axes.means)
        mix = Affine(W @ ((axes.s / root)[:, :, None] * axes.V.transpose(0, 2, 1)), after=axes.means)
        return unmix(X, parts), lambda T: mix(T, parts)
