"""Time of every method, from a table in memory to a checked release.

    python bench/bench_families.py [--rows 1000000] [--only NAME ...] [--json]
    python bench/bench_families.py --sd2011          # 5000 records of GPUANON_DATA, sequential synthesis by trees

Ten columns: six correlated numbers, two coarse numbers, a category of six levels and one of two.  Processor seconds
stand beside wall seconds: the former do not depend on what else the machine does.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import gpuanon
from gpuanon.errors import GuaranteeError

KEY = b"the key of the benchmark of families"
CORE = ["level", "two"]
CODED = ["coarse0", "coarse1", "level", "two"]
OTHERS = ["n0", "n1", "n2", "n3", "n4", "n5", "coarse0", "coarse1"]

HIERARCHIES = {name: {"hierarchy": {"build": "intervals", "widths": [5, 10, 20]}} for name in ("coarse0", "coarse1")}
NAMED = [*([name] for name in OTHERS), *([name, name] for name in OTHERS), ["n0", "n1"], ["n2", "coarse0"]]

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
    "maximum-entropy, named": {"method": "maximum-entropy", "columns": OTHERS, "moments": NAMED},
    "sequential-synthesis, partly": {"method": "sequential-synthesis", "columns": ["n0", "n1"], "given": CORE},
    "microaggregation": {"method": "microaggregation", "k": 5},
    "distribution-preserving": {"method": "distribution-preserving", "k": 10},
    "svd-swap": {"method": "svd-swap"},
    "pica": {"method": "pica"},
    "clustered-swap": {"method": "clustered-swap"},
    "rhs, 2 columns": {"method": "rhs", "k": 5, "columns": ["n0", "n1"]},
    "spectral-rhs": {"method": "spectral-rhs", "k": 5},
    "mondrian": {"method": "mondrian", "k": 5},
    "optimal-boxes, 3 columns": {"method": "optimal-boxes", "k": 5, "columns": ["n0", "n1", "n2"]},
    "suppress": {"method": "suppress", "k": 2, "columns": ["coarse0", "level", "two"]},
    "synthetic-rows": {"method": "synthetic-rows", "k": 5, "columns": ["coarse0", "level", "two"]},
    "blank": {"method": "blank", "k": 5, "columns": CODED},
    "random-suppress": {"method": "random-suppress", "k": 5, "columns": ["coarse0", "level", "two"]},
    "recode, given levels": {"method": "recode", "columns": CODED, "levels": {"coarse0": 2, "coarse1": 2}},
    "recode, searched": {"method": "recode", "columns": CODED, "k": 5, "limit": 0.05},
    "pram": {"method": "pram", "columns": ["level", "two"]},
    "spectral × tca × tree-swap": {
        "groups": {"use": "spectral", "target": 250},
        "basis": {"use": "tca", "per_group": True},
        "operation": {"use": "tree-swap"},
    },
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


def recipe(name: str, columns: list[str]) -> dict[str, Any]:
    """The recipe of one of `MASKS`: what it does not mask is kept as it is."""
    mask = MASKS[name]
    masked = mask.get("columns", columns)
    if mask.get("method") == "distribution-preserving":  # what it hides is beside what the records stand
        return {
            "columns": {column: {"role": "quasi"} for column in columns} | {"two": {"role": "sensitive"}},
            "mask": [mask],
        }
    roles: dict[str, dict[str, Any]] = {column: {"role": "quasi", "keep": column not in masked} for column in columns}
    if mask.get("method") == "recode":
        roles = {column: values | HIERARCHIES.get(column, {}) for column, values in roles.items()}
    return {"columns": roles, "mask": [mask]}


def sd2011() -> None:
    """Sequential synthesis by trees of ten columns of the social diagnosis, as synthpop's example has them."""
    import csv

    import pandas as pd

    folder = Path(os.environ["GPUANON_DATA"]) / "sd2011"
    with open(folder / "syn_cart_seed34567.csv", newline="") as file:
        names = next(csv.reader(file))
    data = pd.read_csv(folder / "sd2011.csv")[names]
    recipe = {"columns": {name: {"role": "quasi"} for name in names}, "mask": [{"method": "sequential-synthesis"}]}
    wall, cpu = time.perf_counter(), time.process_time()
    gpuanon.protect(data, recipe, rng=KEY, backend="numpy")
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    print(f"sd2011, {len(data)} × {len(names)}, sequential-synthesis: {wall:.1f} s {cpu:.1f} processor s")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--only", nargs="*", default=list(MASKS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sd2011", action="store_true")
    options = parser.parse_args()
    if options.sd2011:
        sd2011()
        return
    data = table(options.rows)
    for name in options.only:
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            gpuanon.protect(data, recipe(name, data.column_names), rng=KEY, backend="numpy")
        except GuaranteeError as error:
            print(f"{name:36} {options.rows:>9} rows refused: {error}", flush=True)
            continue
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        if options.json:
            print(json.dumps({"name": name, "rows": options.rows, "seconds": wall, "processor": cpu}), flush=True)
        else:
            print(f"{name:36} {options.rows:>9} rows {wall:8.1f} s {cpu:8.1f} processor s", flush=True)


if __name__ == "__main__":
    main()
