"""Sorts that are radix sorts on a device.

CuPy sorts one-dimensional arrays of numbers by radix.  `lexsort` and sorts of several rows compare elements instead,
which is several times slower.  So these are chains of stable one-dimensional sorts there, the primary key last.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpuanon.arrays.backend import Array, Host, namespace, on_device
from gpuanon.arrays.compiled import use_loaded

LEAST_COMPILED = 1 << 19
"""Words from which on they are sorted or compared by compiled functions: fewer take less time than these to load."""

_SAVED = 4  # words for which a compiled function saves as much as for one in `use_compiled`
_COARSE = 13  # bits of a bucket at most: more buckets are written to than a core's caches have lines for


def lexicographic_order(keys: Sequence[Array]) -> Array:
    """(n,) int64 order by the last of the (n,) `keys`, then by the one before it, …; ties keep their order."""
    if not on_device(keys[0]):
        return np.lexsort(keys)
    xp = namespace(keys[0])
    order = xp.argsort(keys[0], kind="stable")
    for key in keys[1:]:
        order = order[xp.argsort(key[order], kind="stable")]
    return order.astype(np.int64, copy=False)


def distinct(values: Host) -> Host:
    """The different values of a host array (n,), ascending: `np.unique`, which imports numpy.ma."""
    ordered = np.sort(values)
    first = np.ones(len(ordered), dtype=bool)
    np.not_equal(ordered[1:], ordered[:-1], out=first[1:])
    return ordered[first]


def argsort_words(words: Array) -> Array:
    """(n,) int64 stable order of `words` (n,) uint64, which are hashes or random: their upper bits differ.

    The place of a word takes its lower bits, and numbers are sorted in place of pairs: half the time of an argsort.
    Where different words share their upper bits, only these are sorted by all their bits.  Many words are sorted by a
    compiled function, if not too many of them share their upper bits.
    """
    if not on_device(words) and LEAST_COMPILED <= len(words) < 1 << 31 and use_loaded(len(words) // _SAVED):
        found = _argsort_compiled(np.ascontiguousarray(words))
        if found is not None:
            return found
    xp = namespace(words)
    places = np.uint64((1 << max(0, len(words) - 1).bit_length()) - 1)
    packed = (words & ~places) | xp.arange(len(words), dtype=np.uint64)
    packed.sort()
    order = (packed & places).astype(np.int64)
    held = words[order]
    if bool((held[1:] >= held[:-1]).all()):
        return order
    packed &= ~places
    run = xp.cumsum(xp.concatenate([packed[:1] != packed[:1], packed[1:] != packed[:-1]]))
    mixed = xp.zeros(len(words), dtype=bool)
    mixed[run[1:][(run[1:] == run[:-1]) & (held[1:] != held[:-1])]] = True
    at = xp.flatnonzero(mixed[run])
    order[at] = order[at][lexicographic_order((held[at], run[at]))]
    return order


def _argsort_compiled(words: Host) -> Host | None:
    """The same order; None where too many different words share their upper bits."""
    from gpuanon.arrays.compiled_sorting import argsort_by_radix

    n = len(words)
    coarse = min(max(n.bit_length() - 8, 1), _COARSE)
    fine = max(8, n.bit_length() - coarse - 3)
    ends, order = np.zeros(1 << coarse, dtype=np.int64), np.empty(n, dtype=np.int64)
    keys, places = np.empty(n, dtype=np.uint64), np.empty(n, dtype=np.int32)
    return order if argsort_by_radix(words, coarse, fine, ends, keys, places, order) else None


def warm_compiled() -> None:
    """Compile the sort, or load its machine code; to be called where numba is installed."""
    _argsort_compiled(np.arange(2, dtype=np.uint64))


def argsort_labels(labels: Array) -> Array:
    """(n,) int64 stable order of whole numbers (n,).

    NumPy sorts numbers of 16 bits by radix and wider ones by comparison.  So the host sorts by the lower and then by
    the upper 16 bits of the numbers, where they have no more than 32: less than half the time.
    """
    if not on_device(labels) and len(labels) and labels.dtype.kind in "iu":
        if bool((labels[1:] >= labels[:-1]).all()):
            return np.arange(len(labels), dtype=np.int64)
        low = labels.min()
        wide = int(labels.max()) - int(low)
        if wide < 1 << 32:
            digits = (labels.astype(np.int64, copy=False) - low.astype(np.int64)).astype(np.uint32)
            order = np.argsort(digits.astype(np.uint16), kind="stable")
            if wide >= 1 << 16:
                order = order[np.argsort((digits >> np.uint32(16)).astype(np.uint16)[order], kind="stable")]
            return order
    return namespace(labels).argsort(labels, kind="stable").astype(np.int64, copy=False)


def argsort_rows(values: Array) -> Array:
    """(..., length) stable order of each row of `values`, along the last axis."""
    xp = namespace(values)
    if not on_device(values) or values.ndim == 1:
        return xp.argsort(values, axis=-1, kind="stable")
    length = values.shape[-1]
    flat, rows = _order_of_rows(values)
    return (flat - rows * length).reshape(values.shape)


def sort_rows(values: Array) -> Array:
    """The rows of `values`, each sorted along the last axis."""
    xp = namespace(values)
    if not on_device(values) or values.ndim == 1:
        return xp.sort(values, axis=-1)
    return values.reshape(-1)[_order_of_rows(values)[0]].reshape(values.shape)


def _order_of_rows(values: Array) -> tuple[Array, Array]:
    """(size,) places of the elements, row after row and ascending inside a row, and the row of each place."""
    xp, length = namespace(values), max(1, values.shape[-1])
    by_value = xp.argsort(values.reshape(-1), kind="stable")
    count = values.size // length
    # The fewer bits a key has, the fewer passes a radix sort makes.
    row = (by_value // length).astype(np.uint16 if count <= 1 << 16 else np.uint32)
    order = by_value[xp.argsort(row, kind="stable")].astype(np.int64, copy=False)
    return order, order // length
