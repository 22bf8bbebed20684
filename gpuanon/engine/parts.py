"""The engine for a table in parts: larger than memory, on any number of workers.

A run goes through the stages of `gpuanon.engine.stages`.  Who does the tasks is the runner's business: this process,
one after the other, or the workers of a Dask cluster (`gpuanon.engine.dask`).  Everything that decides the release
is fixed by the data, the recipe, the key and the cell size: never by the parts, the workers or the order of events.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gpuanon.arrays import progress

CELL_ROWS = 100_000
PART_ROWS = 500_000
SAMPLED_A_CELL = 256


class Runner(Protocol):
    """Who does the tasks."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply `task` to every item; results in the order of the items."""


def in_turn(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest runner: this process, one task after the other."""
    results = []
    for number, item in enumerate(items, 1):
        results.append(task(item))
        progress.report(0.99 * number / len(items))
    return results
