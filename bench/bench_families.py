"""Time of noise, swapping and synthesis, from a table in memory to a checked release.

    python bench/bench_families.py [--rows 1000000] [--only NAME ...] [--json]

Ten columns: six correlated numbers, two coarse numbers, a category of six levels and one of two.  Processor seconds
stand beside wall seconds: the former do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
import pyarrow as pa

import gpuanon

KEY = b"the key of the benchmark of families"
CORE = ["level", "two"]
OTHERS = ["n0", "n1", "n2", "n3", "n4", "n5", "coarse0", "coarse1"]

MASKS: dict[str, dict[str, Any]] = {
    "noise, correlated": {"method": "noise", "kind": "correlated"},
    "noise, resampled and exact": {"method": "noise", "kind": "corrected", "resample": True, "exact": True},
    "noise, mixture": {"method": "noise", "kind": "mixture"},
    "noise, normal scores": {"method": "noise", "kind": "normal-scores"},
    "noise, by density": {"method": "noise", "kind": "data-dependent", "b": 1.0},
    "rank-swap": {"method": "rank-swap"},
    "column-swap": {"method": "column-swap"},
    "core-swap": {"method": "core-swap", "core": CORE, "columns": OTHERS},
    "cluster-swap": {"method": "cluster-swap", "k": 10},
    "targeted-swap": {"method": "targeted-swap", "columns": ["level"], "match": ["coarse0", "coarse1"], "rate": 0.05},
    "data-shuffle": {"method": "data-shuffle"},
    "copula": {"method": "copula"},
    "univariate-synthesis": {"method": "univariate-synthesis"},
    "latin-hypercube": {"method": "latin-hypercube"},
    "table-synthesis": {"method": "table-synthesis", "columns": ["n0", "n1", "coarse0", "level", "two"]},
    "maximum-entropy": {"method": "maximum-entropy", "columns": OTHERS},
    "clustered-synthesis": {"method": "clustered-synthesis", "k": 20},
    "sequential-synthesis, cart": {"method": "sequential-synthesis"},
    "sequential-synthesis, parametric": {"method": "sequential-synthesis", "model": "parametric"},
    "microaggregation, v-mdav": {"method": "microaggregation", "groups": "v-mdav", "k": 5},
}


def table(rows: int) -> pa.Table:
    """The columns, from a fixed seed."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(rows, 10)) @ np.linalg.cholesky(0.6 * np.eye(10) + 0.4).T
    columns: dict[str, Any] = {f"n{j}": np.round(Z[:, j], 4) for j in range(6)}
    columns |= {f"coarse{j}": np.rint(10 * Z[:, 6 + j]).astype(np.int32) for j in range(2)}
    columns["level"] = np.array(list("abcdef"))[np.digitize(Z[:, 8], [-1.5, -0.7, 0, 0.7, 1.5])]
    columns["two"] = np.where(Z[:, 9] > 0, "y", "n")
    return pa.table(columns)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", default=list(MASKS))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    data = table(options.rows)
    for name in options.only:
        mask = MASKS[name]
        masked = mask.get("columns", data.column_names)
        columns = {column: {"role": "quasi", "keep": column not in masked} for column in data.column_names}
        recipe = {"columns": columns, "mask": [mask]}
        wall, cpu = time.perf_counter(), time.process_time()
        gpuanon.protect(data, recipe, rng=KEY, backend="numpy")
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if options.json:
            print(json.dumps({"name": name, "rows": options.rows, "seconds": wall, "processor": cpu}), flush=True)
        else:
            print(f"{name:36} {options.rows:>9} rows {wall:8.1f} s {cpu:8.1f} processor s", flush=True)


if __name__ == "__main__":
    main()
