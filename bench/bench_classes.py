"""Classes at scale: equal codes, nulls as wildcards, and local suppression, on generated tables.

    python bench/bench_classes.py [ROWS OF CLASSES] [ROWS OF LOCAL SUPPRESSION]

Prints wall and processor seconds.  The columns have 300, 2, 60, 180, 8 and 15 values (100, 2, 60, 50, 8 and
15 for local suppression), which are skewed: many combinations are rare.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gpuanon.masking.operations.blank.local_suppression import kept_cells
from gpuanon.numerics.compatible import covering_counts
from gpuanon.numerics.patterns import Patterns


def skewed(rows: int, widths: list[int], tail: float, scale: float, nulls: float, seed: int) -> Any:
    """(rows, columns) codes; the first values are the commonest."""
    rng = np.random.default_rng(seed)
    columns = [
        np.minimum((rng.pareto(tail, rows) * width / scale).astype(np.int64), width - 1)
        if width > 2
        else rng.integers(0, 2, rows)
        for width in widths
    ]
    codes = np.stack(columns, axis=1)
    codes[rng.random(codes.shape) < nulls] = -1
    return codes


def timed(what: str, work: Callable[[], Any]) -> Any:
    """The result of `work`, whose times are printed."""
    wall, used = time.perf_counter(), time.process_time()
    result = work()
    print(f"{what}: {time.perf_counter() - wall:.1f} s ({time.process_time() - used:.1f})", flush=True)
    return result


def main() -> None:
    rows = [int(float(number)) for number in sys.argv[1:]] + [5_000_000, 1_000_000][len(sys.argv) - 1 :]
    codes = skewed(rows[0], [300, 2, 60, 180, 8, 15], 1.0, 12, 0.1, 0)
    patterns = timed(f"classes of {rows[0]} rows", lambda: Patterns.of(codes))
    print(f"  {len(patterns.codes)} combinations")
    timed("records that have all values of each", lambda: covering_counts(patterns.codes, patterns.counts))
    codes = skewed(rows[1], [100, 2, 60, 50, 8, 15], 1.5, 8, 0.0, 1)
    patterns = Patterns.of(codes)
    lines = timed(f"local suppression of {rows[1]} rows, k = 5", lambda: kept_cells(patterns.codes, patterns.counts, 5))
    small = patterns.counts < 5
    print(
        f"  {int(patterns.counts[small].sum())} records in {int(small.sum())} classes below 5:"
        f" {lines.cost(patterns.codes, np.ones(6)):.0f} cells"
    )


if __name__ == "__main__":
    main()
