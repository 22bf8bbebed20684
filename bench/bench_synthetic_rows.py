"""Seconds and memory of synthetic rows at scale: classes and numbers of rows, and a tree fill of one column.

    python bench/bench_synthetic_rows.py [--rows 5000000] [--nulls category|wildcard] [--json]

Students of online courses as in `studies/synthetic_rows_data.py`: six quasi-identifiers, and the grade to be filled.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent / "studies"))

from synthetic_rows_data import COLUMNS, QUASI, courses

import gpuanon


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--nulls", choices=["category", "wildcard"], default="category")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    table = courses(options.rows).select([*QUASI, "grade"])
    made = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    columns = {name: COLUMNS[name] for name in (*QUASI, "grade")}
    recipe = {"columns": columns, "nulls": options.nulls, "mask": [{"method": "synthetic-rows", "k": 5}]}
    start, used = time.perf_counter(), time.process_time()
    release = gpuanon.protect(table, recipe, rng=5, backend="numpy")
    found = {
        "rows": options.rows,
        "nulls": options.nulls,
        "rows_added": release.manifest["rows_added"],
        "smallest_class": release.manifest["quasi"]["smallest_class"],
        "mean_bias": float(np.mean(release.data["grade"]) - np.mean(table["grade"])),
        "seconds": round(time.perf_counter() - start, 1),
        "processor_seconds": round(time.process_time() - used, 1),
        "load": round(os.getloadavg()[0], 1),
        "memory_gb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6, 2),
        "memory_before_gb": round(made, 2),
    }
    print(json.dumps(found) if options.json else found)


if __name__ == "__main__":
    main()
