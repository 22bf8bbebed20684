"""Data races: two threads access the same word, one of them writes, and nothing orders them.

Accesses of one block are ordered by its barriers, those of one warp by ``__syncwarp`` as well; nothing orders
different blocks.  Shuffles and votes order nothing (the programming guide: they imply no memory barrier).
Writing the value that is already there counts as reading: the outcome does not depend on who comes last.

Accesses are only noted while the kernel runs and judged together afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.cuda.support.faults import Race

Words = np.ndarray[Any, Any]

READ, WRITE, ATOMIC = 0, 1, 2
WARP = 32
_WARP_BARRIER_BITS = 24
JUDGED_AT_ONCE = 20_000
"""Accesses after which races are checked; between two barriers there may be more."""


class Clock:
    """How many barriers each lane has passed; `times` packs block barriers and warp barriers since."""

    def __init__(self, threads: Words) -> None:
        self.threads = threads.astype(np.int64)
        self.block_barriers = np.zeros(len(threads), np.int64)
        self.warp_barriers = np.zeros(len(threads), np.int64)
        self._stamp()

    def pass_block_barrier(self, lanes: Words) -> None:
        self.block_barriers[lanes] += 1
        self.warp_barriers[lanes] = 0
        self._stamp()

    def pass_warp_barrier(self, lanes: Words) -> None:
        self.warp_barriers[lanes] += 1
        self._stamp()

    def _stamp(self) -> None:
        # A new array each time: what was noted before keeps the old one.
        self.times = self.block_barriers << _WARP_BARRIER_BITS | self.warp_barriers


@dataclass
class _Note:
    """Some lanes' accesses by one instruction."""

    words: Words
    lanes: Words
    times: Words
    kind: int | Words
    line: str


class History:
    """The accesses to one piece of memory in a launch, by word.

    name      : for messages
    across    : whether several blocks share it (global memory)
    """

    def __init__(self, name: str, words: int, lanes_per_block: int, across: bool) -> None:
        self.name, self.lanes_per_block, self.across = name, lanes_per_block, across
        self.notes: list[_Note] = []
        self.noted = 0
        self.threads = np.empty(0, np.int64)
        if across:
            self.first_block = np.full(words, np.iinfo(np.int64).max)
            self.last_block = np.full(words, -1)
            self.plain, self.written, self.updated, self.constant = (np.zeros(words, np.bool_) for _ in range(4))

    def note(self, words: Words, lanes: Words, clock: Clock, kind: int | Words, line: str) -> None:
        """Store accesses; they are checked at a barrier or at the end."""
        self.threads = clock.threads
        self.notes.append(_Note(words, lanes, clock.times, kind, line))
        self.noted += len(words)

    def at_barrier(self) -> None:
        """Every block has come to a barrier or to its end: nothing that comes later can race with what was noted."""
        if self.noted > JUDGED_AT_ONCE:
            self.judge()

    def note_constant(self, words: Words) -> None:
        """Remember reads through the read-only cache: no thread may write such a word during the launch."""
        self.constant[words] = True

    def judge(self) -> None:
        """Check the stored accesses for races, and delete them."""
        notes, self.notes, self.noted = self.notes, [], 0
        if not notes:
            return
        words = np.concatenate([note.words for note in notes])
        threads = np.concatenate([self.threads[note.lanes] for note in notes])
        times = np.concatenate([note.times[note.lanes] for note in notes])
        kinds = np.concatenate([np.broadcast_to(np.asarray(note.kind, np.int8), len(note.words)) for note in notes])
        lines = np.repeat(np.arange(len(notes)), [len(note.words) for note in notes])
        changing = kinds != READ
        if self.across:
            self._note_blocks(words, threads // self.lanes_per_block, kinds)
        if not changing.any():
            return
        touched = np.zeros(int(words.max()) + 1, np.bool_)
        touched[words[changing]] = True
        chosen = np.flatnonzero(touched[words])
        found = _within_block(words[chosen], threads[chosen], times[chosen], kinds[chosen])
        if found is not None:
            one, other = (chosen[i] for i in found)
            raise Race(
                f"{self.name}: nothing orders the accesses of thread {int(threads[one]) % self.lanes_per_block} at "
                f"{notes[lines[one]].line} and thread {int(threads[other]) % self.lanes_per_block} at "
                f"{notes[lines[other]].line}, block {int(threads[one]) // self.lanes_per_block}"
            )

    def _note_blocks(self, words: Words, blocks: Words, kinds: Words) -> None:
        """Which thread blocks accessed a word, and how."""
        np.minimum.at(self.first_block, words, blocks)
        np.maximum.at(self.last_block, words, blocks)
        self.plain[words[kinds != ATOMIC]] = True
        self.written[words[kinds == WRITE]] = True
        self.updated[words[kinds == ATOMIC]] = True

    def finish(self) -> None:
        """At the end of a launch: words that several blocks touched and one changed, and constants that changed."""
        self.judge()
        changed = self.written | (self.updated & self.plain)
        shared = changed & (self.last_block > self.first_block)
        if shared.any():
            word = int(np.argmax(shared))
            raise Race(
                f"{self.name}: blocks {self.first_block[word]} and {self.last_block[word]} touch word {word}, "
                "one of them writes, and nothing orders blocks"
            )
        if (self.constant & (self.written | self.updated)).any():
            raise Race(f"{self.name}: a word is written and also read through the read-only cache")


def _within_block(words: Words, threads: Words, times: Words, kinds: Words) -> tuple[int, int] | None:
    """Two accesses of threads of one block that race, or None."""
    order = np.lexsort((threads, times >> _WARP_BARRIER_BITS, words))
    words, threads, times, kinds = words[order], threads[order], times[order], kinds[order]
    epochs = times >> _WARP_BARRIER_BITS
    new = np.concatenate([[True], (words[1:] != words[:-1]) | (epochs[1:] != epochs[:-1])])
    start = np.flatnonzero(new)
    end = np.concatenate([start[1:], [len(words)]]) - 1
    several = threads[start] != threads[end]  # sorted by thread inside a group
    changed = np.logical_or.reduceat(kinds != READ, start) & ~np.logical_and.reduceat(kinds == ATOMIC, start)
    for group in np.flatnonzero(several & changed):
        inside = slice(start[group], end[group] + 1)
        pair = _pair(threads[inside], times[inside], kinds[inside])
        if pair is not None:
            return int(order[start[group] + pair[0]]), int(order[start[group] + pair[1]])
    return None


def _pair(threads: Words, times: Words, kinds: Words) -> tuple[int, int] | None:
    """Among accesses to one word between two block barriers: a racing pair, or None."""
    writers = np.flatnonzero(kinds != READ)
    for writer in writers[: 4 * WARP]:
        clash = (threads != threads[writer]) & ~((kinds == ATOMIC) & (kinds[writer] == ATOMIC))
        ordered = (threads // WARP == threads[writer] // WARP) & (times != times[writer])
        racing = np.flatnonzero(clash & ~ordered)
        if len(racing):
            return int(writer), int(racing[0])
    return None
