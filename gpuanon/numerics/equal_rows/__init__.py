"""Which rows of a matrix are equal: one sort of a 64-bit hash per row instead of a sort of every column."""

from __future__ import annotations

import math

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device, to_host
from gpuanon.arrays.compiled import use_loaded
from gpuanon.arrays.ranges import ranges, row_ranges
from gpuanon.arrays.sorting import LEAST_COMPILED, argsort_words

_BITS = 63
_IN_CACHE = 1 << 15  # words of a table that stay in a core's cache
_WHOLE_WORDS = (np.float64, np.int64)  # types whose values are words as they are
_SAVED = 2  # rows for which a compiled function saves as much as for one in `use_compiled`


def equal_rows(X: Array, within: Array | None = None) -> Array:
    """(n,) int64 class of each row of `X` (n, d), from 0: rows that are equal (and equal in `within`) share a class.

    Numbers are compared bit by bit, after −0 became 0; NaN equals NaN.  Classes ascend with `within`.

    Cost : one pass over whole numbers of small range, else see `equal_rows_adjacent`.
    """
    xp = namespace(X)
    if X.dtype.kind in "iu" and len(X):
        labels = _small_numbers(X if within is None else xp.concatenate([within[:, None].astype(X.dtype), X], axis=1))
        if labels is not None:
            return labels
    order, first = equal_rows_adjacent(X, within)
    labels = xp.empty(len(X), dtype=np.int64)
    labels[order] = xp.cumsum(first) - 1
    return labels


def equal_rows_adjacent(X: Array, within: Array | None = None) -> tuple[Array, Array]:
    """(n,) an order in which equal rows are adjacent and ascend, and (n,) whether a row differs from the one before it.

    Rows are compared as in `equal_rows`.

    Cost : one sort of n hashes (two sorts with `within`).  Adjacent rows of the same hash are compared; if two of them
        differ, all columns are sorted instead.
    """
    xp = namespace(X)
    hashes = _hashes(X)
    order = argsort_words(hashes)
    if within is not None:
        order = order[xp.argsort(within[order], kind="stable")]
    first, collision = _boundaries(X, hashes, within, order)
    if collision:
        words = _words(X)
        order = _sorted_by_columns(words, within)
        first = _differ_from_last(words, within, order)
    return order, first


def packed(bits: Array) -> Array:
    """(n, words) int64 that hold the `bits` (n, d) of each row, 63 per word: rows are equal if their words are."""
    xp = namespace(bits)
    words = []
    for at in range(0, bits.shape[1], _BITS):
        piece = bits[:, at : at + _BITS]
        words.append((piece.astype(np.int64) << xp.arange(piece.shape[1], dtype=np.int64)).sum(axis=1))
    return xp.stack(words, axis=1)


def _small_numbers(X: Array) -> Array | None:
    """Classes of whole numbers by counting, if there are few more possible rows than rows; else None."""
    xp = namespace(X)
    low = X.min(axis=0)
    widths = [int(width) for width in to_host(X.max(axis=0) - low) + 1]
    possible = math.prod(widths)
    if not 0 < possible <= max(4096, 2 * len(X)) or min(widths, default=1) < 1:  # a range beyond 64 bits wraps
        return None
    place = xp.zeros(len(X), dtype=np.int64)
    for j, width in enumerate(widths):
        place = place * width + (X[:, j] - low[j])
    occupied = xp.zeros(possible, dtype=np.int64)
    occupied[place] = 1
    return (xp.cumsum(occupied) - 1)[place]


def _words(X: Array) -> Array:
    """The rows as 64-bit words."""
    xp = namespace(X)
    if X.dtype.kind == "f":
        return xp.ascontiguousarray(X.astype(np.float64) + 0.0).view(np.uint64)
    return xp.ascontiguousarray(X.astype(np.int64)).view(np.uint64)


def _hashes(X: Array) -> Array:
    """(n,) one uint64 per row; equal rows have equal hashes.

    The words of some rows at a time: all columns of them are in a core's cache, and there is no copy of the table.
    """
    n, d = X.shape
    # A fixed odd multiplier per column, so that bits of every column reach the top of the sum.
    odd = np.random.default_rng(1952).integers(0, 2**63, max(d, 1), dtype=np.uint64) * 2 + 1
    hashes = namespace(X).zeros(n, dtype=np.uint64)
    for rows in row_ranges(X, max(1, _IN_CACHE // max(d, 1))):
        words = _words(X[rows])
        for j in range(d):
            hashes[rows] += (words[:, j] ^ (words[:, j] >> np.uint64(32))) * odd[j]
    return hashes


def _boundaries(X: Array, hashes: Array, within: Array | None, order: Array) -> tuple[Array, bool]:
    """(n,) whether a row of `order` differs from the one before it, and whether different rows share a hash.

    Only rows with the hash of the one before them are compared: the others differ from it.
    """
    xp = namespace(X)
    first = xp.ones(len(order), dtype=bool)
    ordered = hashes[order]
    apart = ordered[1:] != ordered[:-1]
    if within is not None:
        apart |= within[order[1:]] != within[order[:-1]]
    first[1:] = apart
    alike = xp.flatnonzero(~apart) + 1
    if (
        not on_device(X)
        and X.dtype in _WHOLE_WORDS
        and len(alike) >= LEAST_COMPILED
        and use_loaded(len(alike) // _SAVED)
    ):
        return first, _any_differs_compiled(X, order, alike)
    step = len(alike) if on_device(X) else _IN_CACHE // max(X.shape[1], 1)
    for some in ranges(len(alike), max(1, step)):
        at = alike[some]
        if bool((_words(X[order[at]]) != _words(X[order[at - 1]])).any()):
            return first, True
    return first, False


def _any_differs_compiled(X: Host, order: Host, alike: Host) -> bool:
    """Whether one of the rows at the places `alike` of `order` differs from the row before it."""
    from gpuanon.numerics.equal_rows.compiled_rows import any_differs

    floats = X.dtype.kind == "f"
    return bool(any_differs(np.ascontiguousarray(X).view(np.uint64), floats, order, alike))


def warm_compiled() -> None:
    """Compile the comparison of rows, or load its machine code; to be called where numba is installed."""
    _any_differs_compiled(np.zeros((2, 1)), np.arange(2), np.ones(1, dtype=np.int64))


def _differ_from_last(words: Array, within: Array | None, order: Array) -> Array:
    """(n,) whether a row of `order` differs from the one before it, all columns compared."""
    xp = namespace(words)
    first = xp.ones(len(order), dtype=bool)
    first[1:] = (words[order[1:]] != words[order[:-1]]).any(axis=1)
    if within is not None:
        first[1:] |= within[order[1:]] != within[order[:-1]]
    return first


def _sorted_by_columns(words: Array, within: Array | None) -> Array:
    """Order of the rows by a stable sort of every column: the fallback on a hash collision."""
    xp = namespace(words)
    order = xp.arange(len(words), dtype=np.int64)
    columns = [words[:, j] for j in range(words.shape[1])]
    for key in columns if within is None else [*columns, within]:
        order = order[xp.argsort(key[order], kind="stable")]
    return order
