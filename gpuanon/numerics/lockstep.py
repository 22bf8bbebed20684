"""Linear algebra on padded batches of parts: random orders, centred rows, one affine map per part, sums over parts.

The batches themselves are made by `gpuanon.arrays.batches`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gpuanon.arrays.backend import Array, namespace
from gpuanon.arrays.batches import even_batches, gather, scatter, tiles
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.rng import Draws
from gpuanon.arrays.sorting import sort_rows
from gpuanon.arrays.threads import each

__all__ = ["Affine", "centre", "even_batches", "gather", "random_order", "random_words", "scatter", "sum_over_tiles"]

_CHUNK = 1 << 15


def random_order(words: Array, valid: Array) -> Array:
    """(..., length) positions in the order of their random `words` (uint32); padding keeps its place at the end.

    Equal words go to the lower position.  Word and position are packed into one number: a plain sort of these is
    stable, gives the same order on every device, and is several times faster than an argsort.
    """
    xp = namespace(words)
    positions = xp.arange(words.shape[-1], dtype=np.uint64)
    keys = (xp.where(valid, words.astype(np.uint64), np.uint64(0xFFFFFFFF)) << np.uint64(32)) | positions
    return (sort_rows(keys) & np.uint64(0xFFFFFFFF)).astype(np.int64)


def random_words(draws: Draws, rows: Array, count: int) -> Array:
    """(b, count, length) uint32 of the records in `rows`, made in chunks on all cores when there are many."""
    xp = namespace(rows)
    flat = rows.reshape(-1)
    out = xp.empty((count, len(flat)), dtype=np.uint32)

    def work(at: int) -> None:
        out[:, at : at + _CHUNK] = draws.take(flat[at : at + _CHUNK]).words(count).T

    each(work, range(0, len(flat), _CHUNK))
    return out.reshape(count, *rows.shape).transpose(1, 0, 2)


def centre(Z: Array, valid: Array) -> tuple[Array, Array]:
    """Subtract the mean of its part from every row of `Z` (b, length, d), in place; also return the means (b, d).

    Padding becomes zero.  A column that is constant in its part becomes exactly zero.
    """
    xp = namespace(Z)
    first = Z[:, :1].copy()
    Z -= first  # relative to the first row: no cancellation against a large common offset, and padding becomes zero
    shift = Z.sum(axis=1) / valid.sum(axis=1)[:, None].astype(Z.dtype)
    shift = xp.where(Z.any(axis=1), shift, 0.0)
    Z -= shift[:, None]
    Z *= valid[:, :, None]
    return Z, first[:, 0] + shift


@dataclass(frozen=True)
class Affine:
    """One affine map per part: ``(x − before) @ matrix + after``.

    matrix : (g, d, c)
    before : (g, d) or None for zero
    after  : (g, c) or None for zero
    """

    matrix: Array
    before: Array | None = None
    after: Array | None = None

    def __call__(self, X: Array, p: Partition) -> Array:
        """(n, c) the rows of `X`, each mapped by the map of its part."""
        out = namespace(X).empty((len(X), self.matrix.shape[2]), dtype=X.dtype)
        pieces, owner = tiles(p)

        def work(batch: Batch) -> None:
            parts, Z = owner[batch.parts], gather(X, batch)
            if self.before is not None:
                Z -= self.before[parts][:, None]
            image = Z @ self.matrix[parts]
            if self.after is not None:
                image += self.after[parts][:, None]
            scatter(image, batch, out)

        each(work, even_batches(pieces))
        return out


def sum_over_tiles(
    function: Callable[[Batch, Array], Array], p: Partition, shape: tuple[int, ...], like: Array
) -> Array:
    """(g, *shape) sums over each part of the results of `function`: batch of tiles, their parts → (b, *shape)."""
    xp = namespace(like)
    pieces, owner = tiles(p)
    totals = xp.empty((pieces.parts, *shape))

    def work(batch: Batch) -> None:
        totals[batch.parts] = function(batch, owner[batch.parts])

    each(work, even_batches(pieces))
    first = xp.flatnonzero(xp.concatenate([xp.ones(1, dtype=bool), owner[1:] != owner[:-1]]))
    return xp.add.reduceat(totals, first, axis=0)
