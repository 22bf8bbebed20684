"""Who does the tasks of a run: this process, further processes of this machine, or the workers of a Dask client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gpuanon.arrays import progress


class Workers(Protocol):
    """Who does the tasks."""

    def __call__(self, task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Apply `task` to every item; results in the order of the items."""


def in_turn(task: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    """The simplest workers: this process, one task after the other."""
    results = []
    for number, item in enumerate(items, 1):
        results.append(task(item))
        if len(items) > 1:
            progress.report(0.99 * number / len(items))
    return results
