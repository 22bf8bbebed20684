"""Finds data races: two threads touch the same word, one of them writes, and nothing orders them.

Accesses of one block are ordered by its barriers, those of one warp by ``__syncwarp`` as well; nothing orders
different blocks.  Shuffles and votes order nothing (the programming guide: they imply no memory barrier).
Writing the value that is already there is let pass: the outcome does not depend on who comes last.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Words = np.ndarray[Any, Any]

_THREAD_BITS, _WARP_BITS = 26, 18
_THREAD = np.int64((1 << _THREAD_BITS) - 1)
_TO_BLOCK_TIME = np.int64(_WARP_BITS + _THREAD_BITS)
WARP = 32


class Clock:
    """How many barriers each lane has passed.

    `stamps` packs (block barriers + 1, warp barriers since, thread) into one integer per lane; 0 means never.
    """

    def __init__(self, threads: Words) -> None:
        self.threads = threads.astype(np.int64)
        self.block_barriers = np.zeros(len(threads), np.int64)
        self.warp_barriers = np.zeros(len(threads), np.int64)
        self.stamps = np.empty(0, np.int64)
        self._stamp()

    def pass_block_barrier(self, lanes: Words) -> None:
        self.block_barriers[lanes] += 1
        self.warp_barriers[lanes] = 0
        self._stamp()

    def pass_warp_barrier(self, lanes: Words) -> None:
        self.warp_barriers[lanes] += 1
        self._stamp()

    def _stamp(self) -> None:
        times = (self.block_barriers + 1) << _TO_BLOCK_TIME | self.warp_barriers << _THREAD_BITS
        self.stamps = times | self.threads


class Shadow:
    """The access history of a piece of memory, word by word.

    written  : the last plain write
    updated  : the last atomic update
    reader   : a thread that read since, and
    reader_2 : another one, of another block or warp if there is one: any later write races with one of the two
    constant : read through the read-only cache, so nobody may write it during the launch
    """

    def __init__(self, words: int, lanes_per_block: int) -> None:
        self.lanes_per_block = lanes_per_block
        self.written = np.zeros(words, np.int64)
        self.reader = np.zeros(words, np.int64)
        self.reader_2 = np.zeros(words, np.int64)
        self.updated: Words | None = None
        self.constant: Words | None = None

    def reads(self, words: Words, stamps: Words, constant: bool = False) -> Words:
        """Record reads; True where one races with a write."""
        if constant:
            if self.constant is None:
                self.constant = np.zeros(len(self.written), np.bool_)
            self.constant[words] = True
            return self.written[words] != 0
        race = self._unordered(self.written[words], stamps)
        if self.updated is not None:
            race |= self._unordered(self.updated[words], stamps)
        # Lanes ascend: the lowest and the highest that read a word differ in block or warp if any two do.
        self._remember_reader(words[::-1], stamps[::-1])
        self._remember_reader(words, stamps)
        return race

    def writes(self, words: Words, stamps: Words, unchanged: Words) -> Words:
        """Record writes; True where one races.  `unchanged` marks words that already held the value."""
        race = self._unordered(self.written[words], stamps)
        race |= self._unordered(self.reader[words], stamps)
        race |= self._unordered(self.reader_2[words], stamps)
        if self.updated is not None:
            race |= self._unordered(self.updated[words], stamps)
        if self.constant is not None:
            race |= self.constant[words]
        self.written[words] = stamps
        return race & ~unchanged

    def updates(self, words: Words, stamps: Words) -> Words:
        """Record atomic updates: they are ordered among themselves, not with plain accesses."""
        if self.updated is None:
            self.updated = np.zeros(len(self.written), np.int64)
        race = self._unordered(self.written[words], stamps)
        race |= self._unordered(self.reader[words], stamps)
        race |= self._unordered(self.reader_2[words], stamps)
        self.updated[words] = stamps
        return race

    def _unordered(self, before: Words, now: Words) -> Words:
        """Where the access `before` was another thread's and no barrier lies between it and `now`."""
        found = (before != 0) & ((before ^ now) & _THREAD != 0)
        if found.any():
            found &= ~self._ordered(before, now)
        return found

    def _ordered(self, before: Words, now: Words) -> Words:
        who, me = before & _THREAD, now & _THREAD
        earlier = before >> _THREAD_BITS < now >> _THREAD_BITS
        by_block = (who // self.lanes_per_block == me // self.lanes_per_block) & (
            before >> _TO_BLOCK_TIME < now >> _TO_BLOCK_TIME
        )
        return by_block | ((who // WARP == me // WARP) & earlier)

    def _remember_reader(self, words: Words, stamps: Words) -> None:
        first, second = self.reader[words], self.reader_2[words]
        replace_first = self._outdated(first, stamps)
        replace_second = ~replace_first & (
            self._outdated(second, stamps) | (self._distance(first, stamps) > self._distance(first, second))
        )
        self.reader[words] = np.where(replace_first, stamps, first)
        self.reader_2[words] = np.where(replace_second, stamps, second)

    def _outdated(self, before: Words, now: Words) -> Words:
        """Where `now` says all that `before` said: nothing, the same thread, or ordered before it."""
        return (before == 0) | ((before ^ now) & _THREAD == 0) | self._ordered(before, now)

    def _distance(self, a: Words, b: Words) -> Words:
        """0 same warp, 1 same block, 2 different blocks."""
        a, b = a & _THREAD, b & _THREAD
        return (a // WARP != b // WARP).astype(np.int8) + (a // self.lanes_per_block != b // self.lanes_per_block)
