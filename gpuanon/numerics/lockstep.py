"""Parts in lock step: rows gathered into padded (parts, length, columns) arrays, worked on, and put back.

The padded length of a part depends on the part alone (its size, rounded up), so what is computed for a part does
not change, not even in the last bit, with the other parts that happen to be there: on one machine or on many.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host
from gpuanon.arrays.partition import Batch, Partition
from gpuanon.arrays.threads import each

Host = np.ndarray[Any, Any]

CELLS = 1 << 15
"""(part, row) cells in a batch: with some tens of columns they stay in a core's cache."""

TILE = 1 << 12
"""Rows of a tile, the piece in which a long part is worked on where its rows do not depend on each other."""


def padded_lengths(sizes: Host) -> Host:
    """Part sizes rounded up to five significant bits: little waste, few different lengths."""
    step = 1 << np.maximum(0, np.frexp(sizes.astype(np.float64))[1].astype(np.int64) - 5)
    return np.asarray(-(-sizes // step) * step)


def even_batches(p: Partition, chosen: Host | None = None, cells: int = CELLS) -> list[Batch]:
    """Batches of (the chosen) parts that share a padded length, at most `cells` (part, row) cells each.

    A part longer than `cells` is a batch of its own.
    """
    xp = namespace(p.order)
    sizes = to_host(p.sizes)
    lengths = padded_lengths(sizes)
    chosen = np.arange(p.parts) if chosen is None else chosen
    out = []
    for length in np.unique(lengths[chosen]):
        members = chosen[lengths[chosen] == length]
        count = max(1, cells // int(length))
        offsets = xp.arange(int(length), dtype=np.int64)[None, :]
        for at in range(0, len(members), count):
            parts = xp.asarray(members[at : at + count])
            valid = offsets < p.sizes[parts][:, None]
            rows = p.order[xp.where(valid, p.starts[parts][:, None] + offsets, p.starts[parts][:, None])]
            out.append(Batch(parts, rows, valid))
    return out


def tiles(p: Partition, rows: int = TILE) -> tuple[Partition, Array]:
    """Cut every part, in its order, into tiles of at most `rows` rows; also the part (tiles,) that owns each."""
    xp = namespace(p.order)
    starts, sizes = to_host(p.starts), to_host(p.sizes)
    counts = -(-sizes // rows)
    owner = np.repeat(np.arange(p.parts), counts)
    inside = np.arange(len(owner)) - np.repeat(np.cumsum(counts) - counts, counts)
    cuts = np.append(starts[owner] + inside * rows, p.n)
    return Partition(p.order, xp.asarray(cuts)), xp.asarray(owner)


def gather(X: Array, batch: Batch) -> Array:
    """(b, length, ...) rows of the batch's parts, as a copy; padding repeats the part's first row."""
    return X[batch.rows]


def scatter(values: Array, batch: Batch, out: Array) -> None:
    """Put (b, length, ...) values of a batch into the rows of `out`; padding is left out."""
    # Padding repeats a part's first row: it must write the first row's value, whoever comes last.
    out[batch.rows] = namespace(out).where(_mask(batch, values), values, values[:, :1])


def _mask(batch: Batch, values: Array) -> Array:
    """`valid`, shaped to go with `values`."""
    return batch.valid.reshape(*batch.valid.shape, *(1,) * (values.ndim - 2))


def random_order(words: Array, valid: Array) -> Array:
    """(..., length) positions in the order of their random `words` (uint32); padding keeps its place at the end.

    Equal words go to the lower position.  Word and position are packed into one number: a plain sort is then stable,
    the same on every device, and several times faster than an argument sort.
    """
    xp = namespace(words)
    positions = xp.arange(words.shape[-1], dtype=np.uint64)
    keys = (xp.where(valid, words.astype(np.uint64), np.uint64(0xFFFFFFFF)) << np.uint64(32)) | positions
    return (xp.sort(keys, axis=-1) & np.uint64(0xFFFFFFFF)).astype(np.int64)


def centre(Z: Array, valid: Array) -> tuple[Array, Array]:
    """Take its part's mean from every gathered row of `Z` (b, length, d), in place; also the means (b, d).

    Padding becomes zero, and so does, exactly, a column that is constant in its part.
    """
    xp = namespace(Z)
    first = Z[:, :1].copy()
    Z -= first  # from the first row on: no cancellation against a large common offset, and padding is zero already
    shift = Z.sum(axis=1) / valid.sum(axis=1)[:, None].astype(Z.dtype)
    shift = xp.where(Z.any(axis=1), shift, 0.0)
    Z -= shift[:, None]
    Z *= valid[:, :, None]
    return Z, first[:, 0] + shift


@dataclass(frozen=True)
class Affine:
    """One affine map a part: ``(x − before) @ matrix + after``.

    matrix : (g, d, c)
    before : (g, d) or None for zero
    after  : (g, c) or None for zero
    """

    matrix: Array
    before: Array | None = None
    after: Array | None = None

    def __call__(self, X: Array, p: Partition) -> Array:
        """(n, c) images of the rows of `X`, each by its part's map."""
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
    """(g, *shape) sums, over each part, of what `function` (batch of tiles, their parts) → (b, *shape) gives."""
    xp = namespace(like)
    pieces, owner = tiles(p)
    totals = xp.empty((pieces.parts, *shape))

    def work(batch: Batch) -> None:
        totals[batch.parts] = function(batch, owner[batch.parts])

    each(work, even_batches(pieces))
    first = xp.flatnonzero(xp.concatenate([xp.ones(1, dtype=bool), owner[1:] != owner[:-1]]))
    return xp.add.reduceat(totals, first, axis=0)
