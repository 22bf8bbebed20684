"""Efficiency of a kernel's memory accesses, counted per request.

Global memory moves in sectors of 32 bytes; a warp's request is best when it touches no more sectors than its
distinct bytes fill.  Shared memory has 32 banks of 4 bytes; words of one bank that differ are fetched one after
another (8-byte accesses go by half warps, 16-byte ones by quarters).
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tests.cuda.support.memory import Access

SECTOR = 32
BANKS = 32


@dataclass
class Counter:
    """Requests of one instruction, what they took, and the least that such requests could take."""

    line: str
    what: str
    space: str
    requests: int = 0
    taken: int = 0
    least: int = 0
    worst: float = 0.0

    @property
    def ratio(self) -> float:
        """Taken over least: 1 is perfect."""
        return self.taken / max(self.least, 1)


class Traffic:
    """Counters by instruction."""

    def __init__(self) -> None:
        self.counters: dict[Any, Counter] = {}
        self.by_line: dict[str, list[Counter]] = defaultdict(list)

    def _counter(self, access: Access, space: str) -> Counter:
        key = (id(access.instruction), space)
        if key not in self.counters:
            counter = Counter(access.instruction.line, access.what, space)
            self.counters[key] = counter
            self.by_line[counter.line].append(counter)
        return self.counters[key]

    def count_global(self, access: Access, lanes: np.ndarray[Any, Any], addresses: np.ndarray[Any, Any]) -> None:
        """Sectors that the warps' requests touch."""
        warps = lanes // 32
        size = access.bytes
        sectors = _per_warp(warps, addresses // SECTOR)
        least = -(-_per_warp(warps, addresses // size) * size // SECTOR)
        self._add(self._counter(access, "global"), sectors, least)

    def count_shared(self, access: Access, lanes: np.ndarray[Any, Any], addresses: np.ndarray[Any, Any]) -> None:
        """Passes that the banks need for the warps' requests."""
        words = max(1, access.bytes // 4)
        phase = lanes * words // 32  # which part of which warp's request
        word = (addresses // 4)[:, None] + np.arange(words)
        phase = np.repeat(phase, words)
        keys = np.unique(phase * (1 << 24) + word.ravel())
        phases, inverse = np.unique(keys >> 24, return_inverse=True)
        bank = (keys & ((1 << 24) - 1)) % BANKS
        load = np.zeros((len(phases), BANKS), np.int64)
        np.add.at(load, (inverse, bank), 1)
        self._add(self._counter(access, "shared"), load.max(axis=1), np.ones(len(phases), np.int64))

    def _add(self, counter: Counter, taken: np.ndarray[Any, Any], least: np.ndarray[Any, Any]) -> None:
        counter.requests += len(taken)
        counter.taken += int(taken.sum())
        counter.least += int(least.sum())
        counter.worst = max(counter.worst, float((taken / least).max()))

    def table(self) -> list[Counter]:
        """All counters, by line."""
        return sorted(self.counters.values(), key=lambda counter: (counter.line, counter.space, counter.what))


def _per_warp(warps: np.ndarray[Any, Any], units: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """For each warp the number of distinct units."""
    pairs = np.unique(np.stack([warps, units]), axis=1)
    return np.unique(pairs[0], return_counts=True)[1]
