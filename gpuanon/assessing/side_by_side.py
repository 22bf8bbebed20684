"""Measures side by side, from one queue: a thread that is done takes the next one, of whatever arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from threading import Lock
from typing import TypeVar

from gpuanon.arrays import progress
from gpuanon.arrays.threads import each_task
from gpuanon.assessing.comparison import Comparison
from gpuanon.assessing.measure import Measure
from gpuanon.assessing.shared_arrays import by_kind, give_up, given_up_together

Result = TypeVar("Result")


def side_by_side(measures: Sequence[Measure], one: Callable[[Measure], Result], whole: Comparison) -> dict[str, Result]:
    """The result of `one` for every measure, by name.

    Measures of the same arrays follow each other, long ones first.  Their arrays are given up when the last of them is
    done: by then measures of the next arrays may be at work.  What must run beside no other one runs before all.
    """
    left = Counter(measure.arrays for measure in measures)
    lock = Lock()

    def run(measure: Measure) -> Result:
        result = one(measure)
        with lock:
            left[measure.arrays] -= 1
            done = measure.arrays is not None and not any(left[kind] for kind in given_up_together(measure.arrays))
        if done:
            give_up(whole, measure.arrays)
        return result

    queue = [measure for _, those in by_kind(measures) for measure in sorted(those, key=lambda one: -one.long)]
    alone = [measure for measure in queue if measure.alone]
    found = {measure.name: run(measure) for measure in alone}
    together = [measure for measure in queue if not measure.alone]
    with progress.share(0.99 * len(alone) / max(1, len(queue)), 0.99):
        return found | dict(zip((measure.name for measure in together), each_task(run, together), strict=True))
