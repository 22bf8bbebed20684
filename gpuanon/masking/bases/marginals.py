"""Marginals: after the inverse, every column of a group holds exactly the values that it held before."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.sorting import argsort_rows, sort_rows
from gpuanon.arrays.threads import each
from gpuanon.numerics.lockstep import even_batches, gather, scatter


def restore_marginals(Y: Array, X: Array, parts: Partition) -> Array:
    """Give each column of `Y` (n, d), inside each part, the values of `X` in the order of its own.

    The smallest value of `Y` becomes the smallest of `X`, and so on; of equal values of `Y` the lower row receives the
    smaller.  A column that has only two values in its part stands for a category, which is decoded with the other
    indicators of its table column: ranks of one alone would separate them.  It is only shifted, so that as many rows as
    before lie above the middle.

    Real values are released this way, the extreme ones too, though not together with those they came with.
    """
    xp = namespace(Y)
    out = xp.empty_like(Y)

    def work(batch: Batch) -> None:
        values = xp.ascontiguousarray(gather(X, batch).transpose(0, 2, 1))
        image = xp.ascontiguousarray(gather(Y, batch).transpose(0, 2, 1))
        restored = _restored(values, image, batch.valid[:, None])
        scatter(restored.transpose(0, 2, 1), batch, out)

    each(work, even_batches(parts))
    return out


def _restored(values: Array, image: Array, valid: Array) -> Array:
    """(b, c, length) values in the order of their image."""
    xp = namespace(values)
    ordered = sort_rows(xp.where(valid, values, np.inf))
    order = argsort_rows(xp.where(valid, image, np.inf))
    ranked = _inverse(order, ordered)
    kinds = 1 + ((ordered[:, :, 1:] != ordered[:, :, :-1]) & valid[:, :, 1:]).sum(axis=2, keepdims=True)
    shifted = image + _shift(ordered, xp.take_along_axis(image, order, axis=2), valid)
    return xp.where(kinds == 2, shifted, ranked)


def _shift(ordered: Array, image: Array, valid: Array) -> Array:
    """(b, c, 1) what leaves as many of the ascending `image` above the middle of the two values as there were."""
    xp = namespace(ordered)
    rows = valid.sum(axis=2, keepdims=True)
    low, high = ordered[:, :, :1], xp.take_along_axis(ordered, rows - 1 + xp.zeros_like(ordered[:, :, :1], int), axis=2)
    below = ((ordered == low) & valid).sum(axis=2, keepdims=True)
    last = xp.take_along_axis(image, xp.maximum(below - 1, 0), axis=2)
    first = xp.take_along_axis(image, xp.minimum(below, rows - 1), axis=2)
    return 0.5 * (low + high) - 0.5 * (last + first)


def _inverse(order: Array, ordered: Array) -> Array:
    """(b, c, length) the k-th of `ordered` at the place `order[k]` of its line."""
    xp = namespace(order)
    b, c, length = order.shape
    out = xp.empty_like(ordered)
    out.reshape(b * c, length)[xp.arange(b * c)[:, None], order.reshape(b * c, length)] = ordered.reshape(b * c, length)
    return out
