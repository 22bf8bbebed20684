"""Which rows of a matrix are equal, by one sort of a 64-bit mix of each row instead of a sort of every column."""

from __future__ import annotations

import math

import numpy as np

from gpuanon.arrays.backend import Array, namespace, to_host

_BITS = 63


def equal_rows(X: Array, within: Array | None = None) -> Array:
    """(n,) int64 class of each row of `X` (n, d), from 0: rows that are equal (and equal in `within`) share a class.

    Numbers are compared bit by bit, after −0 became 0; NaN equals NaN.  Classes ascend with `within`.

    Cost : one pass over whole numbers of small range; else one sort of n numbers (two with `within`), where every
        class is checked on the rows themselves, and should two different rows ever mix to one number, the columns are
        sorted one by one.
    """
    xp = namespace(X)
    n, d = X.shape
    if X.dtype.kind in "iu" and n:
        labels = _small_numbers(X if within is None else xp.concatenate([within[:, None].astype(X.dtype), X], axis=1))
        if labels is not None:
            return labels
    words = _words(X)
    # A fixed odd multiplier a column: equal rows mix alike, and bits of every column reach the top of the sum.
    odd = np.random.default_rng(1952).integers(0, 2**63, max(d, 1), dtype=np.uint64) * 2 + 1
    mixed = xp.zeros(n, dtype=np.uint64)
    for j in range(d):
        mixed += (words[:, j] ^ (words[:, j] >> np.uint64(32))) * odd[j]
    order = xp.argsort(mixed, kind="stable")
    if within is not None:
        order = order[xp.argsort(within[order], kind="stable")]
    new, clash = _boundaries(words, mixed, within, order)
    if bool(clash):
        order = _by_columns(words, within)
        new, _ = _boundaries(words, mixed, within, order)
    labels = xp.empty(n, dtype=np.int64)
    labels[order] = xp.cumsum(new) - 1
    return labels


def packed(bits: Array) -> Array:
    """(n, words) int64 that hold the `bits` (n, d) of each row, 63 of them a word: rows are equal when these are."""
    xp = namespace(bits)
    words = []
    for at in range(0, bits.shape[1], _BITS):
        piece = bits[:, at : at + _BITS]
        words.append((piece.astype(np.int64) << xp.arange(piece.shape[1], dtype=np.int64)).sum(axis=1))
    return xp.stack(words, axis=1)


def _small_numbers(X: Array) -> Array | None:
    """Classes of whole numbers by counting, when there are not many more possible rows than rows; else None."""
    xp = namespace(X)
    low = X.min(axis=0)
    widths = [int(width) for width in to_host(X.max(axis=0) - low) + 1]
    cells = math.prod(widths)
    if not 0 < cells <= max(4096, 2 * len(X)) or min(widths, default=1) < 1:  # a range beyond 64 bits wraps
        return None
    place = xp.zeros(len(X), dtype=np.int64)
    for j, width in enumerate(widths):
        place = place * width + (X[:, j] - low[j])
    occupied = xp.zeros(cells, dtype=np.int64)
    occupied[place] = 1
    return (xp.cumsum(occupied) - 1)[place]


def _words(X: Array) -> Array:
    """The rows as 64-bit words."""
    xp = namespace(X)
    if X.dtype.kind == "f":
        return xp.ascontiguousarray(X.astype(np.float64) + 0.0).view(np.uint64)
    return xp.ascontiguousarray(X.astype(np.int64)).view(np.uint64)


def _boundaries(words: Array, mixed: Array, within: Array | None, order: Array) -> tuple[Array, Array]:
    """Marks of the first row of each class in `order`, and whether different rows stand under one mixed number."""
    xp = namespace(words)
    apart = xp.zeros(max(len(order) - 1, 0), dtype=bool)
    for j in range(words.shape[1]):
        column = words[order, j]
        apart |= column[1:] != column[:-1]
    clash = apart & (mixed[order[1:]] == mixed[order[:-1]])
    if within is not None:
        elsewhere = within[order[1:]] != within[order[:-1]]
        apart, clash = apart | elsewhere, clash & ~elsewhere
    new = xp.ones(len(order), dtype=bool)
    new[1:] = apart
    return new, clash.any()


def _by_columns(words: Array, within: Array | None) -> Array:
    """Order of the rows, column by column: the road for the case that does not happen."""
    xp = namespace(words)
    order = xp.arange(len(words), dtype=np.int64)
    columns = [words[:, j] for j in range(words.shape[1])]
    for key in columns if within is None else [*columns, within]:
        order = order[xp.argsort(key[order], kind="stable")]
    return order
