"""The stable order of words, compiled: see `sorting.argsort_words`.

A radix sort by the upper bits, which differ because words are hashes or random, and insertions by all bits inside the
short runs that share them.  There is only one stable order of given words, so it is that of NumPy.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gpuanon.arrays.backend import Host
from gpuanon.arrays.compiled import ZERO, compiled, inner

_MOVES = 64  # of a word by insertion on average, at most


@inner
def _scatter(words: Host, shift: Any, ends: Host, keys: Host, places: Host) -> int:
    """Words and their places by their bits from `shift` up, stably; return the size of the largest bucket.

    ends : (buckets,) zeros, filled with where each bucket ends
    """
    for i in range(len(words)):
        ends[np.int64(words[i] >> shift)] += 1
    largest, total = ZERO, ZERO
    for b in range(len(ends)):
        size = ends[b]
        ends[b] = total
        total += size
        largest = size if size > largest else largest
    for i in range(len(words)):
        bucket = np.int64(words[i] >> shift)
        keys[ends[bucket]], places[ends[bucket]] = words[i], i
        ends[bucket] += 1
    return int(largest)


@inner
def _insert(keys: Host, n: int, order: Host, begin: int, most: int) -> int:
    """Sort n keys, and their places in `order` from `begin` on, by insertion; return the moves, or −1 beyond `most`."""
    moves = 0
    for i in range(1, n):
        key, place, at = keys[i], order[begin + i], i
        while at > 0 and keys[at - 1] > key:
            keys[at], order[begin + at] = keys[at - 1], order[begin + at - 1]
            at -= 1
        keys[at], order[begin + at] = key, place
        moves += i - at
        if moves > most:
            return -1
    return moves


@compiled
def argsort_by_radix(words: Host, coarse: int, fine: int, ends: Host, keys: Host, places: Host, order: Host) -> bool:
    """Fill `order` (n,) with the stable order of `words` (n,); return False where insertions are too many.

    coarse, fine : upper bits of a word by which all are sorted first, and further ones inside each bucket
    ends         : (2^coarse,) zeros, overwritten
    keys, places : (n,) scratch, uint64 and int32
    """
    largest = _scatter(words, np.uint64(64 - coarse), ends, keys, places)
    shift, mask = np.uint64(64 - coarse - fine), np.uint64((1 << fine) - 1)
    heads, bucket = np.empty(1 << fine, np.int64), np.empty(largest, np.uint64)
    begin, left = ZERO, _MOVES * len(words)
    for b in range(len(ends)):
        for f in range(len(heads)):
            heads[f] = 0
        for i in range(begin, ends[b]):
            heads[np.int64((keys[i] >> shift) & mask)] += 1
        total = ZERO
        for f in range(len(heads)):
            total += heads[f]
            heads[f] = total - heads[f]
        for i in range(begin, ends[b]):
            run = np.int64((keys[i] >> shift) & mask)
            bucket[heads[run]], order[begin + heads[run]] = keys[i], places[i]
            heads[run] += 1
        moves = _insert(bucket, ends[b] - begin, order, begin, left)
        if moves < 0:
            return False
        left -= moves
        begin = ends[b]
    return True
