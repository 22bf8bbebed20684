"""Risk by combination and proposals at size: minimal sample uniques of 1 M × 8 up to triples; `init` of 1 M × 60.

Run as ``python bench/bench_proposals.py``; prints wall time, processor time and the largest memory.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from gpuanon.assessing.risk.suda2 import uniques

ROWS = 1_000_000
LEVELS = {"mixed": (100, 2, 50, 10, 5, 900, 17, 40), "wide": (300,) * 8, "continuous": (ROWS,) * 8}


def minimal_uniques() -> None:
    """Three kinds of columns."""
    rng = np.random.default_rng(0)
    for kind, counts in LEVELS.items():
        codes = np.stack([rng.integers(0, count, ROWS) for count in counts], axis=1)
        began, work = time.perf_counter(), time.process_time()
        found = uniques(codes, [f"c{at}" for at in range(len(counts))], 3)
        seconds, processor = time.perf_counter() - began, time.process_time() - work
        print(f"suda2, {ROWS:,} × 8, {kind}: {seconds:.1f} s ({processor:.1f}), {found.share:.1%} of the records")


def table() -> pa.Table:
    """Sixty columns: identifiers, numbers, categories, codes, amounts."""
    rng = np.random.default_rng(0)
    columns = {
        "patient_id": rng.permutation(ROWS) + ROWS,
        "age": rng.integers(0, 100, ROWS),
        "sex": rng.integers(0, 2, ROWS),
        "zip": rng.integers(10_000, 10_090, ROWS),
        "email": pa.array([f"u{at}@example.org" for at in range(ROWS)]),
    }
    columns |= {f"lab{at}": rng.normal(100, 20, ROWS).round(2) for at in range(20)}
    levels = np.array([f"level{at}" for at in range(10)])
    columns |= {f"cat{at}": pa.array(levels[rng.integers(0, 10, ROWS)]) for at in range(15)}
    columns |= {f"int{at}": rng.integers(0, 1000, ROWS) for at in range(15)}
    columns |= {f"cost{at}": rng.lognormal(6, 2, ROWS).round(2) for at in range(5)}
    return pa.table(columns)


def init() -> None:
    """The command, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "registry.csv"
        pyarrow.csv.write_csv(table(), path)
        began = time.perf_counter()
        command = [sys.executable, "-m", "gpuanon.faces.cli", "init", str(path), "--yes", "--quiet"]
        subprocess.run(command, check=True, capture_output=True)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        processor = used.ru_utime + used.ru_stime
        print(
            f"init, {ROWS:,} × 60, CSV of {path.stat().st_size / 1e6:.0f} MB: {time.perf_counter() - began:.1f} s"
            f" ({processor:.1f}), {used.ru_maxrss / 1e6:.1f} GB"
        )


if __name__ == "__main__":
    minimal_uniques()
    init()
