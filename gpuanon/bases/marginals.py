"""Marginals: after the way back, every column of a group holds again exactly the values that it held before."""

from __future__ import annotations

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.threads import each
from gpuanon.numerics.lockstep import even_batches, gather, scatter


def restore_marginals(Y: Array, X: Array, parts: Partition) -> Array:
    """Give each column of `Y` (n, d), inside each part, the values of `X` in the order of its own.

    The smallest value of `Y` becomes the smallest of `X`, and so on; of equal values of `Y` the lower row receives the
    smaller.  A column that has only two values in its part is left as it is: it stands for a category, which is
    decoded with its sisters, and ranks of one alone would tear them apart.

    Real values are released this way, the extreme ones too, though not together with those they came with.
    """
    xp = namespace(Y)
    out = xp.empty_like(Y)

    def work(batch: Batch) -> None:
        values = xp.ascontiguousarray(gather(X, batch).transpose(0, 2, 1))
        image = xp.ascontiguousarray(gather(Y, batch).transpose(0, 2, 1))
        padding = ~batch.valid[:, None]
        ordered = xp.sort(xp.where(padding, np.inf, values), axis=2)
        new = (ordered[:, :, 1:] != ordered[:, :, :-1]) & batch.valid[:, None, 1:]
        few = new.sum(axis=2, keepdims=True) < 2
        rank = _ranks(xp.where(padding, np.inf, image))
        scatter(xp.where(few, image, xp.take_along_axis(ordered, rank, axis=2)).transpose(0, 2, 1), batch, out)

    each(work, even_batches(parts))
    return out


def _ranks(values: Array) -> Array:
    """(b, c, length) rank of each value in its line; ties go to the lower position."""
    xp = namespace(values)
    order = xp.argsort(values, axis=2, kind="stable")
    ranks = xp.empty_like(order)
    b, c, length = values.shape
    lines = xp.arange(b * c)[:, None]
    ranks.reshape(b * c, length)[lines, order.reshape(b * c, length)] = xp.arange(length)
    return ranks
